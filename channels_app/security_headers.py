"""Headers that every page carries."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeadersMiddleware:
    """Adds the headers that Django's own middleware does not."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Django's form."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The response with the headers it lacks."""
        response = self.get_response(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response
