"""A worker without work asks by statements that were compiled once: the ORM builds none anew."""

import asyncio
from typing import Any

import pytest
from django.db.models.sql.compiler import SQLCompiler, SQLInsertCompiler

from allowlist.unfinished_forgetting import left_behind
from channels_app.worker.runner import Runner
from core.database.transactions import in_thread
from core.models import User
from gateway_project.backups import scheduled
from tests.channels_app.running import memory_account

pytestmark = pytest.mark.django_db(transaction=True)
# All that a worker repeats within ten seconds, besides its heartbeat.
LOOKS = (scheduled.take, left_behind)


def test_a_sweep_without_work_builds_no_statement(
    owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chore that is added asks with HasRows, Values or Instances, too."""
    memory_account()
    worker = Runner()

    async def look() -> None:
        await worker._sweep()
        await worker._watch_installation()
        await worker._fire_schedules()
        for each in LOOKS:
            await in_thread(each)

    asyncio.run(look())  # the first one compiles them
    built: list[str] = []
    for compiler in (SQLCompiler, SQLInsertCompiler):
        monkeypatch.setattr(compiler, "execute_sql", noted(compiler, built))
    asyncio.run(look())
    assert built == []
    assert User.objects.count() == 1
    assert len(built) == 1  # it is counted
    worker.loop.close()


def noted(compiler: Any, built: list[str]) -> Any:
    """Return the method that executes a statement of the ORM, and notes its table in ``built``."""
    execute = compiler.execute_sql

    def execute_and_note(self: Any, *args: Any, **kwargs: Any) -> Any:
        built.append(self.query.get_meta().label)
        return execute(self, *args, **kwargs)

    return execute_and_note
