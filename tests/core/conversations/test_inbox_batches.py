"""Requests that share a transaction: a refusal affects only its own request."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from channels_app.asgi.http import RefusedError
from core.database.batching import in_shared_transaction
from core.database.transactions import atomic_write
from core.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_refused_request_stores_nothing_and_does_not_affect_the_others() -> None:
    done: Counter[str] = Counter()
    refusal = RefusedError(413, "too large")

    def make(name: str) -> Callable[[], str]:
        def work() -> str:
            done[name] += 1
            with atomic_write(joins=True):
                User.objects.create(username=name)
                if name == "refused":
                    raise refusal
            return name

        return work

    async def ask() -> list[Any]:
        works = [make(name) for name in ("first", "a", "refused", "b")]
        return await asyncio.gather(
            *(in_shared_transaction(work) for work in works), return_exceptions=True
        )

    assert asyncio.run(ask()) == ["first", "a", refusal, "b"]
    assert set(User.objects.values_list("username", flat=True)) == {"first", "a", "b"}
    assert max(done.values()) <= 2, "once in the shared transaction, once in its own"
