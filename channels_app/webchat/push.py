"""The calls of the web chat about notifications of a browser (Web Push)."""

import binascii
import logging
import re
from base64 import urlsafe_b64decode
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.signals import user_logged_out
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_GET, require_POST

from channels_app.asgi import http
from channels_app.asgi.sessions import stored_session
from channels_app.push import keys
from channels_app.webchat.views import (
    BadRequestError,
    Json,
    change_setting,
    for_signed_in,
    person,
    refusal,
)
from core.conversations import push_subscriptions
from core.conversations.push_subscriptions import Browser
from core.lib import safe_fetch
from core.lib.encryption import DecryptError

logger = logging.getLogger(__name__)

ENDPOINT = re.compile(r"https://[\x21-\x7e]{1,990}")
AUTH_BYTES, POINT_BYTES = 16, 65
NO_ENDPOINT = "endpoint must be an https address."
NO_KEYS = "keys must hold p256dh and auth of the browser."
NO_ID = "id must be the number of a browser."
NO_WAY = "by must be tap, page or worker."
# In the session of a browser that its person removed from another one: its page enables nothing by
# itself any more.
REMOVED = "push_removed"
UNAVAILABLE = gettext_noop("Notifications are not available: the gateway cannot open its own keys.")
UNKNOWN = "A browser"
# In this order: Edge and Opera also say Chrome, and Chrome also says Safari.
BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


@require_POST
@for_signed_in
def key(request: HttpRequest) -> Json | HttpResponse:
    """Return the public key to which browsers bind their subscription."""
    del request
    try:
        return {"key": keys.public_key()}
    except DecryptError:
        return refusal(503, gettext(UNAVAILABLE))


@require_POST
@for_signed_in
def subscribe(request: HttpRequest) -> Json:
    """Handle ``{"endpoint", "keys": {"p256dh", "auth"}, "by"?}``: this browser wants notifications.

    It is this person's from now on, for as long as the session of the browser lasts. ``by``: a
    ``tap`` of the person, or without one the ``page``, or the service ``worker``, whose address has
    changed. Without a tap nothing is kept that was removed meanwhile: ``{"removed": true}``.
    """
    given = http.parse_object(request.body)
    browser = described(given, request.META.get("HTTP_USER_AGENT", ""))
    user, session = person(request), request.session
    session_key = session.session_key or ""
    by = given.get("by", "tap")
    if by == "tap":
        session.pop(REMOVED, None)
    elif by == "page":
        if session.get(REMOVED):
            return {"ok": True, "removed": True}
    elif by != "worker":
        raise BadRequestError(NO_WAY)
    elif not any(each.session_key == session_key for each in push_subscriptions.of(user)):
        return {"ok": True, "removed": True}
    push_subscriptions.keep(user=user, session_key=session_key, browser=browser)
    return {"ok": True}


@require_GET
@for_signed_in
def browsers(request: HttpRequest) -> Json:
    """Return the person's browsers with notifications, and a form token for the service worker."""
    here = request.session.session_key
    rows = [
        {
            "id": each.pk,
            "name": shown_name(each.browser),
            "since": each.created_at.isoformat(),
            "is_here": each.session_key == here,
        }
        for each in push_subscriptions.of(person(request))
    ]
    return {"browsers": rows, "token": get_token(request)}


@require_POST
@for_signed_in
def remove(request: HttpRequest) -> Json:
    """Handle ``{"endpoint"}``: this browser wants no notifications any more; or ``{"id"}``: one of
    the person's list, which another browser may be.
    """
    given, user = http.parse_object(request.body), person(request)
    if "id" not in given:
        push_subscriptions.forget(user=user, endpoint=endpoint_of(given))
        return {"ok": True}
    number = given["id"]
    if type(number) is not int:
        raise BadRequestError(NO_ID)
    for each in push_subscriptions.of(user):
        if each.pk == number:
            keep_removed(each.session_key)
            push_subscriptions.forget(user=user, id=number)
    return {"ok": True}


def keep_removed(session_key: str) -> None:
    """Note in the session of a browser that it was removed, until a tap there."""
    session = stored_session(session_key)
    if session.exists(session_key):
        session[REMOVED] = True
        session.save()


@require_POST
@for_signed_in
def change_settings(request: HttpRequest) -> Json:
    """Handle ``{"hide_text": true | false}``."""
    wanted = http.parse_object(request.body).get("hide_text")
    if not isinstance(wanted, bool):
        raise BadRequestError("hide_text must be true or false.")
    change_setting(person(request), "hide_push_text", wanted)
    return {"ok": True}


def described(given: Json, user_agent: str) -> Browser:
    """Return the browser that a page describes. Raises BadRequestError."""
    found = given.get("keys")
    p256dh = found.get("p256dh") if isinstance(found, dict) else None
    auth = found.get("auth") if isinstance(found, dict) else None
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(p256dh))
        if (len(decoded(p256dh)), len(decoded(auth))) != (POINT_BYTES, AUTH_BYTES):
            raise BadRequestError(NO_KEYS)
    except (ValueError, binascii.Error) as error:
        raise BadRequestError(NO_KEYS) from error
    return Browser(
        endpoint=endpoint_of(given), p256dh=str(p256dh), auth=str(auth), name=name_of(user_agent)
    )


def decoded(value: object) -> bytes:
    """Return the bytes of base64url without padding. Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", value):
        raise ValueError("not base64url")
    return urlsafe_b64decode(value + "=" * (-len(value) % 4))


def endpoint_of(given: Json) -> str:
    """Return the address in a body. Raises BadRequestError."""
    endpoint = given.get("endpoint")
    if not isinstance(endpoint, str) or not ENDPOINT.fullmatch(endpoint):
        raise BadRequestError(NO_ENDPOINT)
    try:
        parts = urlsplit(endpoint)
        is_asked = parts.port is None or parts.port in safe_fetch.PORTS
        is_good = bool(parts.hostname) and parts.username is None and is_asked
    except ValueError as error:
        raise BadRequestError(NO_ENDPOINT) from error
    if not is_good:
        raise BadRequestError(NO_ENDPOINT)
    return endpoint


def name_of(user_agent: str) -> str:
    """Return a browser as people call it, such as "Firefox on Android"."""
    browser = next((name for mark, name in BROWSERS if mark in user_agent), UNKNOWN)
    system = next((name for mark, name in SYSTEMS if mark in user_agent), "")
    return f"{browser} on {system}" if system else browser


def shown_name(name: str) -> str:
    """Return the name of a browser in the person's language."""
    browser, _, system = name.partition(" on ")
    if not system:
        return gettext("A browser") if browser in ("", UNKNOWN) else browser
    shown = gettext("A browser") if browser == UNKNOWN else browser
    return gettext("{browser} on {system}").format(browser=shown, system=system)


def signed_out(*, request: HttpRequest | None, user: Any, **_: object) -> None:
    """Forget the browser of a session that its person ends, which ends in any case: without it
    nothing is sent there, and the next message forgets the browser.
    """
    session_key = request.session.session_key if request is not None else None
    if user is None or not session_key:
        return
    try:
        push_subscriptions.forget(user_id=user.pk, session_key=session_key)
    except DatabaseError:
        logger.exception("the browser of a session that ends was not forgotten")


def connect_signals() -> None:
    """Call :func:`signed_out` at each sign-out, also that of the admin."""
    user_logged_out.connect(signed_out, dispatch_uid="push.signed_out")
