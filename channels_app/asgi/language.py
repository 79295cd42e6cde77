"""The language of a page: the person's choice, else the browser's, else English (decision 200)."""

from inspect import iscoroutinefunction
from typing import cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.decorators import sync_and_async_middleware

from channels_app.asgi.middleware import AsyncHandler, Handler
from core.database.transactions import AWAY
from core.lib import interface_language

# Programs read English. So does the admin, as long as its own texts are English: half of a page in
# another language would be worse.
ENGLISH = ("/api/", "/admin/")


@sync_and_async_middleware
def LanguageMiddleware(  # noqa: N802 - settings name middleware like classes
    get_response: Handler | AsyncHandler,
) -> Handler | AsyncHandler:
    """Render pages in their language. After the authentication.

    Unlike Django's it knows the person's choice, and no cookie or prefix of an address.
    """
    if iscoroutinefunction(get_response):

        async def asynchronous(request: HttpRequest) -> HttpResponseBase:
            handler = cast("AsyncHandler", get_response)
            if request.path.startswith(ENGLISH):
                return await handler(request)
            # Without a session there is no user to read, and no thread to wait for.
            ask = sync_to_async(language_of) if has_session(request) else of_browser_soon
            language = await ask(request)
            with translation.override(language):
                return labelled(await handler(request), language)

        return asynchronous

    def synchronous(request: HttpRequest) -> HttpResponseBase:
        handler = cast("Handler", get_response)
        if request.path.startswith(ENGLISH):
            return handler(request)
        language = language_of(request) if has_session(request) else of_browser(request)
        with translation.override(language):
            return labelled(handler(request), language)

    return synchronous


def has_session(request: HttpRequest) -> bool:
    return settings.SESSION_COOKIE_NAME in request.COOKIES


def language_of(request: HttpRequest) -> str:
    """Return the language of a request with a session. Reads the user."""
    try:
        own = getattr(request.user, "language", "")
    except AWAY:
        own = ""  # the view will say that the database is away
    return interface_language.of_tag(own) or of_browser(request)


def of_browser(request: HttpRequest) -> str:
    return interface_language.of_header(request.headers.get("Accept-Language", ""))


async def of_browser_soon(request: HttpRequest) -> str:
    return of_browser(request)


def labelled(response: HttpResponseBase, language: str) -> HttpResponseBase:
    """Return ``response`` with its language, and what that depends on."""
    response.headers.setdefault("Content-Language", language)
    patch_vary_headers(response, ["Accept-Language"])
    return response
