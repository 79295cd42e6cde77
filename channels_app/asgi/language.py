"""The language of a page: the person's choice, else the browser's, else English (decision 200)."""

from contextlib import suppress

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin

from core.database.transactions import AWAY
from core.lib import interface_language

# Programs read English. So does the admin, as long as its own texts are English: half of a page in
# another language would be worse.
ENGLISH = ("/api/", "/admin/")


class LanguageMiddleware(MiddlewareMixin):
    """Render pages in their language. After the authentication.

    Unlike Django's it knows the person's choice, and no cookie or prefix of an address.
    """

    def process_request(self, request: HttpRequest) -> None:
        if not request.path.startswith(ENGLISH):
            translation.activate(language_of(request))

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Name the language of the response, and what that depends on."""
        if not request.path.startswith(ENGLISH):
            response.headers.setdefault("Content-Language", translation.get_language())
            patch_vary_headers(response, ["Accept-Language"])
            translation.deactivate()
        return response


def language_of(request: HttpRequest) -> str:
    """Return the language of a request. Reads the user where there is a session."""
    own = ""
    if settings.SESSION_COOKIE_NAME in request.COOKIES:
        with suppress(*AWAY):  # the view will say that the database is away
            own = getattr(request.user, "language", "")
    browsers = request.headers.get("Accept-Language", "")
    return interface_language.of_tag(own) or interface_language.of_header(browsers)
