"""Who a socket is: the cookie's session or the key of its first frame, and where it came from."""

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
    """A person, or a bridge account that names its senders; and by which credential."""

    user: User | None
    account: ChannelAccount | None = None
    session_key: str = ""
    key_id: int = 0

    @property
    def subject(self) -> str:
        """Whose rate is counted."""
        if self.user is not None:
            return f"user:{self.user.id}"
        return f"account:{self.account.id}" if self.account else ""

    @property
    def credential(self) -> tuple[str, int]:
        """By what it was let in: the session's key, or the number of the API key."""
        return self.session_key, self.key_id

    @property
    def keys(self) -> list[str]:
        """What the hub must be listened to for: the person's runs and notices, and revocations."""
        return [self.subject, *([f"key:{self.key_id}"] if self.key_id else [])]

    @property
    def number(self) -> int:
        """Under which number its sockets are counted; bridges below zero."""
        if self.user is not None:
            return self.user.id
        return -self.account.id if self.account else 0


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a handshake, by lower-case name."""
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
    }


def has_secret_in_address(scope: Mapping[str, Any]) -> bool:
    """Whether the address carries a key: addresses are logged."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return any(name in query for name in SECRET_NAMES)


def is_ours(*, origin: str, host: str) -> bool:
    """Whether a page of this gateway opened the socket: GATEWAY_URL, or the host that was asked.

    The host must be an allowed one (a name that was rebound to us is not) and the scheme ours.
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
    """The session key in the cookies, or an empty string."""
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def by_session(session_key: str) -> Speaker | None:
    """Who is signed in under ``session_key``."""
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(cast("HttpRequest", SimpleNamespace(session=store)))
    if not user.is_authenticated or not user.is_active:
        return None
    return Speaker(user, session_key=session_key)


def by_key(*, token: str, address: str) -> Speaker:
    """Who holds the key. Raises RefusedError 401, 403 or 429."""
    caller = caller_of(token=token, scope=ApiKey.Scope.CHAT, address=address)
    return Speaker(caller.user, caller.account, key_id=caller.key.id)


def is_still(speaker: Speaker) -> bool:
    """Whether the credential still opens anything ([A9]); asked when something was revoked."""
    return not ended([speaker])


def ended(speakers: Sequence[Speaker]) -> set[tuple[str, int]]:
    """The credentials of these speakers that open nothing any more ([A9])."""
    numbers = {each.key_id for each in speakers if not each.session_key}
    found = ApiKey.objects.select_related("user", "account").in_bulk(numbers)
    now = timezone.now()
    usable = {number for number, key in found.items() if keys.usable(key, now)}
    return {
        each.credential
        for each in speakers
        if not (by_session(each.session_key) if each.session_key else each.key_id in usable)
    }
