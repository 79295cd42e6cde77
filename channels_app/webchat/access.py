"""Authenticate sockets: the cookie's session or the key of the first frame, and the origin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi.authentication import caller_of
from core.models import ChannelAccount, User

SECRET_NAMES = ("key", "api_key", "token", "access_token", "auth")


@dataclass(frozen=True, slots=True)
class Speaker:
    """An authenticated user, or a bridge account that names its senders, with the credential."""

    user: User | None
    account: ChannelAccount | None = None
    session_key: str = ""
    key_id: int = 0

    @property
    def subject(self) -> str:
        """Return the subject of rate limits."""
        if self.user is not None:
            return f"user:{self.user.id}"
        return f"account:{self.account.id}" if self.account else ""

    @property
    def credential(self) -> tuple[str, int]:
        """Return the credential's identity: the session's key, or the id of the API key."""
        return self.session_key, self.key_id

    @property
    def keys(self) -> list[str]:
        """Return the pubsub keys to listen to: the user's runs and notices, and revocations."""
        return [self.subject, *([f"key:{self.key_id}"] if self.key_id else [])]

    @property
    def number(self) -> int:
        """Return the number under which sockets are counted; negative for bridges."""
        if self.user is not None:
            return self.user.id
        return -self.account.id if self.account else 0


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a handshake, by lower-case name."""
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
    }


def has_secret_in_address(scope: Mapping[str, Any]) -> bool:
    """Return whether the address contains a key: addresses are logged."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return any(name in query for name in SECRET_NAMES)


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
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def by_session(session_key: str) -> Speaker | None:
    """Return the user signed in under ``session_key``."""
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(cast("HttpRequest", SimpleNamespace(session=store)))
    if not user.is_authenticated or not user.is_active:
        return None
    return Speaker(user, session_key=session_key)


def by_key(*, token: str, address: str) -> Speaker:
    """Return the holder of the key. Raises RefusedError 401, 403 or 429."""
    caller = caller_of(token=token, scope=ApiKey.Scope.CHAT, address=address)
    return Speaker(caller.user, caller.account, key_id=caller.key.id)


def is_still(speaker: Speaker) -> bool:
    """Return whether the credential is still valid ([A9]); checked after revocations."""
    return not ended([speaker])


def ended(speakers: Sequence[Speaker]) -> set[tuple[str, int]]:
    """Return the credentials of these speakers that are no longer valid ([A9])."""
    numbers = {each.key_id for each in speakers if not each.session_key}
    found = ApiKey.objects.select_related("user", "account").in_bulk(numbers)
    now = timezone.now()
    usable = {number for number, key in found.items() if keys.usable(key, now)}
    return {
        each.credential
        for each in speakers
        if not (by_session(each.session_key) if each.session_key else each.key_id in usable)
    }
