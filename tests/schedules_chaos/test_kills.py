"""kill -9 of random processes while schedules are due, and of workers at each step of firing
([H54]).

SCHEDULE_KILLS: how many; the order is drawn from KILLS_SEED.
"""

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.channels_app.client import query
from tests.channels_app.telegram.fake_api import FakeBotApi, Params
from tests.channels_app.telegram.people import Bots, start_scripted
from tests.servers import wait_until

KILLS = int(os.environ.get("SCHEDULE_KILLS", "12"))
SEED = int(os.environ.get("KILLS_SEED", "20261125"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 10 * KILLS)]
CHATS = range(7001, 7005)
WEB_PEOPLE = 2
LONGEST_PAUSE = 2.0
# After so many kills, so many seconds without one: there it is seen how late schedules are while
# all processes are up.
BURST = 20
CALM_SECONDS = 20.0
# In which schedules are due: while processes are killed, and some afterwards.
SECONDS = int(KILLS * 0.7 + KILLS // BURST * CALM_SECONDS) + 15
EACH = max(6, SECONDS // 3)  # schedules of a person that are due once
# Of a chain; with these a chat has less than the message a second that its platform takes.
CHAIN = SECONDS // 4
# Nothing runs: a worker that was killed, and what it held until its lease ends.
RECOVERY_SECONDS = 6.0
FINAL = ("done", "failed", "skipped", "withdrawn")
SCHEDULES = """
import json, random, sys
from datetime import timedelta
from django.utils import timezone
from channels_app.asgi.builtin_accounts import builtin_account
from core.conversations import inbox
from core.conversations.schedules import changes, occurrences
from core.conversations.schedules.changes import Grant, Wish
from core.database.transactions import atomic_write
from core.models import ChannelAccount, Schedule, User
data = json.load(sys.stdin)
dice = random.Random(data["seed"])
telegram = ChannelAccount.objects.get(channel="telegram")
places = [(User.objects.get(username=f"p{chat}"), telegram, str(chat)) for chat in data["chats"]]
for number in range(data["web"]):
    places.append((User.objects.create(username=f"w{number}"), builtin_account("web"), ""))
now = timezone.now() + timedelta(seconds=3)
made = {}
for place, (user, account, chat) in enumerate(places):
    with atomic_write():
        session = inbox.open_session(user=user, account=account, chat=chat)
    grant = Grant(chat, "im") if chat else Grant()
    for number in range(data["each"]):
        kind = "prompt" if number % 3 == 0 else "text"
        seconds = dice.randrange(1, data["seconds"])
        wish = Wish(text=f"{kind} {place}-{number}.", kind=kind, time_zone="UTC",
                    minutes=seconds / 60)
        changes.create(user=user, session=session, wish=wish, grant=grant, now=now)
    if place % 2:
        continue
    # A chain: its times have passed, and none counts as missed; each plans the next, which is due.
    count = data["chain"]
    start = (now - timedelta(minutes=count + 1)).replace(tzinfo=None, microsecond=0)
    row = Schedule.objects.create(
        user=user, kind="text", text=f"chain {place}.", session=session, account=account,
        rule=f"FREQ=MINUTELY;COUNT={count}", start=start.isoformat(), time_zone="UTC",
        chat=chat, sender=grant.sender, sender_kind=grant.kind,
    )
    with atomic_write():
        occurrences.plan(row, after=now - timedelta(minutes=count + 2))
"""
OF_OCCURRENCES = """
SELECT o.state, o.nominal_at, o.fired_at, o.executed_at, o.delivered_at, o.run_id, s.text, o.note
FROM core_occurrence o JOIN core_schedule s ON s.id = o.schedule_id
"""


@dataclass
class Seen:
    """When the platform got each text; the gateway and it have one clock."""

    first: dict[tuple[str, str], float] = field(default_factory=dict)

    def __call__(self, method: str, params: Params, phase: str) -> None:
        if method == "sendMessage" and phase == "before":
            key = (str(params["chat_id"]), str(params["text"]).removeprefix("⏰ "))
            self.first.setdefault(key, time.time())


@pytest.fixture
def bots(
    new_database: Callable[[], str], api: FakeBotApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bots]:
    """Start a gateway with two ``runs`` workers that are forked again when they die."""
    folder: Path = tmp_path_factory.mktemp("schedules")
    found = start_scripted(
        folder=folder,
        api=api,
        database_url=new_database(),
        script=[{"match": ".", "steps": [{"text": "{input}"}]}],
        chats=CHATS,
        modules={"runs": ("tests.schedules_chaos.worker", "runs")},
        DELIVERY_LEASE_SECONDS="2",
        RUN_LEASE_SECONDS="1",
        CHAOS_FOLDER=str(folder),
        KILLS_SEED=str(SEED),
        LOG_LEVEL="WARNING",
        # Nothing counts as missed: each one must come.
        SCHEDULE_MISSED_SECONDS="1000000",
        SCHEDULES_PER_PERSON="100000",
    )
    yield found
    found.gateway.stop()


class Killer(threading.Thread):
    """Kills random processes at random moments, KILLS times; each is started again.

    Stays until ``over``: processes that a thread has started end with it.
    """

    def __init__(self, bots: Bots) -> None:
        super().__init__(daemon=True)
        self.done, self.over = threading.Event(), threading.Event()
        self.bots, self.dice = bots, random.Random(SEED)
        self.killed: Counter[str] = Counter()
        # From when to when somebody was away.
        self.away: list[tuple[float, float]] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            names = ["web", "broker"]
            calm_after = BURST
            while (kills := self.killed.total() + len(self.deaths())) < KILLS:
                if kills >= calm_after:
                    self.rest()
                    calm_after = kills + BURST
                self.wait(self.dice.uniform(0.2, LONGEST_PAUSE))
                any_name = self.dice.choices(("runs", "broker", "web"), (8, 1, 1))[0]
                self.kill(names.pop() if names else any_name)
            self.begin_calm()
        except (AssertionError, OSError, psutil.Error) as error:
            self.error = error
        self.done.set()
        self.over.wait()

    def wait(self, seconds: float) -> None:
        """Wait beside workers that may kill themselves."""
        began = time.time()
        time.sleep(seconds)
        self.away.append((began, time.time() + RECOVERY_SECONDS))

    def begin_calm(self) -> None:
        """Let both workers be followed by ones that do not kill themselves."""
        (self.bots.gateway.folder / "calm").touch()
        self.kill("runs", number=2)

    def rest(self) -> None:
        """Kill nothing for CALM_SECONDS."""
        self.begin_calm()
        time.sleep(CALM_SECONDS)
        (self.bots.gateway.folder / "calm").unlink()

    def deaths(self) -> list[str]:
        """Return the steps of firing at which workers killed themselves."""
        path = self.bots.gateway.folder / "deaths"
        return path.read_text().splitlines() if path.exists() else []

    def kill(self, name: str, number: int = 0) -> None:
        """Kill a process; of ``runs`` one worker or both, or ``number``."""
        gateway = self.bots.gateway
        began = time.time()
        if name == "runs":
            workers = psutil.Process(gateway.pid("runs")).children()
            number = number or self.dice.randint(1, 2)
            for worker in self.dice.sample(workers, min(len(workers), number)):
                with suppress(psutil.NoSuchProcess, ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
                    self.killed[name] += 1
        else:
            gateway.kill(name)
            self.killed[name] += 1
            gateway.restart(name)
        self.away.append((began, time.time() + RECOVERY_SECONDS))


def test_h54_kill_9_of_any_process_loses_no_occurrence_and_repeats_none(bots: Bots) -> None:
    seen = bots.api.hook = Seen()
    data = {
        "chats": [*CHATS],
        "web": WEB_PEOPLE,
        "each": EACH,
        "seconds": SECONDS,
        "chain": CHAIN,
        "seed": SEED,
    }
    bots.gateway.manage("shell", "-v0", "--no-imports", "-c", SCHEDULES, stdin=json.dumps(data))
    killer = Killer(bots)
    killer.start()
    try:
        killer.done.wait()
        assert killer.error is None, killer.error
        wait_until(
            lambda: not left(bots), seconds=60 + SECONDS / 10, what=lambda: str(left(bots)[:10])
        )
        assert all(bots.gateway.is_running(name) for name in ("broker", "web", "runs"))
        rows = query(bots.gateway, OF_OCCURRENCES)
        check_rows(rows)
        check_chats(bots, killer)
        check_times(rows, seen, killer)
    finally:
        killer.over.set()


def left(bots: Bots) -> list[Any]:
    """Return the occurrences that are not over."""
    names = ", ".join(f"'{each}'" for each in FINAL)
    return query(bots.gateway, f"{OF_OCCURRENCES} WHERE o.state NOT IN ({names})")


def check_rows(rows: list[Any]) -> None:
    """Check that each occurrence is done, executed and delivered, by a run of its own."""
    people = len(CHATS) + WEB_PEOPLE
    assert len(rows) == people * EACH + (people + 1) // 2 * CHAIN
    assert [row for row in rows if row[0] != "done" or not (row[3] and row[4])] == []
    assert len({row[5] for row in rows}) == len(rows)
    assert [row for row in rows if row[2] < row[1]] == []


def wanted(place: int) -> Counter[str]:
    """Return the texts that a person must have got, and how often."""
    once = [
        f"prompt {place}-{number}." if number % 3 == 0 else f"⏰ text {place}-{number}."
        for number in range(EACH)
    ]
    chain = {} if place % 2 else {f"⏰ chain {place}.": CHAIN}
    return Counter(once) + Counter(chain)


def check_chats(bots: Bots, killer: Killer) -> None:
    """Check what each person sees: on Telegram from outside, in the web chat by its messages."""
    for place, chat in enumerate(CHATS):
        assert Counter(bots.texts(chat)) == wanted(place)
    sql = "SELECT text FROM core_message WHERE role = 'assistant'"
    said = Counter(str(row[0]) for row in query(bots.gateway, sql))
    for place in range(len(CHATS), len(CHATS) + WEB_PEOPLE):
        assert {each: said[each] for each in wanted(place)} == dict(wanted(place))
    deaths = dict(Counter(killer.deaths()))
    print(f"killed: {dict(killer.killed)}, at steps: {deaths}, {said.total()} messages")


def check_times(rows: list[Any], seen: Seen, killer: Killer) -> None:
    """Check that nothing came early at the platform; show how late what is due once came."""
    once = [row for row in rows if "chain" not in row[6]]
    due = {str(row[6]): timestamp(row[1]) for row in once}
    late = {text: at - due[text] for (_, text), at in seen.first.items() if text in due}
    assert len(late) == len(CHATS) * EACH
    assert min(late.values()) >= 0
    fired = {str(row[6]): timestamp(row[2]) - due[row[6]] for row in once}
    show("fired", fired, due, killer)
    # A chat with a chain waits for the platform's rate limit.
    chats = [text for text in late if int(text.split()[1].partition("-")[0]) % 2]
    for kind in ("text", "prompt"):
        found = {text: late[text] for text in chats if text.startswith(kind)}
        show(f"{kind} at the platform", found, due, killer)


def show(what: str, late: dict[str, float], due: dict[str, float], killer: Killer) -> None:
    """Print how late occurrences were, and those at whose time no process was away."""
    up = {k: v for k, v in late.items() if not any(a - 2 <= due[k] <= b for a, b in killer.away)}
    for name, values in ((what, sorted(late.values())), (f"{what}, up", sorted(up.values()))):
        if values:
            p50, p99 = values[len(values) // 2], values[int(len(values) * 0.99)]
            found = f"p50 {p50:.2f} s, p99 {p99:.2f} s, latest {values[-1]:.2f} s"
            print(f"late, {name} ({len(values)}): {found}")


def timestamp(value: Any) -> float:
    """Return a time of either database in seconds."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return float((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
