"""Authentication of HTTP requests by API key: identity from the credential, never the body
([A10])."""

import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi import throttling
from channels_app.asgi.admission import entrance
from channels_app.asgi.http import RefusedError, Request
from channels_app.asgi.principal import DeniedError, Principal
from core.database.batching import attempt, in_shared_call
from core.database.transactions import in_thread
from core.models import ChannelAccount, Run
from core.signals import pubsub

logger = logging.getLogger(__name__)

RECHECK_SECONDS = 60.0  # a revocation may be published while Redis is away
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="latchkey"'}


class Shown(NamedTuple):
    """A key as a request shows it, and the scope that it needs."""

    token: str
    scope: str
    address: str


def token_of(request: Request) -> str:
    """Return the key of a request. Raises RefusedError 400 for one in the URL: it gets logged."""
    if any(request.query(name) for name in ("key", "api_key", "token", "access_token")):
        raise RefusedError(400, "A key must not be in the address: send it as a header.")
    scheme, _, token = request.header("authorization").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return request.header("x-api-key")


async def authenticate(request: Request, *, scope: str) -> Principal:
    """Return the caller, if allowed ``scope``. Raises RefusedError 401, 403, 429 or 503."""
    address = request.address
    count_here(address)  # on the loop, so that a flood costs no database thread
    shown = Shown(token_of(request), scope, address)
    with entrance.one():
        return await in_shared_call(callers_of, shown)


def count_address(address: str) -> None:
    """Count a request of an address before it is authenticated. Raises RefusedError 429."""
    count_here(address)
    count_everywhere(address)


def count_here(address: str) -> None:
    """Count a request of an address in this process only. Raises RefusedError 429."""
    subject = throttling.network_of(address)
    throttling.addresses.here(subject=subject, limit=settings.RATE_PER_MINUTE_ADDRESS)


def count_everywhere(address: str) -> None:
    """Count in the broker a request that :func:`count_here` has counted in this process.

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
    subject = subject_of(Principal(account=account), sender)
    throttling.people.check(subject=subject, limit=settings.RATE_PER_MINUTE_USER)


def subject_of(caller: Principal, sender: str) -> str:
    """Return the key by which a person, or a bridge's normalised sender, is counted."""
    return caller.subject if caller.user else f"{caller.subject}:{sender.strip().casefold()}"


def callers_of(shown: list[Shown]) -> list[Principal | Exception]:
    """Return the caller or the refusal of each request; their keys are read in one query.

    Addresses are counted before: a flood costs no look-up beyond its limit.
    """
    counted = [(each, attempt(partial(count_everywhere, each.address))) for each in shown]
    known = keys.named(each.token for each, refusal in counted if refusal is None)
    return [
        attempt(partial(permitted, each, known)) if refusal is None else refusal
        for each, refusal in counted
    ]


def permitted(shown: Shown, known: Mapping[str, ApiKey]) -> Principal:
    """Return the caller of a request; ``known`` are the keys that :func:`allowlist.keys.named`
    returned. Raises RefusedError 401, 403 or 429.
    """
    key = keys.authenticate(token=shown.token, now=timezone.now(), known=known)
    if key is None:
        if shown.token:
            count_failure(shown.address)
        raise DeniedError(headers=CHALLENGE)
    if shown.scope not in key.scopes:
        raise RefusedError(403, f"This key has no scope {str(shown.scope)!r}.")
    count_caller(key)
    return Principal(
        user=key.user,
        account=key.account,
        key_id=key.pk,
        scopes=key.scopes,
        model_only=key.model_only,
    )


def caller_of(*, token: str, scope: str, address: str) -> Principal:
    """Return the caller with ``token``, allowed ``scope``. Raises RefusedError 401, 403 or 429."""
    count_here(address)
    [found] = callers_of([Shown(token, scope, address)])
    if isinstance(found, Exception):
        raise found
    return found


def end_of_key(caller: Principal, run: Run) -> Callable[[], Coroutine[Any, Any, None]] | None:
    """Return what waits until the key of ``caller`` is no longer valid ([A9]); None for the key
    that began ``run``, which ends with it.
    """
    return None if run.via_key == caller.key_id else partial(until_ended, caller.key_id)


async def until_ended(key_id: int) -> None:
    """Return when an API key is no longer valid."""
    with pubsub.local().listen([f"key:{key_id}"]) as listener:
        await pubsub.local().confirmed(listener)
        while await in_thread(is_usable, key_id):
            await listener.wait(seconds=RECHECK_SECONDS)


def is_usable(key_id: int) -> bool:
    """Return whether an API key is valid; true while the database is away."""
    try:
        return key_id in ApiKey.usable_of([key_id], timezone.now())
    except DatabaseError:
        logger.exception("the key of a stream could not be checked; it is tried again")
        return True


@contextmanager
def slot(caller: Principal, *, sender: str = "", wanted: bool = True) -> Iterator[None]:
    """Hold one of the limited streams of a user, or of a bridge's sender, while the block runs.

    Raises RefusedError 429.
    """
    if not wanted:
        yield
        return
    subject = subject_of(caller, sender)
    with throttling.streams.one(user_id=subject, limit=settings.MAX_STREAMS_PER_USER):
        yield
