"""Who may use which part of the REST interface."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from allowlist.models import ApiKey


class MayChat(BasePermission):
    """A signed-in person, or a key with the scope ``chat``."""

    scope: str = ApiKey.Scope.CHAT

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Whether the key, if there is one, has the scope."""
        del view
        if not request.user.is_authenticated:
            return False
        return not isinstance(request.auth, ApiKey) or self.scope in request.auth.scopes


class MaySend(MayChat):
    """A signed-in person, or a key with the scope ``send_result``."""

    scope = ApiKey.Scope.SEND_RESULT


class MayDecide(MayChat):
    """An owner, or an owner's key with the scope ``admin:requests``."""

    scope = ApiKey.Scope.ADMIN_REQUESTS

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Only owners decide who may speak ([A6])."""
        return super().has_permission(request, view) and getattr(request.user, "is_owner", False)
