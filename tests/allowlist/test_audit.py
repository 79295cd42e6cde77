"""The audit is append-only and chained: whatever is changed in it is found ([A6])."""

import io
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import F

from allowlist import audit
from allowlist.models import AuditEntry
from tests.allowlist.in_parallel import run_in_parallel

pytestmark = pytest.mark.django_db


@pytest.fixture
def chain(now: datetime) -> list[AuditEntry]:
    """Create five rows."""
    return [
        audit.record(
            actor=f"user:{number}",
            action="key.used",
            subject="a key",
            data={"number": number, "nested": {"list": [1, "ü", None, True]}},
            now=now + timedelta(microseconds=number),
        )
        for number in range(5)
    ]


def test_a_chain_as_it_was_written_is_whole(chain: list[AuditEntry]) -> None:
    """Nothing is found in what was not touched."""
    assert audit.check().broken is None
    assert chain[0].previous == ""
    assert chain[1].previous == chain[0].digest


def test_an_empty_audit_is_whole() -> None:
    """No row, no break."""
    assert audit.check().broken is None


@pytest.mark.parametrize("column", ["actor", "action", "subject", "previous", "digest"])
@pytest.mark.parametrize("which", [0, 2, 4])
def test_one_flipped_byte_of_one_row_is_found(
    chain: list[AuditEntry], column: str, which: int
) -> None:
    """In any column of any row, the first and the last included."""
    row = chain[which]
    value = getattr(row, column) or "x"
    flipped = chr(ord(value[0]) ^ 1) + value[1:]
    AuditEntry.objects.filter(pk=row.pk).update(**{column: flipped})
    assert audit.check().broken == row.pk


def test_a_changed_time_or_data_is_found(chain: list[AuditEntry]) -> None:
    """By a microsecond, or by one value deep inside."""
    AuditEntry.objects.filter(pk=chain[1].pk).update(at=F("at") + timedelta(microseconds=1))
    assert audit.check().broken == chain[1].pk
    AuditEntry.objects.filter(pk=chain[1].pk).update(at=chain[1].at)
    assert audit.check().broken is None
    data = {"number": 3, "nested": {"list": [1, "u", None, True]}}
    AuditEntry.objects.filter(pk=chain[3].pk).update(data=data)
    assert audit.check().broken == chain[3].pk


def test_a_removed_an_inserted_and_a_swapped_row_are_found(chain: list[AuditEntry]) -> None:
    """The row after a hole does not follow the one before it."""
    AuditEntry.objects.filter(pk=chain[2].pk).delete()
    assert audit.check().broken == chain[3].pk
    chain[2].save(force_insert=True)
    assert audit.check().broken is None
    chain[2].pk = chain[4].pk + 1
    chain[2].save(force_insert=True)
    assert audit.check().broken == chain[2].pk


def test_rows_cut_off_at_the_end_are_found_with_an_anchor(chain: list[AuditEntry]) -> None:
    """The last digest that ``audit_verify`` printed is no longer in the chain."""
    out = io.StringIO()
    call_command("audit_verify", stdout=out)
    assert f"5 rows, intact; last digest {chain[4].digest}" in out.getvalue()
    AuditEntry.objects.filter(pk=chain[4].pk).delete()
    call_command("audit_verify", stdout=out)
    with pytest.raises(CommandError, match="cut off"):
        call_command("audit_verify", anchor=chain[4].digest, stdout=out)
    call_command("audit_verify", anchor=chain[3].digest, stdout=out)


def test_the_command_names_the_broken_row(chain: list[AuditEntry]) -> None:
    """And ends with an error."""
    AuditEntry.objects.filter(pk=chain[1].pk).update(actor="somebody else")
    with pytest.raises(CommandError, match=f"broken at row {chain[1].pk}"):
        call_command("audit_verify")


def test_texts_that_no_database_takes_are_cleaned_before_they_are_sealed(now: datetime) -> None:
    """NUL, lone surrogates, floats, dates, tuples: read back as they were sealed."""
    audit.record(
        actor="a\x00b\ud800",
        action="x" * 100,
        subject="s" * 1000,
        data={"k\x00": "\ud800", "f": 0.1, "t": (1, now), "big": 2**60},
        now=now,
    )
    entry = AuditEntry.objects.get()
    assert entry.actor == "ab\ufffd"
    assert entry.data["k"] == "\ufffd"
    assert audit.check().broken is None


def test_the_zone_of_the_writer_does_not_matter(now: datetime) -> None:
    """Times are sealed in UTC."""
    audit.record(actor="a", action="b", now=now.astimezone(timezone(timedelta(hours=5))))
    assert AuditEntry.objects.get().at == now
    assert audit.check().broken is None


def test_the_export_is_one_json_object_a_line(chain: list[AuditEntry]) -> None:
    """With every column, oldest first, and it goes on after an id."""
    out = io.StringIO()
    call_command("audit_export", stdout=out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["id"] for row in rows] == [entry.pk for entry in chain]
    assert rows[3]["data"]["nested"] == {"list": [1, "ü", None, True]}
    assert datetime.fromisoformat(rows[0]["at"]).tzinfo == UTC
    out = io.StringIO()
    call_command("audit_export", after=chain[3].pk, stdout=out)
    assert len(out.getvalue().splitlines()) == 1


@pytest.mark.django_db(transaction=True)
def test_many_writers_at_once_make_one_chain(now: datetime) -> None:
    """Serialised on both databases, also inside longer transactions."""
    run_in_parallel(lambda n: audit.record(actor=str(n), action="x", now=now), times=100)
    assert AuditEntry.objects.count() == 100
    assert audit.check().broken is None


def test_a_row_that_is_rolled_back_leaves_no_hole(chain: list[AuditEntry], now: datetime) -> None:
    """The next row follows the last one that is there."""
    with transaction.atomic():
        audit.record(actor="lost", action="x", now=now)
        transaction.set_rollback(True)
    audit.record(actor="kept", action="x", now=now)
    assert audit.check().broken is None
    assert AuditEntry.objects.count() == 6


def moved(folder: Path) -> None:
    """Move the audit to another database as an owner does: ``dumpdata``, then ``loaddata``."""
    file = folder / "audit.json"
    call_command("dumpdata", "allowlist.AuditEntry", output=str(file))
    AuditEntry.objects.all().delete()
    call_command("loaddata", str(file), verbosity=0)


def test_the_chain_is_whole_after_dumpdata_and_loaddata(
    chain: list[AuditEntry], now: datetime, tmp_path: Path
) -> None:
    """JSON keeps milliseconds; the last digest, which an owner may have noted, is the same."""
    later = now + timedelta(microseconds=123_456)
    last = audit.record(actor="user:1", action="x", data={"number": 10**17, "é": [0.1]}, now=later)
    moved(tmp_path)
    found = audit.check(anchor=chain[2].digest)
    assert (found.broken, found.rows, found.last, found.anchored) == (None, 6, last.digest, True)
    assert audit.record(actor="a", action="b", now=later).previous == last.digest
    assert audit.check().broken is None


def test_rows_that_an_earlier_version_sealed_with_microseconds_are_whole_after_the_move(
    now: datetime, tmp_path: Path
) -> None:
    """And what is changed in them is still found, the millisecond of their time included."""
    previous = ""
    for microseconds in (123_456, 999_999, 1, 2_000):
        at = now + timedelta(microseconds=microseconds)
        row = AuditEntry(at=at, actor="a", action="b", data={}, previous=previous)
        row.digest = previous = audit.digest(row)
        row.save()
    assert audit.check().broken is None
    moved(tmp_path)
    assert AuditEntry.objects.filter(at=now + timedelta(microseconds=123_000)).exists()
    assert audit.check().broken is None
    first = AuditEntry.objects.earliest("pk")
    for change in ({"actor": "c"}, {"at": F("at") + timedelta(milliseconds=1)}):
        with transaction.atomic():
            AuditEntry.objects.filter(pk=first.pk).update(**change)
            assert audit.check().broken == first.pk
            transaction.set_rollback(True)
