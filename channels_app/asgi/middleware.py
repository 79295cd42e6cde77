"""The headers of every Django response: allowed sources and framing."""

import logging
from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext, gettext_noop

from channels_app.asgi import http
from core.database.transactions import AWAY

logger = logging.getLogger(__name__)

PAGE: Mapping[str, str] = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "media-src": "'self' blob:",
    "connect-src": "'self'",
    "object-src": "'none'",
    "frame-src": "'none'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "latchkey",
}

# The admin's own scripts are files; the library behind its menus evaluates expressions in
# attributes, so it needs 'unsafe-eval' and inline styles. Inline scripts stay forbidden.
ADMIN = (
    "default-src 'self'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
ADMIN_PATH = "/admin/"
AGAIN = gettext_noop("Try again in a moment.")
COME_AGAIN = {"Retry-After": "2"}


def policy(directives: Mapping[str, str]) -> str:
    """Return the value of a Content-Security-Policy header."""
    return "; ".join(f"{name} {value}" for name, value in directives.items())


HEADERS: Mapping[str, str] = {
    **http.SECURITY_HEADERS,
    "Content-Security-Policy": policy(PAGE),
    # Pages contain private data; files below /static/ set their own header.
    "Cache-Control": "private, no-store",
    "Permissions-Policy": (
        "accelerometer=(), autoplay=(self), camera=(), display-capture=(), geolocation=(), "
        "gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()"
    ),
}


class SecurityHeadersMiddleware(MiddlewareMixin):
    """Add the headers that a response does not set itself. Outermost: covers every response."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if request.path.startswith(ADMIN_PATH):
            response.headers.setdefault("Content-Security-Policy", ADMIN)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response


class DatabaseAwayMiddleware(MiddlewareMixin):
    """Answer 503 with ``Retry-After`` where a view cannot reach the database, or cannot write."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        if not isinstance(error, AWAY):
            return None
        logger.error("the database failed under a page", exc_info=error)
        if request.path.startswith(ADMIN_PATH):
            return HttpResponse(
                gettext(AGAIN),
                status=503,
                headers=COME_AGAIN,
                content_type="text/plain; charset=utf-8",
            )
        if "text/html" in request.headers.get("Accept", ""):  # a person opens a page
            return HttpResponse(render_to_string("500.html"), status=503, headers=COME_AGAIN)
        return JsonResponse(http.error_body(503, gettext(AGAIN)), status=503, headers=COME_AGAIN)
