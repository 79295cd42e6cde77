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
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_POST

from allowlist import account_audit
from channels_app.push import keys
from channels_app.webchat.views import BadRequestError, Json, body, for_signed_in, person, refusal
from core.conversations import push_subscriptions
from core.conversations.push_subscriptions import Browser
from core.database.transactions import atomic_write
from core.lib.encryption import DecryptError
from core.models import User

logger = logging.getLogger(__name__)

ENDPOINT = re.compile(r"https://[\x21-\x7e]{1,990}", re.ASCII)
AUTH_BYTES = 16
NO_ENDPOINT = "endpoint must be an https address."
NO_KEYS = "keys must hold p256dh and auth of the browser."
UNAVAILABLE = gettext_noop("Notifications are not available: the gateway cannot open its own keys.")
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
    """Handle ``{"endpoint", "keys": {"p256dh", "auth"}}``: this browser wants notifications.

    It is this person's from now on, for as long as the session of the browser lasts.
    """
    browser = described(body(request), request.META.get("HTTP_USER_AGENT", ""))
    push_subscriptions.keep(
        user=person(request), session_key=request.session.session_key or "", browser=browser
    )
    return {"ok": True}


@require_POST
@for_signed_in
def remove(request: HttpRequest) -> Json:
    """Handle ``{"endpoint"}``: this browser wants no notifications any more."""
    endpoint = endpoint_of(body(request))
    push_subscriptions.forget(user=person(request), endpoint=endpoint)
    return {"ok": True}


@require_POST
@for_signed_in
def change_settings(request: HttpRequest) -> Json:
    """Handle ``{"hide_text": true | false}``."""
    wanted = body(request).get("hide_text")
    if not isinstance(wanted, bool):
        raise BadRequestError("hide_text must be true or false.")
    user = person(request)
    with atomic_write():
        before = User.objects.values_list("hide_push_text", flat=True).get(id=user.id)
        if before != wanted:
            User.objects.filter(id=user.id).update(hide_push_text=wanted)
            account_audit.setting_changed(user=user, name="hide_push_text", change=(before, wanted))
    return {"ok": True}


def described(given: Json, user_agent: str) -> Browser:
    """Return the browser that a page describes. Raises BadRequestError."""
    found = given.get("keys")
    p256dh = found.get("p256dh") if isinstance(found, dict) else None
    auth = found.get("auth") if isinstance(found, dict) else None
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(p256dh))
        if len(decoded(auth)) != AUTH_BYTES:
            raise BadRequestError(NO_KEYS)
    except (ValueError, binascii.Error) as error:
        raise BadRequestError(NO_KEYS) from error
    return Browser(
        endpoint=endpoint_of(given), p256dh=str(p256dh), auth=str(auth), name=name_of(user_agent)
    )


def decoded(value: object) -> bytes:
    """Return the bytes of base64url without padding. Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", value, re.ASCII):
        raise ValueError("not base64url")
    return urlsafe_b64decode(value + "=" * (-len(value) % 4))


def endpoint_of(given: Json) -> str:
    """Return the address in a body. Raises BadRequestError."""
    endpoint = given.get("endpoint")
    if not isinstance(endpoint, str) or not ENDPOINT.fullmatch(endpoint):
        raise BadRequestError(NO_ENDPOINT)
    try:
        parts = urlsplit(endpoint)
        is_good = bool(parts.hostname) and parts.username is None and (parts.port or 443) > 0
    except ValueError as error:
        raise BadRequestError(NO_ENDPOINT) from error
    if not is_good:
        raise BadRequestError(NO_ENDPOINT)
    return endpoint


def name_of(user_agent: str) -> str:
    """Return a browser as people call it, such as "Firefox on Android"."""
    browser = next((name for mark, name in BROWSERS if mark in user_agent), "A browser")
    system = next((name for mark, name in SYSTEMS if mark in user_agent), "")
    return f"{browser} on {system}" if system else browser


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
