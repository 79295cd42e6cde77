"""API keys for the REST interface."""

from django.conf import settings
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request

from allowlist import keys
from allowlist.models import ApiKey
from channels_app import http, limits
from channels_app.credentials import FAILURES_PER_MINUTE
from core.models import User


class ApiKeyAuthentication(BaseAuthentication):
    """A personal key, as a bearer token or in ``X-API-Key``. Bridge keys have no person here."""

    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        """(user, key); None when no key was sent. Raises AuthenticationFailed, Throttled."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = (
            token.strip() if scheme.lower() == "bearer" else request.headers.get("X-API-Key", "")
        )
        if not token:
            return None
        address = http.plain_address(str(request.META.get("REMOTE_ADDR", "")))
        try:
            limits.addresses.check(subject=address, limit=settings.RATE_PER_MINUTE_ADDRESS)
            key = keys.authenticate(token=token, now=timezone.now())
            if key is None or key.user is None:
                limits.failures.check(subject=address, limit=FAILURES_PER_MINUTE)
                raise AuthenticationFailed("Permission denied")
            subject = f"user:{key.user.pk}"
            limits.keys.check(subject=str(key.pk), limit=settings.RATE_PER_MINUTE_KEY)
            limits.people.check(subject=subject, limit=settings.RATE_PER_MINUTE_USER)
        except http.RefusedError as error:
            raise Throttled(float(error.headers["Retry-After"])) from error
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401."""
        del request
        return 'Bearer realm="latchkey"'
