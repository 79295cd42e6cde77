"""A turn in a chat of 20,000 messages against a turn in an empty one, over ``/ws``.

Both chats exist before the turn, and the model has no delay. Each turn of the empty side has a chat
of its own: after a turn it would not be empty. A turn of the long one sends its latest messages to
the model, as many as its window takes; every fourth answer has a call of a tool.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat

from tests.benchmarks import chats, machine, sockets
from tests.benchmarks.clients import Socket
from tests.benchmarks.gateway import MeasuredGateway
from tests.benchmarks.report import Row

MESSAGES = 20_000
TURNS = 20  # of each side, a round
LOAD = chats.Load(1, TURNS, 64, per_second=0, first_ms=0)
FILL = """
import json, sys
from django.db import connection
from django.utils import timezone
from channels_app.asgi.builtin_accounts import builtin_account
from core.conversations import inbox
from core.lib.tokens import estimate, of_calls
from core.models import InboundMessage, Message, Run, User
data = json.load(sys.stdin)
user, account = User.objects.get(username="person-0"), builtin_account("web")
long, *empty = [
    inbox.open_session(user=user, account=account) for _ in range(data["empty"] + 1)
]
now = timezone.now()
texts = [f"Question {number} about the weather in the mountains" for number in range(data["turns"])]
runs = Run.objects.bulk_create(
    [
        Run(session=long, user=user, origin="web", text=text, state="succeeded",
            started_at=now, finished_at=now)
        for text in texts
    ],
    batch_size=500,
)
InboundMessage.objects.bulk_create(
    [
        InboundMessage(account=account, session=long, user=user, run=run, text=run.text,
            state="answered", received_at=now)
        for run in runs
    ],
    batch_size=500,
)
calls = [
    {"id": "call", "name": "document_read", "arguments": '{"file":"/files/weather"}',
     "result": "It snowed in the mountains. " * 40, "step": "1"}
]
said = [
    (run, role, text, role == "assistant" and number % 4 == 0)
    for number, run in enumerate(runs)
    for role, text in (("user", run.text), ("assistant", f"An answer to it. {run.text} again."))
]
Message.objects.bulk_create(
    [
        Message(session=long, run=run, role=role, text=text, tokens=estimate(text),
            calls=calls if called else None, call_tokens=of_calls(calls) if called else None)
        for run, role, text, called in said
    ],
    batch_size=500,
)
if connection.vendor == "postgresql":  # its autovacuum does so within a minute
    connection.cursor().execute("ANALYZE")
print("CHATS", json.dumps([long.public_id, *(each.public_id for each in empty)]))
"""


@dataclass(frozen=True)
class Filled:
    """The public ids of the chats: the long one, and an empty one for each turn."""

    long: str
    empty: list[str]


def fill(at: MeasuredGateway, *, empty: int) -> Filled:
    """Store a chat of MESSAGES messages, half of them answers, and ``empty`` chats without any."""
    given = json.dumps({"turns": MESSAGES // 2, "empty": empty})
    output = at.gateway.manage("shell", "-v0", "-c", FILL, stdin=given)
    line = next(line for line in output.splitlines() if line.startswith("CHATS"))
    long, *others = json.loads(line.removeprefix("CHATS"))
    return Filled(long, others)


async def rows(at: MeasuredGateway, *, rounds: int) -> list[Row]:
    """Return the CPU and the time of a turn in both, in interleaved rounds."""
    filled = await asyncio.to_thread(fill, at, empty=TURNS * (rounds + 1))
    sides: dict[str, Iterator[str]] = {"long": repeat(filled.long), "empty": iter(filled.empty)}
    found = {name: chats.Figures() for name in sides}
    await chats.set_pace(at, LOAD)
    async with sockets.opened(at, 1, people=1) as (socket,):
        for number in range(rounds + 1):
            for name, names in sides.items():
                figures = found[name] if number else chats.Figures()  # the first one warms up
                await one_side(at, socket, names, figures)
    await asyncio.to_thread(at.drain)
    return compared(found)


async def one_side(
    at: MeasuredGateway, socket: Socket, names: Iterator[str], figures: chats.Figures
) -> None:
    """Ask TURNS questions, one after the other, each in the next chat."""
    before, began = machine.cpu_of(at.pids), time.monotonic()
    turns = []
    for _ in range(TURNS):
        socket.session = next(names)
        turn, tag = await socket.ask()
        turn.check(tokens=LOAD.tokens, tag=tag)
        turns.append(turn)
    await asyncio.sleep(chats.AFTERWARDS)
    spent = machine.spent(before, machine.cpu_of(at.pids))
    figures.add(turns, spent, time.monotonic() - began)


def compared(found: Mapping[str, chats.Figures]) -> list[Row]:
    """Return the rows: CPU and first token, in the long chat and in the empty ones."""
    cpu = {name: each.cpu_ms()["all"] for name, each in found.items()}
    first = {name: machine.median(each.first) * 1000 for name, each in found.items()}
    return [
        Row(
            f"{what}, chat of {MESSAGES} messages / empty",
            f"{ms['long']:.1f} / {ms['empty']:.1f} ms = {ms['long'] / ms['empty']:.2f} ×",
            goal,
        )
        for what, ms, goal in (("CPU of a turn", cpu, "≤ 1.1 ×"), ("first token", first, ""))
    ]
