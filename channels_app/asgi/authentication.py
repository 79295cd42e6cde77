"""Authentication of HTTP requests by API key: identity from the credential, never the body
([A10])."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from django.conf import settings
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError, Request
from core.database.batching import in_shared_thread
from core.models import ChannelAccount, User

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="latchkey"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of an API key: a person, or a bridge account, which names its senders."""

    key: ApiKey
    user: User | None
    account: ChannelAccount | None


def token_of(request: Request) -> str:
    """Return the key of a request. Raises RefusedError 400 if it is in the URL, which gets
    logged."""
    if any(request.query(name) for name in ("key", "api_key", "token", "access_token")):
        raise RefusedError(400, "A key must not be in the address: send it as a header.")
    scheme, _, token = request.header("authorization").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return request.header("x-api-key")


async def authenticate(request: Request, *, scope: str) -> Caller:
    """Return the caller of a request, allowed ``scope``. Raises RefusedError 401, 403 or 429."""
    # On the loop, so that a flood costs no database thread.
    subject = throttling.network_of(request.address)
    throttling.addresses.here(subject=subject, limit=settings.RATE_PER_MINUTE_ADDRESS)
    token = token_of(request)
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
    """Count a request of a sender that a bridge names, so that one sender cannot use up the limit
    of all. It may wait for the broker: not on an event loop. Raises RefusedError 429."""
    subject = f"account:{account.pk}:{sender.strip().casefold()}"
    throttling.people.check(subject=subject, limit=settings.RATE_PER_MINUTE_USER)


def caller_of(*, token: str, scope: str, address: str) -> Caller:
    """Return the caller with ``token``, allowed ``scope``. Raises RefusedError 401, 403 or 429."""
    count_everywhere(address)
    key = keys.authenticate(token=token, now=timezone.now())
    if key is None:
        if token:
            count_failure(address)
        raise RefusedError(401, "Permission denied", headers=CHALLENGE)
    if scope not in key.scopes:
        raise RefusedError(403, f"This key has no scope {str(scope)!r}.")
    count_caller(key)
    return Caller(key=key, user=key.user, account=key.account)


@contextmanager
def slot(caller: Caller, *, sender: str = "", wanted: bool = True) -> Iterator[None]:
    """Hold one of the streams that a person, or a sender of a bridge, may have open at once.

    Raises RefusedError 429.
    """
    subject = caller.user.id if caller.user else f"account:{caller.key.account_id}:{sender}"
    if not wanted:
        yield
        return
    with throttling.streams.one(user_id=subject, limit=settings.MAX_STREAMS_PER_USER):
        yield
