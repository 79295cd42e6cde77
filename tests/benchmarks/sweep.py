"""A worker without work: statements and CPU of each part that it repeats, in process, on SQLite.

python -m tests.benchmarks.sweep
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

ROUNDS = 100


def main() -> None:
    """Print a line for each part."""
    with tempfile.TemporaryDirectory(prefix="latchkey-bench-") as folder:
        os.environ.update(GATEWAY_HOME=folder, SECRET_KEY="k" * 50, DATABASE_URL="")
        os.environ["DJANGO_SETTINGS_MODULE"] = "gateway_project.settings"
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        asyncio.run(measure())


async def measure() -> None:
    from django.db import connection

    from allowlist.unfinished_forgetting import left_behind
    from channels_app.worker.runner import Runner
    from core.database.transactions import in_thread
    from gateway_project.backups import scheduled

    worker = Runner()
    parts: dict[str, Callable[[], Awaitable[object]]] = {
        "sweep, every 10 s": worker._sweep,
        "troubles, every 10 s": worker._watch_installation,
        "backups, every 5 s": lambda: in_thread(scheduled.take),
        "leftovers, every 5 s": lambda: in_thread(left_behind),
        "heartbeat, every 5 s": worker._send_heartbeat,
        "schedules, every second": worker._fire_schedules,
    }
    statements: list[str] = []
    for name, part in parts.items():
        await part()  # compiles the statements
        await in_thread(lambda: connection.connection.set_trace_callback(statements.append))
        await part()
        number = len(statements)
        await in_thread(lambda: connection.connection.set_trace_callback(None))
        statements.clear()
        began = time.process_time()
        for _ in range(ROUNDS):
            await part()
        spent = (time.process_time() - began) / ROUNDS * 1000
        sys.stdout.write(f"{name:<24} {number:3d} statements {spent:6.2f} ms of CPU\n")


if __name__ == "__main__":
    main()
