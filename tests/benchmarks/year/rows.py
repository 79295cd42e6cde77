"""A year of conversations, written through the models in bulk.

Times are spread over the year: more on working days and by day. Few people say most, few
conversations are long, and a row's number follows its time as in a real gateway. Chances
are by one seed; ids never come twice, so that a year can be added to another.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from django.db import connection, models, transaction

from allowlist import audit
from allowlist.models import ApiKey, UnknownRequest
from channels_app.models import SourceFeedback
from core.conversations import usage_reports
from core.conversations.event_codec import encode
from core.conversations.retention.log_condensing import condensed
from core.database import text_search
from core.files import storage
from core.lib.ids import public_id
from core.messages import Message as Said
from core.messages import (
    MessageDict,
    message_end,
    message_start,
    stream_end,
    stream_start,
    text_delta,
    to_dict,
)
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Job,
    Message,
    ModelCall,
    Occurrence,
    Run,
    RunEvent,
    RunFailure,
    Schedule,
    StoredFile,
    User,
)
from tests.benchmarks.year.installation import call_of

AT_ONCE = 1_000  # turns of a transaction
BATCH = 500  # rows of an INSERT
DAYS = 365
DELTAS = 3  # checkpoints of an answer in its log
OCCURRENCES = 50  # of a schedule
WORDS = """
the train leaves weather mountain window please summary letter budget water garden meeting
report number answer question recipe table holiday ticket engine printer light Tuesday
river paper music colour village harbour invoice kitchen doctor lesson bridge
""".split()  # noqa: SIM905 - read as a text
CHANNELS = ("web", "telegram", "http")
WEIGHTS = (50, 35, 15)


@dataclass(frozen=True)
class Scale:
    """How much is said in a year: 1 is a million messages."""

    factor: float

    @property
    def turns(self) -> int:
        """Return the number of questions; each has an answer."""
        return max(20, round(500_000 * self.factor))

    @property
    def sessions(self) -> int:
        return max(4, round(100_000 * self.factor))

    @property
    def files(self) -> int:
        return max(4, round(100_000 * self.factor))

    @property
    def people(self) -> int:
        return max(4, round(2_000 * self.factor))

    @property
    def strangers(self) -> int:
        """Return how many unknown senders wrote."""
        return max(4, round(5_000 * self.factor))

    @property
    def audited(self) -> int:
        """Return how many entries the audit got."""
        return max(10, round(20_000 * self.factor))

    @property
    def schedules(self) -> int:
        return max(2, round(1_000 * self.factor))


@dataclass
class Year:
    """Its people and accounts; ``end``: its last moment."""

    scale: Scale
    end: datetime
    accounts: dict[str, ChannelAccount]
    people: list[User]
    dice: random.Random

    def moment(self) -> datetime:
        """Return a moment of the year."""
        back = timedelta(days=self.dice.random() * DAYS)
        found = self.end - back
        # Half of what would be at night or on a Sunday is at noon instead.
        if (found.hour < 7 or found.weekday() == 6) and self.dice.random() < 0.5:
            found = min(found.replace(hour=12), self.end)
        return found

    def text(self, mean: float) -> str:
        """Return words: few are long."""
        number = max(2, min(400, int(self.dice.lognormvariate(0, 0.8) * mean)))
        return " ".join(self.dice.choices(WORDS, k=number))

    def heavy(self, most: int) -> int:
        """Return a place below ``most``: few places come often."""
        return min(most - 1, int(most * self.dice.random() ** 2.5))


def people_of(scale: Scale, *, now: datetime) -> list[User]:
    """Make more people, with an address and an API key each."""
    first = User.objects.count()
    names = [
        User(username=f"person-{first + number}", date_joined=now) for number in range(scale.people)
    ]
    people = User.objects.bulk_create(names, batch_size=BATCH)
    ChannelIdentity.objects.bulk_create(
        (
            ChannelIdentity(user=each, kind="im", channel="telegram", value=str(10**8 + each.pk))
            for each in people
        ),
        batch_size=BATCH,
    )
    ApiKey.objects.bulk_create(
        (
            ApiKey(user=each, name="key", prefix=f"y{each.pk:011x}", digest="", scopes=["chat"])
            for each in people
        ),
        batch_size=BATCH,
    )
    return people


@contextmanager
def times_as_given() -> Iterator[None]:
    """Store the times that rows are given where a model takes that of its insertion."""
    as_shipped = models.DateTimeField.pre_save

    def given(field: Any, row: models.Model, add: bool) -> Any:
        return getattr(row, field.attname) or as_shipped(field, row, add)

    with patch.object(models.DateTimeField, "pre_save", given):
        yield


def fill(year: Year) -> None:
    """Write everything of a year."""
    with times_as_given():
        talks = sessions_of(year)
        written(said(year, talks))
        files_of(year, talks)
        schedules_of(year)
        strangers_of(year)
    for number in range(year.scale.audited):
        at = year.end - timedelta(days=DAYS) * (1 - number / year.scale.audited)
        audit.record(actor="ada", action="key.added", subject=f"user:{number} person", now=at)
    text_search.catch_up(batches=year.scale.turns)
    while usage_reports.roll_up(now=year.end):
        pass
    if (
        connection.vendor == "postgresql"
    ):  # its autovacuum does so in time; SQLite has no statistics
        connection.cursor().execute("ANALYZE")


def sessions_of(year: Year) -> list[ChatSession]:
    """Make the conversations, the oldest first."""
    starts = sorted(year.moment() for _ in range(year.scale.sessions))
    starts[-1] = year.end - timedelta(days=DAYS)  # it has a fifth of all turns, of the whole year
    rows = []
    for number, at in enumerate(starts):
        [channel] = year.dice.choices(CHANNELS, WEIGHTS)
        if number == len(starts) - 1:
            channel = "telegram"  # by chance it would decide about deliveries
        user = year.people[year.heavy(len(year.people))]
        rows.append(
            ChatSession(
                user=user,
                account=year.accounts[channel],
                chat=public_id(),  # a second year, or more of this one, has others
                title=year.text(4)[:60],
                created_at=at,
                last_message_at=at,
            )
        )
    return ChatSession.objects.bulk_create(rows, batch_size=BATCH)


def said(year: Year, talks: list[ChatSession]) -> Iterator[list[models.Model]]:
    """Yield the rows of each turn, in the order of time."""
    when = []
    for _ in range(year.scale.turns):
        if year.dice.random() < 0.8:
            talk = talks[year.heavy(len(talks))]
            lasted = min(timedelta(days=30), year.end - talk.created_at)
            when.append((talk.created_at + lasted * year.dice.random() ** 3, talk))
        else:
            when.append((year.moment(), talks[-1]))
    for number, (at, talk) in enumerate(sorted(when, key=lambda each: each[0])):
        talk.last_message_at = max(talk.last_message_at or at, at)
        yield turn(year, talk, at, number)
    ChatSession.objects.bulk_update(talks, ["last_message_at"], batch_size=BATCH)


def turn(year: Year, talk: ChatSession, at: datetime, number: int) -> list[models.Model]:
    """Return the rows of one question and its answer."""
    asked, answer = year.text(12), year.text(60)
    channel, failed = talk.account.channel, number % 50 == 7
    over = at + timedelta(seconds=4)
    run = Run(
        session=talk,
        user=talk.user,
        origin=channel,
        text=asked,
        state="failed" if failed else "succeeded",
        error="The model cannot be reached." if failed else "",
        result={} if failed else {"text": answer},
        attempt=1,
        created_at=at,
        started_at=at,
        finished_at=over,
    )
    events = list(enumerate(log_of(run, answer, failed=failed), start=1))
    run.last_seq = len(events)
    if over < year.end - timedelta(days=1):  # workers have folded them
        events, run.condensed_at = condensed(events), over + timedelta(days=1)
    rows: list[models.Model] = [
        run,
        InboundMessage(
            account=talk.account,
            session=talk,
            run=run,
            user=talk.user,
            chat=talk.chat,
            external_update_id=run.public_id if channel == "telegram" else "",
            text=asked,
            state="answered",
            received_at=at,
        ),
        Message(session=talk, run=run, role="user", text=asked, tokens=20, created_at=at),
        *(RunEvent(run=run, seq=seq, data=encode(event)) for seq, event in events),
        ModelCall(
            run=run,
            user=talk.user,
            account_id=talk.account_id,
            model_name="Cloud: large",
            prompt_tokens=900,
            completion_tokens=120,
            cost=2_000_000,
            milliseconds=3_500,
            failure="unreachable" if failed else "",
            day=at.date(),
            created_at=at,
        ),
    ]
    if failed:
        rows.append(RunFailure(run=run, code="unreachable", reason="timed out", at=over))
    else:
        rows.append(
            Message(
                session=talk, run=run, role="assistant", text=answer, tokens=90, created_at=over
            )
        )
    return [*rows, *sometimes(year, run, over, number)]


def sometimes(year: Year, run: Run, at: datetime, number: int) -> Iterator[models.Model]:
    """Yield what only some turns leave behind: a delivery, a long task, an opinion."""
    if run.session.account.channel == "telegram":
        yield Delivery(
            account=run.session.account,
            session=run.session,
            run=run,
            dedupe_key=f"run:{run.public_id}:0",
            conversation=f"{run.session.account_id}:{run.session.chat}:",
            payload={"text": str(run.result.get("text", ""))},
            state="dead" if number % 500 == 9 else "sent",
            error="the chat was not found" if number % 500 == 9 else "",
            created_at=at,
            sent_at=None if number % 500 == 9 else at,
        )
    if number % 50 == 3:
        yield Job(
            run=run,
            tool="make_slides",
            tool_call_id="c",
            state="succeeded",
            created_at=at,
            finished_at=at,
        )
    if number % 40 == 11:
        yield call_of(run, number)
    if number % 100 == 5:
        yield SourceFeedback(
            run=run, user=run.user, message_id="t", source_id="s", verdict="up", title="A source"
        )


def log_of(run: Run, answer: str, *, failed: bool) -> Iterator[MessageDict]:
    """Yield the events of a run as they were written."""
    at = round(run.created_at.timestamp() * 1000)
    named = run.public_id
    yield event(stream_start(request_id=named, chat_id="chat", trace_id=named, timestamp_ms=at), at)
    if not failed:
        yield event(message_start(message_id="t", message_type="text"), at)
        step = len(answer) // DELTAS + 1
        for start in range(0, len(answer), step):
            yield event(text_delta(answer[start : start + step], message_id="t"), at)
        yield event(message_end(message_id="t", message_type="text"), at)
    status: Any = "error" if failed else "completed"
    yield event(stream_end(status=status, request_id=named, duration_ms=4_000), at)


def event(message: Said, at: int) -> MessageDict:
    """Return an event of this time, in ms of the epoch."""
    return {**to_dict(message), "metadata": {"timestamp": at}}


def written(turns: Iterator[list[models.Model]]) -> None:
    """Insert the rows of turns, some hundred in a transaction; those of a run after it."""
    kept: dict[type[models.Model], list[models.Model]] = {}
    for number, rows in enumerate(turns, start=1):
        for row in rows:
            kept.setdefault(type(row), []).append(row)
        if number % AT_ONCE == 0:
            insert(kept)
    insert(kept)


def insert(kept: dict[type[models.Model], list[Any]]) -> None:
    """Insert rows, runs first, and forget them."""
    with transaction.atomic():
        for model in sorted(kept, key=lambda each: each is not Run):
            if model is not Run:
                for row in kept[model]:
                    row.run = row.run  # its number is known now
            model._default_manager.bulk_create(kept[model], batch_size=BATCH)
    kept.clear()


def files_of(year: Year, talks: list[ChatSession]) -> None:
    """Store files of some hundred bytes to some kilobytes, with their rows."""
    rows: list[StoredFile] = []
    for number in range(year.scale.files):
        talk = talks[number * len(talks) // year.scale.files]
        path = storage.new_path()
        path.write_text(year.text(150))
        rows.append(
            storage.described(
                path=path,
                name=f"notes {number}.txt",
                content_type="text/plain",
                user=talk.user,
                session=talk,
                created_at=talk.created_at,
            )
        )
        if len(rows) == AT_ONCE:
            StoredFile.objects.bulk_create(rows, batch_size=BATCH)
            rows.clear()
    StoredFile.objects.bulk_create(rows, batch_size=BATCH)


def schedules_of(year: Year) -> None:
    """Make schedules, each with occurrences that are over and one that waits."""
    begun = year.end - timedelta(days=DAYS)
    rows = Schedule.objects.bulk_create(
        (
            Schedule(
                user=year.people[number % len(year.people)],
                account=year.accounts["telegram"],
                kind="text",
                text=year.text(6),
                rule="FREQ=WEEKLY",
                start="2026-01-01T08:00:00",
                time_zone="UTC",
                created_at=begun,
                changed_at=begun,
            )
            for number in range(year.scale.schedules)
        ),
        batch_size=BATCH,
    )
    weeks = [year.end - timedelta(weeks=back) for back in range(OCCURRENCES, 0, -1)]
    done = (
        Occurrence(schedule=row, state="done", nominal_at=at, fired_at=at)
        for at in weeks
        for row in rows
    )
    Occurrence.objects.bulk_create(done, batch_size=BATCH)
    later = year.end + timedelta(days=7)
    waiting = (Occurrence(schedule=row, nominal_at=later, look_at=later) for row in rows)
    Occurrence.objects.bulk_create(waiting, batch_size=BATCH)


def strangers_of(year: Year) -> None:
    """Make unknown senders; most were decided about, a few wait."""
    rows = []
    for number in range(year.scale.strangers):
        at = year.moment()
        rows.append(
            UnknownRequest(
                account=year.accounts["telegram"],
                kind="im",
                sender=public_id(),
                sender_name=year.text(2)[:40],
                state="pending" if number % 50 == 0 else "denied",
                count=1 + year.heavy(20),
                last_text=year.text(8)[:200],
                first_seen_at=at,
                last_seen_at=at,
                expires_at=at + timedelta(days=400),
            )
        )
    UnknownRequest.objects.bulk_create(rows, batch_size=BATCH)
