"""Forgetting a person, in this process: nothing of them stays, and everything of others does."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import Sum
from django.utils import timezone

from allowlist import audit, unfinished_forgetting
from allowlist.models import AuditEntry
from channels_app.ops.doctor import examination
from channels_app.ops.doctor.findings import Finding
from core.database import cleaning, dependents, text_search
from core.files import storage
from core.models import (
    Budget,
    BudgetPeriod,
    ChannelAccount,
    Delivery,
    McpServer,
    ModelCall,
    Run,
    StoredFile,
    UsageDay,
    User,
)
from core.signals import forgetting as broker_forgetting
from gateway_project.personal_data import forgetting, mentions
from gateway_project.personal_data.words import Words
from tests.gateway_project.personal_data import everything
from tests.run import of_this_turn

pytestmark = pytest.mark.django_db(transaction=True)

WORD, OTHER = "quagganym", "okapistic"


@pytest.fixture
def people(settings: Any, tmp_path: Path) -> dict[str, User]:
    """Return an owner, a person and another one, with rows in every table."""
    settings.GATEWAY_HOME = tmp_path
    owner = User.objects.create(username="boss", is_owner=True, is_staff=True)
    account = ChannelAccount.objects.create(channel="memory", name="one")
    shared = ChannelAccount.objects.create(channel="memory", name="two")
    made = {
        name: everything.build(name, word, account, shared)
        for name, word in (("gone", WORD), ("stays", OTHER))
    }
    text_search.catch_up()
    client = redis.Redis.from_url(django_settings.REDIS_URL)
    for run in Run.objects.all():
        client.xadd(f"latchkey:run:{run.public_id}", {"frame": run.text})
    client.set(f"latchkey:rate:user:{WORD}-address", 1)
    client.close()
    return {"owner": owner, **made}


def forget(user: User) -> None:
    call_command("person", "forget", user.username)


def clean() -> None:
    """Do what a process of a worker does after people were forgotten in the admin."""
    call_command("person", "clean")


def bytes_of_the_database() -> bytes:
    """Return the files of SQLite as they are on the disk; empty for a server."""
    if connection.vendor != "sqlite":
        return b""
    name = str(connection.settings_dict["NAME"])
    files = [Path(name + end) for end in ("", "-wal", "-shm")]
    return b"".join(each.read_bytes() for each in files if each.exists())


def files_with(word: str) -> list[str]:
    """Return the stored files whose name or content has ``word``."""
    found = (each for each in storage.folder().rglob("*") if each.is_file())
    return [str(each) for each in found if word in str(each) or word.encode() in each.read_bytes()]


def texts_of_the_broker() -> str:
    client = redis.Redis.from_url(django_settings.REDIS_URL, decode_responses=True)
    found: list[str] = []
    for key in client.scan_iter(count=1000):
        found.append(str(key))
        if client.type(key) == "stream":
            found.append(str(client.xrange(key)))
    client.close()
    return "\n".join(found)


def test_x24_nothing_of_a_forgotten_person_is_left(people: dict[str, User]) -> None:
    """[X24] No table, index, file, free page, log of SQLite or key of the broker has a word."""
    before = everything.places_of(WORD)
    assert len(before) > 50, before
    assert files_with(WORD)
    assert WORD in texts_of_the_broker()
    forget(people["gone"])
    assert everything.places_of(WORD) == []
    assert files_with(WORD) == []
    assert WORD.encode() not in bytes_of_the_database().lower()
    assert WORD not in texts_of_the_broker()
    assert OTHER in texts_of_the_broker()
    if connection.vendor == "sqlite":
        trigrams = {WORD[at : at + 3] for at in range(len(WORD) - 2)}
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE VIRTUAL TABLE temp.terms USING fts5vocab('main', 'core_search', 'row')"
            )
            cursor.execute("SELECT term FROM temp.terms")
            terms = {row[0] for row in cursor.fetchall()}
            cursor.execute("DROP TABLE temp.terms")
        assert "oka" in terms  # the index of the other person is there
        # Random ids may have one of them; a text with the word would have left all.
        assert not trigrams <= terms


def test_x24_no_way_leads_to_a_forgotten_person(people: dict[str, User]) -> None:
    """[X24] By no foreign key of any model, and there was a row by each that deletes its rows."""
    number = people["gone"].pk
    forget(people["gone"])
    for model, path in everything.paths_to_user():
        assert not model._default_manager.filter(**{path: number}).exists(), (model, path)
    assert McpServer.objects.get().enabled
    forget(people["stays"])
    assert not McpServer.objects.get().enabled  # it is of none now, not of all
    told = AuditEntry.objects.filter(action="mcpserver.changed")
    assert [each.data for each in told] == [{"enabled": [True, False]}]


def test_x24_the_data_of_another_person_stays_byte_for_byte(people: dict[str, User]) -> None:
    """[X24]"""
    before = everything.rows_of(people["stays"])
    forget(people["gone"])
    assert everything.rows_of(people["stays"]) == before
    assert sum(bool(rows) for rows in before.values()) > 25
    found = audit_texts()
    assert f"user:{people['stays'].pk} {people['stays']}" in found


def audit_texts() -> str:
    return "\n".join(audit.lines())


def test_x25_the_audit_stays_valid_and_has_the_number_of_the_forgotten(
    people: dict[str, User], capsys: pytest.CaptureFixture[str]
) -> None:
    """[X25] The chain of digests, and an anchor of before, are those that they were."""
    digests = list(AuditEntry.objects.order_by("id").values_list("digest", flat=True))
    anchor = audit.check().last
    number = people["gone"].pk
    forget(people["gone"])
    kept = AuditEntry.objects.order_by("id").values_list("digest", flat=True)
    assert list(kept[: len(digests)]) == digests
    call_command("audit_verify", "--anchor", anchor)
    assert "with blanked texts" in capsys.readouterr().out
    assert AuditEntry.objects.get(action=unfinished_forgetting.DONE).subject == f"user:{number}"
    assert AuditEntry.objects.filter(actor=f"user:{number}", action="sign_in").exists()


@pytest.mark.either
@pytest.mark.parametrize("column", ["actor", "subject", "action", "digest", "previous"])
def test_x25_a_change_of_a_blanked_row_is_found(people: dict[str, User], column: str) -> None:
    """[X25] Also of the row that says what is left of it, and its removal."""
    forget(people["gone"])
    blanked = AuditEntry.objects.filter(pk__in=audit.attested()).first()
    assert blanked is not None
    told = AuditEntry.objects.get(action=audit.BLANKED)  # once: the second pass changes nothing
    for row in (blanked, told):
        values = {column: f"{getattr(row, column)[:-1]}~"}
        AuditEntry.objects.filter(pk=row.pk).update(**values)
        assert audit.check().broken is not None, (row, column)
        AuditEntry.objects.filter(pk=row.pk).update(**{column: getattr(row, column)})
    assert audit.check().broken is None
    told.delete()
    assert audit.check().broken == blanked.pk


def test_x25_a_row_that_was_altered_before_stays_broken(people: dict[str, User]) -> None:
    """[X25] Forgetting does not launder a forged row."""
    row = AuditEntry.objects.filter(action="sign_in").earliest("id")
    AuditEntry.objects.filter(pk=row.pk).update(data={"forged": True})
    assert audit.check().broken == row.pk
    forget(people["gone"])
    assert everything.places_of(WORD) == []
    assert audit.check().broken == row.pk


def sums() -> dict[str, Any]:
    spent = BudgetPeriod.objects.aggregate(spent=Sum("spent"))
    calls = ModelCall.objects.aggregate(cost=Sum("cost"), tokens=Sum("prompt_tokens"))
    return {**spent, **calls, **UsageDay.objects.aggregate(past=Sum("cost"), calls=Sum("calls"))}


def test_x26_sums_of_money_stay_without_the_person(people: dict[str, User]) -> None:
    """[X26] Those of all; budgets for all keep what was spent."""
    everyone = Budget.objects.create(limit=100)
    start = UsageDay.objects.values_list("day", flat=True)[0]
    BudgetPeriod.objects.create(budget=everyone, start=start, spent=16)
    before = sums()
    number = people["gone"].pk
    forget(people["gone"])
    assert sums() == before
    assert not UsageDay.objects.filter(user_id=number).exists()
    assert not ModelCall.objects.filter(user=number).exists()
    assert BudgetPeriod.objects.get().spent == 16


STEPS: list[tuple[Any, str]] = [
    (forgetting, "end_access"),
    (mentions, "notices"),
    (mentions, "requests"),
    (mentions, "sums"),
    (mentions, "blank_log"),
    (audit, "blank"),
    (forgetting, "remove_rows"),
    (forgetting, "remove_files"),
    (mentions, "blank_log_of_the_gone"),
    (forgetting, "finish"),
    (cleaning, "clean"),
    (broker_forgetting, "rewrite_file"),
    (forgetting, "done"),
]


class Killed(BaseException):
    """The process ended here."""


@contextmanager
def killed_at(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *, is_after: bool
) -> Iterator[None]:
    """Let the process end before or after a step; check that the block ends with it."""
    step = getattr(module, name)

    def ends(*args: Any, **kwargs: Any) -> None:
        if is_after:
            step(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(module, name, ends)
        yield


@pytest.mark.either
@pytest.mark.parametrize(("module", "name"), of_this_turn(STEPS, parts=2))
@pytest.mark.parametrize("is_after", [False, True])
def test_x27_a_killed_call_is_finished_by_the_next_one(
    people: dict[str, User],
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    is_after: bool,
) -> None:
    """[X27] Before and after each step."""
    before = everything.rows_of(people["stays"])
    with killed_at(monkeypatch, module, name, is_after=is_after):
        forget(people["gone"])
    if is_after and name in {"finish", "done"}:
        assert unfinished_forgetting.left_behind() == []
    else:
        forget(people["gone"])
    assert everything.places_of(WORD) == []
    assert files_with(WORD) == []
    assert WORD.encode() not in bytes_of_the_database().lower()
    assert everything.rows_of(people["stays"]) == before
    assert audit.check().broken is None
    assert unfinished_forgetting.unfinished() == []


@pytest.mark.either
@pytest.mark.parametrize(("module", "name"), STEPS[-4:])
@pytest.mark.parametrize("is_after", [False, True])
def test_x27_a_worker_that_was_killed_while_it_cleans_is_followed_by_the_next_one(
    people: dict[str, User],
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    is_after: bool,
) -> None:
    """[X24] [X27] In the admin only rows and files go; before and after each step of the rest."""
    number = people["gone"].pk
    clean()
    assert not AuditEntry.objects.filter(action=unfinished_forgetting.BEGUN).exists()
    forgetting.remove(people["gone"], actor="boss")
    assert everything.places_of(WORD) == []
    if connection.vendor == "sqlite":
        assert WORD.encode() in bytes_of_the_database().lower()
    assert unfinished_forgetting.left_behind() == [number]
    with killed_at(monkeypatch, module, name, is_after=is_after):
        clean()
    clean()
    clean()
    assert WORD.encode() not in bytes_of_the_database().lower()
    assert unfinished_forgetting.unfinished() == []
    assert AuditEntry.objects.get(action=unfinished_forgetting.DONE).actor == "worker"
    assert audit.check().broken is None


def test_x27_a_worker_tries_again_when_the_broker_is_away(
    people: dict[str, User], settings: Any
) -> None:
    """[X27]"""
    forgetting.remove(people["gone"], actor="boss")
    url, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
    with pytest.raises(CommandError, match="not what they left behind"):
        clean()
    settings.REDIS_URL = url
    clean()
    assert unfinished_forgetting.unfinished() == []


def test_x27_a_broker_that_does_not_permit_it_is_asked_once(
    people: dict[str, User], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X24] A worker would write the whole database anew each minute."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.acl_setuser(
            "plain", enabled=True, passwords=["+plain"], keys=["*"], channels=["*"],
            categories=["+@all", "-@dangerous"],
        )  # fmt: skip
    forgetting.remove(people["gone"], actor="boss")
    place = urlsplit(settings.REDIS_URL)
    settings.REDIS_URL = f"redis://plain:plain@{place.hostname}:{place.port}/0"
    with pytest.raises(CommandError, match="the broker does not permit"):
        clean()
    assert WORD.encode() not in bytes_of_the_database().lower()
    assert unfinished_forgetting.unfinished() == []
    monkeypatch.setattr(cleaning, "clean", None)
    clean()


def test_x27_a_broker_that_is_away_leaves_the_database_alone(
    people: dict[str, User], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X27] It is asked each minute."""
    forgetting.remove(people["gone"], actor="boss")
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(cleaning, "clean", None)
    with pytest.raises(CommandError, match="not what they left behind"):
        clean()


@pytest.mark.parametrize(("name", "shown"), [("remove_rows", WORD), ("finish", "traces")])
def test_x27_the_doctor_says_that_it_was_cut_off(
    people: dict[str, User], monkeypatch: pytest.MonkeyPatch, name: str, shown: str
) -> None:
    """[X27] After an hour, until the command that it names was run."""

    def ends(*args: Any, **kwargs: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(forgetting, name, ends)
        with pytest.raises(Killed):
            forget(people["gone"])
    now = timezone.now()
    assert cut_off(now) == []
    [found] = cut_off(now + timedelta(hours=1, minutes=1))
    assert shown in found.what
    line = re.search("`manage.py (person forget [^`]+)`", found.fix)
    assert line is not None
    call_command(*shlex.split(line[1]))
    assert cut_off(now + timedelta(days=1)) == []
    assert everything.places_of(WORD) == []


def cut_off(now: datetime) -> list[Finding]:
    return [each for each in examination.examine(now=now) if each.id == "forgetting"]


@pytest.mark.either
@pytest.mark.parametrize("rows", of_this_turn([1, 5, 9, 14, 19, 29, 34], parts=2))
def test_x27_also_between_two_rows(
    people: dict[str, User], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """[X27] After so many tables."""
    remove, done = dependents.remove, 0

    def removes(found: Any) -> int:
        nonlocal done
        done += 1
        if done > rows:
            raise Killed
        return remove(found)

    def removes_rows(user: User) -> None:
        monkeypatch.setattr(dependents, "remove", removes)
        remove_rows(user)

    remove_rows = forgetting.remove_rows
    with monkeypatch.context() as patch:
        patch.setattr(forgetting, "remove_rows", removes_rows)
        with pytest.raises(Killed):
            forget(people["gone"])
    monkeypatch.setattr(dependents, "remove", remove)
    forget(people["gone"])
    assert everything.places_of(WORD) == []
    assert WORD.encode() not in bytes_of_the_database().lower()


def test_x28_the_last_owner_is_not_forgotten(people: dict[str, User]) -> None:
    """[X28] Nothing changes; with a second owner one can be forgotten. An inactive one is none."""
    User.objects.create(username="asleep", is_owner=True, is_active=False)
    with pytest.raises(CommandError, match="last owner"):
        forget(people["owner"])
    assert User.objects.get(username="boss").is_active
    User.objects.create(username="second", is_owner=True)
    forget(people["owner"])
    assert not User.objects.filter(username="boss").exists()


def test_x28_an_unknown_name_is_said(people: dict[str, User]) -> None:
    """[X28] Also while somebody else is being forgotten."""
    with pytest.raises(CommandError, match="no person"):
        forget(User(username="absent"))
    forgetting.begin(people["gone"], actor="test")
    with pytest.raises(CommandError, match="no person"):
        forget(User(username="absent"))
    forgetting.remove(people["gone"], actor="test")
    said = StringIO()
    call_command("person", "forget", people["stays"].username + "s", stdout=said)
    assert said.getvalue().startswith("No person has this name.")
    assert unfinished_forgetting.unfinished() == []


def test_x28_a_broker_that_is_away_stops_before_anything_is_removed(
    people: dict[str, User], settings: Any
) -> None:
    """[X28] The streams of the runs are found by their rows; access has ended all the same."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(CommandError, match="broker"):
        forget(people["gone"])
    assert StoredFile.objects.filter(user=people["gone"]).exists()
    assert not User.objects.get(pk=people["gone"].pk).is_active


def test_x24_a_name_that_is_a_common_word_removes_no_others(people: dict[str, User]) -> None:
    """[X24] Neither keys of the broker, nor notices, nor names of fields in the audit."""
    User.objects.filter(pk=people["gone"].pk).update(username="run", display_name="text")
    before = everything.rows_of(people["stays"])
    data: dict[str, object] = {"run": 1, "text": "x"}
    row = audit.record(
        actor="manage.py", action="x.y", subject="run:1", data=data, now=timezone.now()
    )
    said = f"{people['stays']} has spent 80 %"
    notice = Delivery.objects.filter(session=None, payload__text=said).first()
    assert notice is not None
    forget(User(username="run"))
    assert Delivery.objects.filter(pk=notice.pk).exists()
    assert everything.rows_of(people["stays"]) == before
    assert OTHER in texts_of_the_broker()
    assert AuditEntry.objects.get(pk=row.pk).data == data


@pytest.mark.parametrize("kind", ["im", "email", "phone", "any"])
def test_x25_an_address_is_no_number_of_a_row(kind: str) -> None:
    """[X25] Whatever its kind: the number of a row stays, an address that is one goes."""
    known = Words(["5550001"])
    assert mentions.without_name(f"{kind}:5550001", "user:7", known) == f"{kind}:[forgotten]"
    assert mentions.without_name("apikey:5550001 5550001", "user:7", known) == (
        "apikey:5550001 [forgotten]"
    )
