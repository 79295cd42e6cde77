"""Authenticate sockets: the cookie's session or the key of the first frame, and the origin."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

from allowlist.models import ApiKey
from channels_app.asgi.authentication import caller_of
from channels_app.asgi.principal import Principal
from channels_app.asgi.sessions import user_of_session
from core.database.batching import attempt

SECRET_NAMES = ("key", "api_key", "token", "access_token", "auth")


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a handshake, by lower-case name."""
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
    }


def has_secret_in_address(scope: Mapping[str, Any]) -> bool:
    """Return whether the address contains a key: addresses are logged."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return any(name in query for name in SECRET_NAMES)


def is_page_of_another(scope: Mapping[str, Any], user_id: int) -> bool:
    """Return whether a page was opened by another person (``?person=``) in this browser."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return any(each != str(user_id) for each in query.get("person", []))


def is_ours(*, origin: str, host: str) -> bool:
    """Return whether a page of this gateway opened the socket: GATEWAY_URL, or the requested host.

    The host must be allowed (against DNS rebinding) and the scheme must match.
    """
    if origin == settings.GATEWAY_URL or origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    scheme = "https" if settings.GATEWAY_HTTPS else "http"
    domain, _ = split_domain_port(host)
    return (
        bool(domain)
        and validate_host(domain, settings.ALLOWED_HOSTS)
        and origin == f"{scheme}://{host}"
        and urlsplit(origin).path == ""
    )


def cookie_of(headers: Mapping[str, str]) -> str:
    """Return the session key in the cookies, or an empty string."""
    return parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME, "")


def by_session(session_key: str) -> Principal | None:
    user = user_of_session(session_key)
    return None if user is None else Principal(user, session_key=session_key)


def by_keys(asked: list[tuple[str, str]]) -> list[Principal | Exception]:
    """Return the holder of each key (token, address), or the RefusedError of :func:`caller_of`."""
    check = partial(caller_of, scope=ApiKey.Scope.CHAT)
    return [attempt(partial(check, token=token, address=address)) for token, address in asked]


def ended(principals: Sequence[Principal]) -> set[tuple[str, int]]:
    """Return which of these principals' credentials are no longer valid ([A9])."""
    numbers = {each.key_id for each in principals if not each.session_key}
    usable = ApiKey.usable_of(numbers, timezone.now())
    return {
        each.credential
        for each in principals
        if not (by_session(each.session_key) if each.session_key else each.key_id in usable)
    }
