"""Authentication of HTTP requests by API key: identity from the credential, never the body
([A10])."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from django.conf import settings
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi import throttling
from channels_app.asgi.admission import entrance
from channels_app.asgi.http import RefusedError, Request
from channels_app.asgi.principal import DeniedError, Principal
from core.database.batching import in_shared_thread
from core.models import ChannelAccount

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="latchkey"'}


def token_of(request: Request) -> str:
    """Return the key of a request. Raises RefusedError 400 if it is in the URL, which gets
    logged."""
    if any(request.query(name) for name in ("key", "api_key", "token", "access_token")):
        raise RefusedError(400, "A key must not be in the address: send it as a header.")
    scheme, _, token = request.header("authorization").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return request.header("x-api-key")


async def authenticate(request: Request, *, scope: str) -> Principal:
    """Return the caller of a request, allowed ``scope``. Raises RefusedError 401, 403, 429 or
    503.
    """
    # On the loop, so that a flood costs no database thread.
    subject = throttling.network_of(request.address)
    throttling.addresses.here(subject=subject, limit=settings.RATE_PER_MINUTE_ADDRESS)
    token = token_of(request)
    with entrance.one():
        return await in_shared_thread(
            partial(caller_of, token=token, scope=scope, address=request.address)
        )


def count_address(address: str) -> None:
    """Count a request of an address before it is authenticated. Raises RefusedError 429."""
    subject = throttling.network_of(address)
    throttling.addresses.check(subject=subject, limit=settings.RATE_PER_MINUTE_ADDRESS)


def count_everywhere(address: str) -> None:
    """Count in the broker a request that :func:`authenticate` has counted in this process.

    Raises RefusedError 429.
    """
    subject = throttling.network_of(address)
    throttling.addresses.everywhere(subject=subject, limit=settings.RATE_PER_MINUTE_ADDRESS)


def count_failure(address: str) -> None:
    """Count a wrong key from an address. Raises RefusedError 429."""
    subject = throttling.network_of(address)
    throttling.failures.check(subject=subject, limit=settings.WRONG_KEYS_PER_MINUTE)


def count_caller(key: ApiKey) -> None:
    """Count a request of a key and of its person. Raises RefusedError 429."""
    throttling.keys.check(subject=str(key.pk), limit=settings.RATE_PER_MINUTE_KEY)
    if key.user_id:
        throttling.people.check(subject=f"user:{key.user_id}", limit=settings.RATE_PER_MINUTE_USER)


def count_sender(account: ChannelAccount, sender: str) -> None:
    """Count a request of a sender that a bridge names, so that one sender cannot exhaust the
    bridge's limit. May block on the broker: not on an event loop. Raises RefusedError 429.
    """
    subject = f"account:{account.pk}:{sender.strip().casefold()}"
    throttling.people.check(subject=subject, limit=settings.RATE_PER_MINUTE_USER)


def caller_of(*, token: str, scope: str, address: str) -> Principal:
    """Return the caller with ``token``, allowed ``scope``. Raises RefusedError 401, 403 or 429."""
    count_everywhere(address)
    key = keys.authenticate(token=token, now=timezone.now())
    if key is None:
        if token:
            count_failure(address)
        raise DeniedError(headers=CHALLENGE)
    if scope not in key.scopes:
        raise RefusedError(403, f"This key has no scope {str(scope)!r}.")
    count_caller(key)
    return Principal(user=key.user, account=key.account, key_id=key.pk, scopes=key.scopes)


@contextmanager
def slot(caller: Principal, *, sender: str = "", wanted: bool = True) -> Iterator[None]:
    """Hold one of the limited streams of a user, or of a bridge's sender, while the block runs.

    Raises RefusedError 429.
    """
    if not wanted:
        yield
        return
    subject = caller.subject if caller.user else f"{caller.subject}:{sender}"
    with throttling.streams.one(user_id=subject, limit=settings.MAX_STREAMS_PER_USER):
        yield
