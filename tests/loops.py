"""Event loops of tests: one in a thread, as a web process has it, and the end of a loop's tasks."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from channels_app.telegram import bot_api

T = TypeVar("T")


async def end_tasks() -> None:
    """End the remaining tasks of this loop (the hub); a client that just connects may swallow one
    cancellation."""
    for _ in range(10):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=1)


class Loop:
    """An event loop in a thread, as a web process has one."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="web", daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` in the loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)

    def close(self) -> None:
        """End the loop, its connections to the Bot API and its tasks."""
        self.run(bot_api.close())
        self.run(end_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()
