"""API keys for the REST interface."""

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from allowlist import keys
from allowlist.models import ApiKey
from core.models import User


class ApiKeyAuthentication(BaseAuthentication):
    """A personal key, as a bearer token or in ``X-API-Key``. Bridge keys have no person here."""

    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        """(user, key); None when no key was sent. Raises AuthenticationFailed."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = (
            token.strip() if scheme.lower() == "bearer" else request.headers.get("X-API-Key", "")
        )
        if not token:
            return None
        key = keys.authenticate(token=token, now=timezone.now())
        if key is None or key.user is None:
            raise AuthenticationFailed("Permission denied")
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401."""
        del request
        return 'Bearer realm="latchkey"'
