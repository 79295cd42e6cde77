"""A database in which many people have said much, written by a few statements."""

from datetime import timedelta

from django.db import connection, models
from django.utils import timezone

from allowlist.models import ApiKey, AuditEntry, UnknownRequest
from channels_app.models import SourceFeedback
from core.database import text_search
from core.models import (
    Budget,
    BudgetPeriod,
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
    Schedule,
    StoredFile,
    User,
)
from tests.plans import analyse

# The time of the n-th row: ten minutes before that of the next one.
TIMES = {
    "sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%S.000000', 'now', "
    "'-' || (({number} - n) * 10) || ' minutes')",
    "postgresql": "now() - ({number} - n) * interval '10 minutes'",
}
SERIES = "WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %s)"


def copies(row: models.Model, number: int, **columns: str) -> int:
    """Insert ``number`` rows like ``row``, which is not stored; return the first one's id.

    ``columns`` are expressions of SQL for the n-th row; ``at`` in one stands for its time.
    """
    model = type(row)
    time = TIMES[connection.vendor].format(number=number)
    names, places, given = [], [], []
    for field in model._meta.local_concrete_fields:
        if isinstance(field, models.AutoField | models.CompositePrimaryKey):
            continue
        names.append(f'"{field.column}"')
        if field.column in columns:
            places.append(columns[field.column].replace("{at}", time))
        else:
            value = field.get_db_prep_save(field.pre_save(row, add=True), connection)
            typed = f"%s::{field.db_type(connection)}"
            places.append("%s" if connection.vendor == "sqlite" else typed)
            given.append(value)
    last = model._default_manager.aggregate(last=models.Max("pk"))["last"] if has_id(model) else 0
    with connection.cursor() as cursor:
        cursor.execute(
            f'INSERT INTO "{model._meta.db_table}" ({", ".join(names)}) {SERIES} '
            f"SELECT {', '.join(places)} FROM series",
            [number, *given],
        )
    if not has_id(model):
        return 0
    first = model._default_manager.filter(pk__gt=last or 0).aggregate(first=models.Min("pk"))
    return int(first["first"])


def has_id(model: type[models.Model]) -> bool:
    """Return whether the rows of a model are numbered."""
    return isinstance(model._meta.pk, models.AutoField)


def public_id(named: str) -> str:
    """Return the expression of the n-th row's public id, which begins with ``named``."""
    padded = f"'{named}{'-' * 22}' || n"
    cut = f"substr({padded}, -{22 - len(named)})"
    if connection.vendor == "postgresql":
        cut = f"right({padded}, {22 - len(named)})"
    return f"'{named}' || {cut}"


def said(account: ChannelAccount, number: int, *, named: str, **of_whom: str) -> None:
    """Insert ``number`` turns with all that they leave behind; ``of_whom``: user and session."""
    now = timezone.now()
    run = copies(
        Run(origin="http", state="succeeded", text="words", result={}),
        number,
        public_id=public_id(named),
        created_at="{at}",
        **of_whom,
    )
    runs = {"run_id": f"n + {run - 1}"}
    copies(
        InboundMessage(account=account, state="answered", text="words", received_at=now),
        number,
        external_update_id=f"'u' || (n + {run})",
        received_at="{at}",
        **runs,
        **of_whom,
    )
    session = {"session_id": of_whom["session_id"]}
    for role in ("user", "assistant"):
        copies(
            Message(role=role, tokens=300),
            number,
            text=f"'What number ' || n || ' said as {role}'",
            created_at="{at}",
            **runs,
            **session,
        )
    copies(RunEvent(data='{"type":"event","props":{}}', seq=1), number, **runs)
    copies(
        Delivery(account=account, state="sent", conversation="c"),
        number,
        dedupe_key=f"'run:' || (n + {run}) || ':0'",
        created_at="{at}",
        **runs,
        **session,
    )
    copies(
        ModelCall(model_name="a: one", prompt_tokens=9, day=now.date(), account_id=account.pk),
        number,
        day="date({at})",
        created_at="{at}",
        user_id=of_whom["user_id"],
        **runs,
    )
    budget = Budget.objects.create(unit="tokens", period="day", limit=10**12, key_id=10**9)
    old = now.date() - timedelta(days=900)
    copies(
        BudgetPeriod(budget=budget, measure="tokens/day", start=old, spent=10**9),
        number,
        person="n + 1000",
    )
    feedback = SourceFeedback(verdict="up", message_id="m", source_id="s")
    copies(feedback, number, user_id=of_whom["user_id"], **runs)
    copies(
        Job(tool="route_to_plugin", state="succeeded", tool_call_id="c"),
        number,
        created_at="{at}",
        finished_at="{at}",
        **runs,
    )


def planned(account: ChannelAccount, number: int, *, named: str, **of_whom: str) -> None:
    """Insert a schedule for each of ``number`` people, with one occurrence that is over and one
    that waits.
    """
    row = Schedule(
        kind="text",
        text="words",
        rule="FREQ=DAILY",
        start="2026-01-01T08:00:00",
        time_zone="UTC",
        account=account,
    )
    schedule = copies(
        row,
        number,
        public_id=public_id(named),
        created_at="{at}",
        **of_whom,
    )
    ids = {"schedule_id": f"n + {schedule - 1}"}
    now = timezone.now()
    copies(Occurrence(state="done", nominal_at=now), number, fired_at="{at}", **ids)
    later = now + timedelta(days=1)
    copies(Occurrence(state="waiting", nominal_at=later, look_at=later), number, **ids)


def happened(schedule: Schedule, number: int) -> None:
    """Insert ``number`` occurrences of a schedule that are over."""
    row = Occurrence(schedule=schedule, state="done", nominal_at=timezone.now())
    copies(row, number, nominal_at="{at}", fired_at="{at}")


def others(account: ChannelAccount, number: int) -> None:
    """Insert ``number`` people, each with a chat of one turn, a file, a key and a listed sender."""
    now = timezone.now()
    user = copies(User(username="x", date_joined=now), number, username="'person ' || n")
    theirs = {"user_id": f"n + {user - 1}"}
    session = copies(
        ChatSession(account=account),
        number,
        public_id=public_id("chat"),
        chat="'chat ' || n",
        last_message_at="{at}",
        created_at="{at}",
        **theirs,
    )
    said(account, number, named="run", session_id=f"n + {session - 1}", **theirs)
    file = StoredFile(name="a", content_type="text/plain", size=1, sha256="x", path="x")
    named = {"public_id": public_id("file"), "session_id": f"n + {session - 1}"}
    copies(file, number, created_at="{at}", **named, **theirs)
    planned(account, number, named="plan", **theirs)
    key = ApiKey(name="k", digest="", scopes=["chat"])
    copies(key, number, prefix="'k' || n", **theirs)
    copies(ChannelIdentity(kind="im"), number, value="'i' || n", **theirs)
    request = UnknownRequest(
        account=account,
        kind="im",
        state="denied",
        first_seen_at=now,
        last_seen_at=now,
        expires_at=now,
    )
    copies(
        request,
        number,
        public_id=public_id("asks"),
        sender="'s' || n",
        last_seen_at="{at}",
    )
    copies(AuditEntry(action="key.added", digest="x", at=now), number, at="{at}")


def grown(account: ChannelAccount, user: User, session: ChatSession, *, number: int) -> None:
    """Fill the database with ``number`` rows of others, and a tenth of that in ``session``."""
    others(account, number)
    said(account, number // 10, named="own", user_id=str(user.pk), session_id=str(session.pk))
    own = str(user.pk)
    planned(account, 1, named="mine", user_id=own)
    happened(Schedule.objects.get(user=user), number // 10)
    text_search.catch_up(batches=number)
    if connection.vendor == "postgresql":  # it does so by itself in time; SQLite does not
        analyse()
