"""A process that calls a provider: ``python -m tests.core.providers.caller URL MODEL CALLS``.

All calls at once, of a provider that takes MOST. The environment: MOST, LEASE_SECONDS.
"""

import asyncio
import os
import sys
from contextlib import aclosing

import django

django.setup()

from core.providers import registry, semaphore  # noqa: E402 - the settings come first
from core.providers.base import ModelRequest  # noqa: E402
from tests.core.providers.rows import provider  # noqa: E402

HI = [{"role": "user", "content": "hi"}]


async def main(url: str, model: str, calls: int) -> None:
    """Call, and end when all are answered."""
    semaphore.LEASE_SECONDS = float(os.environ["LEASE_SECONDS"])
    semaphore.RENEW_SECONDS = semaphore.LEASE_SECONDS / 4
    most = int(os.environ["MOST"])
    row = provider(base_url=url, concurrency=most, first_token_seconds=120, idle_seconds=120)

    async def call() -> None:
        async with aclosing(
            registry.provider_of(row).stream(ModelRequest(HI, model=model))
        ) as all_:
            async for _ in all_:
                pass

    await asyncio.gather(*(call() for _ in range(calls)))
    await registry.close()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
