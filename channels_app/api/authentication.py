"""API key authentication for the REST API."""

from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi.authentication import count_address, count_caller, count_failure
from channels_app.asgi.http import RefusedError, plain_address
from channels_app.asgi.principal import PERMISSION_DENIED
from core.models import User


class ApiKeyAuthentication(BaseAuthentication):
    """Accept a personal key, as a bearer token or in ``X-API-Key``; bridge keys are refused."""

    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        """Return (user, key); None when no key was sent. Raises AuthenticationFailed and Throttled.

        Rate limits count as for the other endpoints: the address first, then wrong keys, then the
        user.
        """
        address = plain_address(str(request.META.get("REMOTE_ADDR", "")))
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = (
            token.strip() if scheme.lower() == "bearer" else request.headers.get("X-API-Key", "")
        )
        try:
            count_address(address)
            if not token:
                return None
            key = keys.authenticate(token=token, now=timezone.now())
            if key is None or key.user is None:
                count_failure(address)
                raise AuthenticationFailed(PERMISSION_DENIED)
            count_caller(key)
        except RefusedError as error:
            wait = int(error.headers.get("Retry-After", 0))
            raise Throttled(wait=wait, detail=str(error)) from error
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="latchkey"'


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describe the keys in the OpenAPI document; drf-spectacular finds the class by itself."""

    target_class = ApiKeyAuthentication
    name = "apiKey"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
