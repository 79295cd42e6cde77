"""Send one message to a browser's push service (RFC 8030, 8291, 8292).

The address comes from a browser: the guarded fetcher connects to public addresses only, follows no
redirect and reads little of what is answered. Addresses and texts are in no log.
"""

import asyncio
import logging
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

import aiohttp
from django.conf import settings
from django.utils import timezone
from py_vapid import Vapid02, VapidException

from channels_app.asgi.sessions import user_of_session
from channels_app.push import content, keys, presence
from core.conversations import push_messages, push_subscriptions
from core.database.transactions import in_thread
from core.lib.encryption import DecryptError
from core.lib.per_loop import per_loop
from core.lib.safe_fetch import Fetcher, Posted, RefusedAddressError
from core.models import PushMessage, PushSubscription
from core.providers.failures import wait_seconds

logger = logging.getLogger(__name__)

SECONDS = 10.0
AT_ONCE = 16
SOON_SECONDS = 0.05
ANSWER_BYTES = 1024
JWT_SECONDS = 12 * 3600  # RFC 8292: at most 24 hours
GONE = (404, 410)
URGENT = ("reminder", "question", "request")
NO_KEYS = "The stored keys cannot be opened."
OTHER_SESSION = "The browser has signed in anew."
FETCHER = Fetcher(max_seconds=SECONDS, https_only=True)


@dataclass(frozen=True, slots=True)
class Letter:
    """An encrypted message and its headers."""

    body: bytes
    headers: dict[str, str]


@per_loop
def places() -> asyncio.Semaphore:
    """Return the places for requests of the running event loop."""
    return asyncio.Semaphore(AT_ONCE)


async def send(message_id: int) -> float | None:
    """Send a due message unless its person sees a page; return the seconds until the next try."""
    async with places():
        wait = await in_thread(push_messages.due_in, message_id)
        if wait is None or wait > 0:
            return wait
        message = await in_thread(push_messages.claim, message_id)
        if message is None:
            return await in_thread(not_yet, message_id)
        letter = await in_thread(letter_of, message)
        if letter is None:
            return None
        try:
            url = message.subscription.endpoint
            posted = await FETCHER.post(
                url, body=letter.body, headers=letter.headers, most_bytes=ANSWER_BYTES
            )
        # Also for an address that is not allowed: while their line is down, routers give each name
        # one of their own.
        except (aiohttp.ClientError, OSError, ValueError, RefusedAddressError) as error:
            reason = type(error).__name__  # its text may hold the address
            logger.info("push %d was not sent: %s", message.id, reason)
            timed_out = isinstance(error, TimeoutError)
            again = push_messages.again
            return await in_thread(again, message, error=reason, seconds=None, timed_out=timed_out)
        return await in_thread(record, message, posted)


def not_yet(message_id: int) -> float | None:
    """Return when to look again at a message that could not be claimed: the database's clock may be
    some milliseconds behind. None when another worker has it.
    """
    wait = push_messages.due_in(message_id)
    return None if wait is None else max(wait, SOON_SECONDS)


def letter_of(message: PushMessage) -> Letter | None:
    """Return what is to be sent; None, and the end of the message is recorded, when nothing is."""
    subscription = message.subscription
    left = (message.expires_at - timezone.now()).total_seconds()
    if left <= 0:  # nothing ran for a day
        push_messages.stale(message)
        return None
    if presence.is_visible(subscription.user_id):
        push_messages.seen(message)
        return None
    person = user_of_session(subscription.session_key)
    if person is None or person.pk != subscription.user_id:
        # Else its person has just signed in there anew, and its page has enabled it again.
        key = subscription.session_key
        if not push_subscriptions.forget(id=subscription.pk, session_key=key):
            push_messages.again(message, error=OTHER_SESSION, seconds=None)
        return None
    said = content.of(message)
    if said is None:
        push_messages.stale(message)
        return None
    try:
        signed = signature(subscription.endpoint)
    except DecryptError:
        logger.warning("the keys of Web Push cannot be opened: was the encryption key changed?")
        push_messages.again(message, error=NO_KEYS, seconds=None, is_ours=True)
        return None
    except VapidException:  # an address without a host name
        push_subscriptions.forget(id=subscription.pk)
        return None
    body = encrypted(subscription, content.payload(message, said))
    headers = {
        "Authorization": signed,
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(int(left)),
        "Urgency": "high" if message.kind in URGENT else "normal",
        # At most 32 characters of base64url; a newer one replaces it at the service.
        "Topic": urlsafe_b64encode(sha256(message.tag.encode()).digest()[:24]).decode(),
    }
    return Letter(body, headers)


def encrypted(subscription: PushSubscription, payload: bytes) -> bytes:
    """Return ``payload`` encrypted for a browser (RFC 8291)."""
    from pywebpush import WebPusher  # noqa: PLC0415 - 7 MB, for those who use it

    info = {
        "endpoint": subscription.endpoint,
        "keys": {"p256dh": subscription.p256dh, "auth": subscription.auth},
    }
    body: bytes = WebPusher(info).encode(payload, "aes128gcm")["body"]
    return body


def signature(endpoint: str) -> str:
    """Return the Authorization of a request to a push service. Raises DecryptError."""
    parts = urlsplit(endpoint)
    claims = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": int(time.time()) + JWT_SECONDS,
        "sub": contact(),
    }
    signer = Vapid02(keys.private_key(), conf={"no-strict": True})
    found: str = signer.sign(claims)["Authorization"]
    return found


def contact() -> str:
    """Return whom a push service may write to: PUSH_CONTACT, else the gateway's own address."""
    if settings.PUSH_CONTACT:
        return str(settings.PUSH_CONTACT)
    host = urlsplit(settings.GATEWAY_URL).hostname or "localhost"
    return settings.GATEWAY_URL if settings.GATEWAY_HTTPS else f"mailto:gateway@{host}"


def record(message: PushMessage, posted: Posted) -> float | None:
    """Record a push service's answer; return the seconds to the next try, if there is one."""
    status = posted.status
    if 200 <= status < 300:
        push_messages.sent(message)
        return None
    logger.info("push %d: the service answered %d", message.id, status)
    if status in GONE:
        push_subscriptions.forget(id=message.subscription_id)
        return None
    if status == 429 or status >= 500:
        seconds = wait_seconds({name.lower(): value for name, value in posted.headers.items()})
        return push_messages.again(message, error=f"HTTP {status}", seconds=seconds)
    push_messages.refused(message, error=f"HTTP {status}")
    return None
