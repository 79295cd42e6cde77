"""Permissions of the REST API."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from allowlist.models import ApiKey


class MayChat(BasePermission):
    """Allow a signed-in user, or a key with the scope ``chat``."""

    scope: str = ApiKey.Scope.CHAT

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user.is_authenticated:
            return False
        if not isinstance(request.auth, ApiKey) or self.scope in request.auth.scopes:
            return True
        self.message = f"This key has no scope {str(self.scope)!r}."  # read by the framework
        return False


class MaySend(MayChat):
    """Allow a signed-in user, or a key with the scope ``send_result``."""

    scope = ApiKey.Scope.SEND_RESULT


class MayDecide(MayChat):
    """Allow an owner, or an owner's key with the scope ``admin:requests`` ([A6])."""

    scope = ApiKey.Scope.ADMIN_REQUESTS

    def has_permission(self, request: Request, view: APIView) -> bool:
        return super().has_permission(request, view) and getattr(request.user, "is_owner", False)
