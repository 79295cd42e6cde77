"""One timer for all sockets: followers of a run are woken, an idle socket only when it must
close.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from channels_app.asgi.principal import Principal
from channels_app.webchat import access, periodic_checks
from channels_app.webchat.following import Following
from core.signals.pubsub import Listener

BOUND_SECONDS = 60


def is_awake(listener: Listener) -> bool:
    """Return whether its reader would go on."""
    return listener._ready.is_set()


async def test_only_a_socket_that_follows_a_run_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_checks, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(periodic_checks, "POLL_AWAY_SECONDS", 0.02)
    idle, busy = Listener(), Listener()
    principal, follows = Principal(None, key_id=1), Following()
    follows.start("a-run")
    with (
        periodic_checks.local().watch(idle, principal, Following()),
        periodic_checks.local().watch(busy, principal, follows),
    ):
        async with asyncio.timeout(BOUND_SECONDS):
            assert await busy.wait() == []
            assert await busy.wait() == []
        assert not is_awake(idle)
        assert not busy.take_lag()


async def test_rws6_a_credential_is_checked_once_and_revoked_sockets_are_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many sockets it has; those of others sleep on."""
    monkeypatch.setattr(periodic_checks, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(periodic_checks, "POLL_AWAY_SECONDS", 0.02)
    monkeypatch.setattr(periodic_checks, "RECHECK_SECONDS", 0.0)
    asked: list[list[int]] = []

    def ended(principals: Sequence[Principal]) -> set[tuple[str, int]]:
        asked.append(sorted(each.key_id for each in principals))
        return {("", 1)}

    monkeypatch.setattr(access, "ended", ended)
    lost, also_lost, kept = (Listener() for _ in range(3))
    with ExitStack() as stack:
        for listener, number in ((lost, 1), (also_lost, 1), (kept, 2)):
            principal = Principal(None, key_id=number)
            stack.enter_context(periodic_checks.local().watch(listener, principal, Following()))
        async with asyncio.timeout(BOUND_SECONDS):
            await lost.wait()
            await also_lost.wait()
    assert asked[0] == [1, 2]
    assert lost.take_lag()
    assert also_lost.take_lag()
    assert not is_awake(kept)


async def test_a_check_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_checks, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(periodic_checks, "POLL_AWAY_SECONDS", 0.02)
    monkeypatch.setattr(periodic_checks, "RECHECK_SECONDS", 0.0)
    answers: list[set[tuple[str, int]]] = [{("", 1)}]

    def ended(principals: Sequence[Principal]) -> set[tuple[str, int]]:
        if answers:
            answers.clear()
            raise OSError("away")
        return {each.credential for each in principals}

    monkeypatch.setattr(access, "ended", ended)
    listener = Listener()
    with periodic_checks.local().watch(listener, Principal(None, key_id=1), Following()):
        async with asyncio.timeout(BOUND_SECONDS):
            await listener.wait()
    assert listener.take_lag()


async def test_a_socket_that_opens_as_the_last_one_closes_is_looked_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timer of the last one is ending, and not yet over."""
    monkeypatch.setattr(periodic_checks, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(periodic_checks, "POLL_AWAY_SECONDS", 0.02)
    principal, follows = Principal(None, key_id=1), Following()
    follows.start("a-run")
    with periodic_checks.local().watch(Listener(), principal, Following()):
        pass
    listener = Listener()
    with periodic_checks.local().watch(listener, principal, follows):
        async with asyncio.timeout(BOUND_SECONDS):
            assert await listener.wait() == []
