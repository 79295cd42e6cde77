"""Processes that spend one budget: ``python -m tests.core.conversations.spenders``.

SPENDERS is a list of orders, one for each process, which is forked: ``number`` of conversations at
once, ``calls`` of each, and the ``point`` at whose ``at``-th passage it kills itself. The
tokens of its model are in its journal before anything is settled. After all have ended,
``recover`` acts as the next attempts and the sweep.
"""

import asyncio
import json
import os
import random
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

FOLDER = Path(os.environ.get("SPENDERS_FOLDER", "."))
# Passed in this order by each call; the last one by each run.
POINTS = ("reserved", "amid", "noted", "commit")


class Spender:
    """One process: its conversations, and its journal."""

    def __init__(self, number: int, order: dict[str, Any]) -> None:
        self.number, self.order = number, order
        self.left = int(order.get("at", 1))
        self.random = random.Random(number)
        self.journal = (FOLDER / f"journal.{number}").open("a")

    def note(self, **entry: Any) -> None:
        """Write a line that outlives this process."""
        self.journal.write(json.dumps(entry) + "\n")
        self.journal.flush()

    def passes(self, point: str) -> None:
        """Die here, if that is the order."""
        if point == self.order.get("point"):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def begin(self) -> list[Any]:
        """Return claimed runs, each in a conversation of its own."""
        from core.conversations import inbox, runs
        from core.database.transactions import atomic_write
        from core.models import ChannelAccount, InboundMessage, User

        name = f"spender {self.number}"
        found: list[Any] = []
        with atomic_write():
            account = ChannelAccount.objects.create(channel="platform", name=name)
            user = User.objects.create(username=name)
        for chat in range(self.order["number"]):
            with atomic_write():
                session = inbox.open_session(user=user, account=account, chat=str(chat))
                draft = inbox.Draft(account=account, chat=str(chat), text="spend")
                message, _ = inbox.store(
                    draft=draft,
                    state=InboundMessage.State.RECEIVED,
                    now=django.utils.timezone.now(),
                    user=user,
                    session=session,
                )
                run = inbox.start_run(
                    session=session, messages=[message], now=django.utils.timezone.now()
                )
                assert run is not None
                found += runs.claim(run_ids=[run.id], worker=name).values()
        return found

    async def spend(self, run: Any, known: Any) -> None:
        """Make the calls of a run, and end it."""
        from core.conversations import usage
        from core.database.transactions import in_thread
        from core.providers.base import ProviderError, Usage
        from tests.core.conversations.metered import PROMPT, REQUEST
        from tests.core.providers.chains import MODEL

        meter = usage.RunMeter.of_run(run=run, known=known)
        for _ in range(self.order["calls"]):
            try:
                most = await meter.reserve(MODEL, REQUEST)
            except ProviderError as error:
                self.note(run=run.id, refused=error.code)
                break
            assert most is not None
            self.passes("reserved")
            await asyncio.sleep(self.random.random() / 50)  # the model writes
            used = Usage(self.random.randint(1, PROMPT), self.random.randint(1, most))
            self.note(run=run.id, tokens=used.prompt_tokens + used.completion_tokens)
            self.passes("amid")
            failure = self.random.choice(["", "", "stopped", "cut"])
            meter.settled(
                MODEL, REQUEST, usage=used, output_tokens=used.completion_tokens, failure=failure
            )
            self.passes("noted")
        await in_thread(self.end, run, meter)

    def end(self, run: Any, meter: Any) -> None:
        """End a run as the writer of its log does."""
        from core.conversations import events, runs, usage

        def finish(seq: int) -> None:
            with_it = usage.settle(meter)
            outcome = runs.Outcome(state="succeeded", text="spent")
            runs.settle(run=run, outcome=outcome, last_seq=seq, with_it=with_it)
            self.passes("commit")

        events.write_batch([(events.log_of(run=run, seq=0), [], finish)])

    async def spend_all(self, found: list[Any], known: Any) -> None:
        """Spend in all conversations at once."""
        await asyncio.gather(*(self.spend(run, known) for run in found))


def be_the_child(number: int, order: dict[str, Any], ready: int, go: int) -> None:
    """Spend, and exit."""
    from django.db import connections

    from core.providers import catalogue

    code = 1
    try:
        spender = Spender(number, order)
        found = spender.begin()
        known = catalogue.current()
        os.write(ready, b".")
        os.read(go, 1)
        asyncio.run(spender.spend_all(found, known))
        connections.close_all()
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def recover() -> None:
    """Act as workers after a death: the next attempt of each run, and the sweep."""
    from django.db.models.functions import Now

    from core.conversations import events, left_calls, runs
    from core.models import Run

    Run.objects.filter(state="running").update(lease_until=Now() - timedelta(seconds=1))
    for number, run_id in enumerate(runs.recover(limit=10_000)):
        if number % 2:
            continue  # left to the sweep, as of runs that wait for a worker
        (run,) = runs.claim(run_ids=[run_id], worker="next").values()
        logged = [event for _, event in events.whole_log(run.id)]
        left_calls.take_over(run_id=run.id, attempt=run.attempt, logged=logged)
    while left_calls.close_left():
        pass


def quiet() -> None:
    """Send nothing to the broker: there is none."""
    from core.signals import pubsub, wakeups

    wakeups.send = lambda *_, **__: None
    pubsub.publish = lambda *_, **__: None  # type: ignore[assignment]


def main() -> int:
    """Fork the spenders, let them begin at once, and recover; return the number of deaths."""
    django.setup()
    quiet()
    from django.db import connections

    orders = json.loads(os.environ["SPENDERS"])
    ready, said = os.pipe()
    go, begin = os.pipe()
    children = []
    connections.close_all()
    for number, order in enumerate(orders):
        pid = os.fork()
        if pid == 0:
            os.close(begin)
            be_the_child(number, order, said, go)
        children.append(pid)
    for _ in orders:
        os.read(ready, 1)
    os.close(begin)  # all of them read its end
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    recover()
    connections.close_all()
    (FOLDER / "codes").write_text(json.dumps(codes))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    sys.exit(main())
