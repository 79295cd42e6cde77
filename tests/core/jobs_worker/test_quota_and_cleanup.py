"""[L5] The quota of a user: enforced at every endpoint that stores; unused files are purged."""

import base64
import errno
import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from allowlist import keys
from channels_app.agent_sessions.results import NotSentError
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.http import RefusedError
from channels_app.intake import inbound
from channels_app.mcp import adapter, server
from channels_app.worker.runner import Runner
from core.conversations import inbox
from core.database import transactions
from core.files import cleanup, quota, storage
from core.lib import disk
from core.models import ChannelAccount, Installation, Job, Run, StoredFile, User
from core.tools import save_result_page
from core.tools.base import ToolError
from core.tools.testing import play
from tests.channels_app.running import guest, owner, until
from tests.channels_app.telegram.conftest import local
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import message
from tests.core.jobs_worker.conftest import Say, Worker
from tests.core.jobs_worker.test_asked import CALL
from tests.core.jobs_worker.test_links import ask

__all__ = ["guest", "local", "owner"]
pytestmark = pytest.mark.django_db(transaction=True)
NO_ROOM = "Not enough storage for this file: your limit is 1 files."


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty folder: other tests leave files in theirs."""
    monkeypatch.setattr(storage, "folder", lambda: tmp_path / "files")


@pytest.fixture
def full(settings: Settings) -> None:
    """Set a quota of one file per user."""
    settings.MAX_FILES_PER_USER = 1


@pytest.fixture
def eve(db: None) -> Any:
    """Return a user with a stored file."""
    made = User.objects.create(username="eve")
    storage.keep(user=made, name="a.txt", content=b"first")
    yield made
    _close()


def _close() -> None:
    transactions.close_pool()


def document(text: str) -> dict[str, str]:
    data = base64.b64encode(text.encode()).decode()
    return {"kind": "file", "url": f"data:text/plain;base64,{data}", "name": "a.txt"}


def bytes_on_disk() -> list[Path]:
    return [
        path for path in storage.folder().rglob("*") if path.is_file() and path.name != storage.MARK
    ]


def test_more_files_than_one_may_keep_are_refused_and_leave_nothing(eve: User, full: None) -> None:
    with pytest.raises(quota.QuotaExceededError, match=NO_ROOM):
        storage.keep(user=eve, name="b.txt", content=b"second")
    path = storage.new_path()
    path.write_bytes(b"second")
    with pytest.raises(quota.QuotaExceededError, match=NO_ROOM):
        storage.receive(path=path, user=eve, name="b.txt")
    path.unlink()
    assert len(bytes_on_disk()) == StoredFile.objects.count() == 1
    storage.keep(user=eve, name="c.pptx", content=b"made for her", origin=storage.MADE)
    storage.keep(user=User.objects.create(username="ada"), name="d.txt", content=b"another's")


def test_more_bytes_than_one_may_keep_are_refused(eve: User, settings: Settings) -> None:
    settings.MAX_FILE_MEGABYTES_PER_USER = 1
    rest = storage.MEGABYTE - len(b"first")
    storage.keep(user=eve, name="b", content=b"x" * rest)
    with pytest.raises(quota.QuotaExceededError, match="your limit is 1 MB"):
        storage.keep(user=eve, name="c", content=b"x")
    settings.MAX_FILE_MEGABYTES_PER_USER = 0
    storage.keep(user=eve, name="c", content=b"x")


async def test_an_upload_beyond_the_quota_is_413_until_a_file_is_deleted(
    eve: User, full: None
) -> None:
    key = (await transactions.in_thread(keys.create, name="k", user=eve, scopes=["chat"]))[1]
    for length in ("0", "6"):
        status, _, body = await ask(
            "/files",
            "name=b.txt",
            method="POST",
            body=b"second",
            x_api_key=key,
            content_length=length,
        )
        assert (status, NO_ROOM.encode() in body) == (413, True)
    name = await transactions.in_thread(lambda: StoredFile.objects.get().public_id)
    assert (await ask(f"/files/{name}", method="DELETE"))[0] in {401, 403}
    assert (await ask(f"/files/{name}", method="DELETE", x_api_key=key))[0] == 200
    assert (await ask(f"/files/{name}", x_api_key=key))[0] == 404
    await transactions.in_thread(lambda: cleanup.purge(now=transactions.now()))
    status, _, _ = await ask("/files", "name=b.txt", method="POST", body=b"second", x_api_key=key)
    assert status == 201


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/inbound", {"text": "hi", "files": [document("second")["url"]]}),
        ("/v1/chat/completions", {"model": "default", "messages": [{"role": "user", "content": [
            {"type": "text", "text": "hi"},
            {"type": "file", "file": {"filename": "a.txt", "file_data": document("second")["url"]}},
        ]}]}),
        ("/ui/chat", {"id": "c", "messages": [{"id": "m", "role": "user", "parts": [
            {"type": "text", "text": "hi"},
            {"type": "file", "mediaType": "text/plain", "url": document("second")["url"]},
        ]}]}),
    ],
)  # fmt: skip
async def test_endpoints_with_files_in_their_bodies_answer_413(
    eve: User, full: None, path: str, body: dict[str, Any]
) -> None:
    created = await transactions.in_thread(
        keys.create, name="k", user=eve, scopes=["chat", "inbound"]
    )
    status, _, answer = await ask(
        path,
        method="POST",
        body=json.dumps(body).encode(),
        x_api_key=created[1],
        authorization=f"Bearer {created[1]}",
        content_type="application/json",
    )
    assert (status, NO_ROOM.encode() in answer) == (413, True), answer


def test_stored_content_counts_once_towards_the_quota(
    worker: Worker, say: Say, script: Any, settings: Settings
) -> None:
    """A client that keeps the history sends the same document with every message."""
    script([])
    run = say("read", media=[document("The sea is salty.")])
    settings.MAX_FILES_PER_USER = 1
    again = say("again", media=[document("The sea is salty.")], session=run.session.public_id)
    assert "The sea is salty." in again.result["text"]
    with pytest.raises(RefusedError):
        say("more", media=[document("Another text")])


def test_an_agent_gets_the_quota_error(eve: User, full: None) -> None:
    session = inbox.open_session(user=eve, account=_http())
    arguments = adapter.SendFile(name="b.txt", content_base64=base64.b64encode(b"b").decode())
    with pytest.raises(NotSentError, match="Not enough storage"):
        server.given_file(eve, session, arguments)


def _http() -> ChannelAccount:
    return builtin_account("http")


def test_telegram_answers_with_a_line_whatever_the_model_says(
    runner: Runner, local: Local, script: Any, settings: Settings, guest: User
) -> None:
    storage.keep(user=guest, name="a.txt", content=b"first")
    settings.MAX_FILES_PER_USER = 1
    script([{"match": "", "steps": [{"text": "I read nothing."}]}])
    local.api.files["files/doc"] = b"second"
    sent = {"file_id": "doc", "file_name": "b.txt", "file_size": 6}
    local.post(message(user=556, document=sent, caption="read this"))
    until(lambda: any(NO_ROOM in text for text in local.texts(556)))
    assert StoredFile.objects.count() == 1


# --- the chore ------------------------------------------------------------------------------------


def test_bytes_of_files_that_were_taken_back_or_expired_go_their_rows_stay(eve: User) -> None:
    first = StoredFile.objects.get()
    storage.revoke(first)
    storage.keep(
        user=eve, name="b", content=b"old", expires_at=transactions.now() - timedelta(hours=1)
    )
    assert cleanup.purge(now=transactions.now()) == 2
    assert bytes_on_disk() == []
    assert StoredFile.objects.filter(purged_at__isnull=False).count() == 2
    assert cleanup.purge(now=transactions.now()) == 0


def test_one_file_that_the_disk_keeps_holds_up_no_other(eve: User) -> None:
    kept = StoredFile.objects.get()
    storage.path_of(kept).unlink()
    storage.path_of(kept).mkdir()  # as damaged disks and other programs leave one
    other = storage.keep(user=eve, name="b", content=b"taken back")
    for file in (kept, other):
        storage.revoke(file)
    assert cleanup.purge(now=transactions.now()) == 1
    assert not storage.path_of(other).exists()
    kept.refresh_from_db()
    assert kept.purged_at is None


def test_bytes_are_removed_by_the_machine_that_has_them(eve: User) -> None:
    """One without the folder finds none, and must not note that they are gone."""
    del eve
    file = StoredFile.objects.get()
    storage.revoke(file)
    assert storage.misplaced() == ""
    mark = Installation.objects.get().files_mark
    Installation.objects.update(files_mark="of-another-machine")
    assert cleanup.purge(now=transactions.now()) == 0
    Installation.objects.update(files_mark=mark)
    assert cleanup.purge(now=transactions.now()) == 1


def test_files_of_a_conversation_or_a_link_stay(eve: User) -> None:
    session = inbox.open_session(user=eve, account=_http())
    storage.keep(user=eve, name="b", content=b"of a session", session_id=session.id)
    storage.keep(user=eve, name="c", content=b"made", origin=storage.MADE)
    StoredFile.objects.update(created_at=Now() - timedelta(days=400))
    for path in bytes_on_disk():
        os.utime(path, (1, 1))
    assert cleanup.purge(now=transactions.now()) == 1  # the upload that no message names
    assert cleanup.sweep() == 0
    assert sorted(path.read_bytes() for path in bytes_on_disk()) == [b"made", b"of a session"]


def test_files_stay_on_a_disk_that_takes_small_and_capital_letters_for_the_same(eve: User) -> None:
    """As that of a Mac, and many shared folders: it shows a folder as the first file there made it,
    and the files of earlier versions had others. New ones are in small letters."""
    for name in ("aB34567890123456789012", "Ab34567890123456789013"):
        path = storage.folder() / "ab" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"of one folder")
        row = storage.described(path=path, name="a.txt", user=eve)
        row.path = f"{name[:2]}/{name}"
        row.save()
    for path in bytes_on_disk():
        os.utime(path, (1, 1))
    assert cleanup.sweep() == 0
    folders = {storage.new_path().parent.name for _ in range(50)}
    assert all(each == each.lower() for each in folders)


def test_the_files_of_another_database_stay(eve: User) -> None:
    """An owner sets DATABASE_URL to a new database, and back when nothing is there."""
    del eve
    StoredFile.objects.all().delete()
    Installation.objects.all().delete()
    for path in bytes_on_disk():
        os.utime(path, (1, 1))
    assert "not those of this database" in storage.misplaced()
    assert cleanup.sweep() == 0
    assert len(bytes_on_disk()) == 1
    storage.adopt_folder()
    assert storage.misplaced() == ""
    assert cleanup.sweep() == 1
    Installation.objects.update(files_mark="of-another-machine")
    storage.new_path()
    for path in bytes_on_disk():
        os.utime(path, (1, 1))
    assert cleanup.sweep() == 0


def test_a_first_start_that_was_cut_off_keeps_its_folder(eve: User) -> None:
    """Killed between the mark of the folder and that of the database; files came afterwards."""
    del eve
    Installation.objects.all().delete()
    assert storage.mark_of_folder("")
    assert storage.misplaced() == ""


def test_a_shared_folder_whose_files_have_one_name_only_gets_its_mark(
    eve: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of some clouds (SMB, object stores): no web process was ever ready there."""
    del eve

    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    (storage.folder() / storage.MARK).unlink(missing_ok=True)
    Installation.objects.all().delete()
    monkeypatch.setattr(os, "link", refuse)
    first = storage.mark_of_folder("")
    assert first
    assert storage.mark_of_folder("") == first
    assert storage.misplaced() == ""
    assert [each.name for each in storage.folder().glob(f"{storage.MARK}*")] == [storage.MARK]


def test_an_upload_that_a_waiting_message_names_stays(eve: User) -> None:
    stored = StoredFile.objects.get()
    StoredFile.objects.update(created_at=Now() - timedelta(days=2))
    draft = inbox.Draft(
        account=_http(), text="read", media=[{"kind": "file", "upload": stored.public_id}]
    )
    receipt = inbound.receive_personal(user=eve, draft=draft, session_id="", now=transactions.now())
    assert cleanup.purge(now=transactions.now()) == 0
    assert receipt.run
    receipt.run.state = "cancelled"
    receipt.run.save(update_fields=["state"])
    assert cleanup.purge(now=transactions.now()) == 1


def test_l2_files_of_an_unfinished_job_are_removed_when_its_worker_crashed(
    eve: User,
) -> None:
    """[L2] Its worker died before the stop; a running job's files, and finished ones, are left
    alone.
    """
    session = inbox.open_session(user=eve, account=_http())
    run = Run.objects.create(user=eve, session=session)
    ages = {"cancelled": 10, "failed": 10, "succeeded": 10, "running": 10}
    left = {}
    for name, seconds in {**ages, "cancelled just now": 1, "cancelled long ago": 7200}.items():
        job = Job.objects.create(run=run, tool_call_id=name, tool="t", state=name.split()[0])
        Job.objects.filter(id=job.id).update(finished_at=Now() - timedelta(seconds=seconds))
        left[name] = storage.folder() / "jobs" / str(job.id) / "1" / "half.bin"
        left[name].parent.mkdir(parents=True)
        left[name].write_bytes(b"half")
    assert cleanup.discard_unfinished() == 2
    assert [name for name, path in left.items() if not path.parents[1].exists()] == [
        "cancelled",
        "failed",
    ]
    assert cleanup.discard_unfinished() == 0


def test_bytes_without_a_row_go_after_a_day(eve: User) -> None:
    lost, young = storage.new_path(), storage.new_path()
    left = storage.folder() / "jobs" / "77" / "1" / "half.bin"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    for path in (lost, left, storage.path_of(StoredFile.objects.get())):
        os.utime(path, (time.time() - 2 * 86_400,) * 2)
    assert cleanup.sweep() == 2
    assert not lost.exists()
    assert not left.parents[1].exists()  # no empty folder stays, either
    assert young.exists()
    assert storage.path_of(StoredFile.objects.get()).exists()
    eve.delete()
    assert cleanup.sweep() == 1


@pytest.fixture
def no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the disk: half of each file is written."""

    @storage.disk_failures()
    def write_half(path: Path, content: bytes) -> None:
        path.write_bytes(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage, "append", write_half)


def test_nothing_is_left_of_a_file_that_the_disk_cannot_take(eve: User, no_space: None) -> None:
    """Else it would keep the disk full until the sweep, a day later."""
    before = bytes_on_disk()
    with pytest.raises(storage.NotStoredError, match="its disk may be full"):
        storage.keep(user=eve, name="b.txt", content=b"second")
    assert bytes_on_disk() == before
    assert StoredFile.objects.count() == 1


def test_nothing_is_left_of_a_file_that_the_disk_takes_and_then_loses(
    eve: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    before = bytes_on_disk()
    monkeypatch.setattr(disk, "sync_within", lose)
    with pytest.raises(storage.NotStoredError):
        storage.keep(user=eve, name="b.txt", content=b"second")
    assert bytes_on_disk() == before


async def test_an_upload_that_the_disk_cannot_take_is_507_and_leaves_nothing(
    eve: User, no_space: None
) -> None:
    before = bytes_on_disk()
    key = (await transactions.in_thread(keys.create, name="k", user=eve, scopes=["chat"]))[1]
    status, _, body = await ask(
        "/files", "name=b.txt", method="POST", body=b"second", x_api_key=key
    )
    assert (status, json.loads(body)["error"]) == (507, str(storage.NOT_STORED))
    assert bytes_on_disk() == before


def test_a_model_gets_the_reason_why_its_page_is_not_saved(eve: User, no_space: None) -> None:
    """It said no more than that the tool had failed."""
    given = {"title": "The plan", "content": "Costs 5 €."}
    with pytest.raises(ToolError, match=storage.DISK_FULL):
        play(save_result_page.TOOL, given, user_id=eve.pk)


def test_a_message_is_answered_though_the_disk_cannot_take_its_file(
    worker: Worker, say: Say, script: Any, no_space: None
) -> None:
    script([{"match": "", "steps": [{"text": "I read nothing."}]}])
    run = say("read", media=[document("The sea is salty.")])
    assert run.state == "succeeded"
    assert "I read nothing." in run.result["text"]
    assert str(storage.NOT_STORED) in run.result["text"]
    assert not StoredFile.objects.exists()


def test_a_job_that_the_disk_cannot_take_fails_with_the_reason(
    worker: Worker, say: Say, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process crashed again and again instead."""
    make = Path.mkdir

    def full(path: Path, *arguments: Any, **named: Any) -> None:
        if "jobs" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        make(path, *arguments, **named)

    monkeypatch.setattr(Path, "mkdir", full)
    script([{"match": "", "steps": [{"tool": "route_to_plugin", "arguments": CALL}]}])
    run = say("slides please")
    job = Job.objects.get()
    assert (job.state, job.attempt, job.error) == ("failed", 1, str(storage.NOT_STORED))
    assert run.result["text"] == job.error
