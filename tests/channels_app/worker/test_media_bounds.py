"""Which media are fetched or stored, for whom, once, and up to which size."""

import asyncio
import base64
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from channels_app.base import Account, Channel, ChannelError, RemoteFile
from channels_app.intake import media as in_messages
from channels_app.memory.channel import CHANNEL, PLATFORM
from channels_app.worker import media, media_files
from channels_app.worker.pictures import pictures_of
from core.conversations.events import LostLeaseError
from core.conversations.sessions import delete
from core.files import quota, storage
from core.lib.ids import public_id
from core.media.describe import Describer
from core.media.text import Medium
from core.models import ChatSession, InboundMessage, Message, Run, StoredFile, User
from tests.channels_app.running import guest, memory_account, owner
from tests.channels_app.schedules.making import chat_of

__all__ = ["guest", "owner"]
pytestmark = pytest.mark.django_db
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6"
    "kgAAAABJRU5ErkJggg=="
)
Item = dict[str, Any]


@pytest.fixture(autouse=True)
def platform() -> Iterator[None]:
    """Begin with an empty platform."""
    PLATFORM.clear()
    yield
    PLATFORM.clear()


@pytest.fixture
def session(guest: User) -> ChatSession:
    return chat_of(guest, memory_account())


@pytest.fixture
def run(session: ChatSession) -> Run:
    return Run.objects.create(session=session, user=session.user)


def paper(text: str, **more: Any) -> Item:
    """Return a text file in a data URL."""
    data = base64.b64encode(text.encode()).decode()
    return {"kind": "document", "url": f"data:text/plain;base64,{data}", **more}


def kept(user: User, content: bytes = b"hello", **fields: Any) -> StoredFile:
    """Return a stored file of a person."""
    row = storage.keep(user=user, name="a.txt", content=content)
    StoredFile.objects.filter(pk=row.pk).update(**fields)
    return row


@pytest.mark.parametrize(
    ("item", "waits"),
    [
        ({"remote": "f"}, True),
        ({"upload": "f"}, True),
        ({"remote": "f", "text": ""}, False),
        ({"url": "https://example.org/a.png"}, False),
        ({"url": "x data:,"}, False),
        ({}, False),
        ({"url": PIXEL}, False),
        ({"kind": "document", "url": PIXEL}, True),
        ({"url": PIXEL, "remote": "f"}, True),
        (paper("hello", kind="image"), True),
        (paper("hello"), True),
    ],
)
def test_a_medium_waits_unless_it_goes_to_the_model_itself(item: Item, *, waits: bool) -> None:
    """Pictures do, by their first bytes, not by the type that is said."""
    assert in_messages.waits({"kind": "image", **item}) is waits


@pytest.mark.parametrize(
    ("url", "is_picture"),
    [
        (PIXEL, True),
        (PIXEL.replace("image/png", "text/plain"), True),
        (PIXEL[:-1], True),
        ("data:image/png;base64,iVBORw0KGgoAA", True),
        ("data:image/png;base64,AAAA,iVBORw0KGgoA", False),
        ("data:image/png;base64,AAA", False),
        ("data:image/png;base64,A===", False),
        ("data:image/png;base64,éééé", False),
        ("data:image/png;base64,A", False),
        ("data:image/png;base64,%%%%A", False),
        ("data:image/png", False),
        (paper("hello")["url"], False),
        (f"data:,{base64.b64encode(b'%PDF-1.4 and more of it').decode()}", False),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(url: str, *, is_picture: bool) -> None:
    assert in_messages.is_picture(url) is is_picture


def test_c6_pictures_above_the_limit_are_said_not_to_be_shown(run: Run, settings: Settings) -> None:
    """The model would be asked about pictures that it does not have. Documents do not count."""
    settings.MAX_ATTACHMENTS = 2
    run.text, made = "look", {name: f"data:{name}" for name in "abc"}
    shown = [{"kind": "image", "file": name, "seen": True} for name in made]
    run.route = {"media": [{"kind": "file", "file": "d"}, *shown[:2]]}
    assert list(asyncio.run(pictures_of(run, made))) == ["a", "b"]
    assert run.text == "look"
    run.route = {"media": shown}
    assert list(asyncio.run(pictures_of(run, made))) == ["a", "b"]
    assert run.text == "look\n[Only the first 2 of these 3 pictures are shown.]"


def test_files_of_a_message_count_with_their_size_unless_they_are_stored(
    guest: User, owner: User
) -> None:
    """Those that are pictures for the model, or still on their platform, do not."""

    def sizes(*items: Item) -> list[int]:
        return in_messages.sizes_to_keep([*items], user_id=guest.pk)

    remote = {"kind": "document", "remote": "f"}
    assert sizes({"kind": "image", "url": PIXEL}, remote, paper("x" * 300)) == [300]
    assert sizes(paper("hello"), paper("x" * 30)) == [6, 30]
    assert sizes({"kind": "document", "url": "data:,aGVsbG8"}) == [5]
    for other in ("hellp", "hell", "hello!"):
        kept(guest, other.encode())
    kept(owner)
    kept(guest, origin="made")
    kept(guest, purged_at=timezone.now())
    kept(guest, revoked_at=timezone.now())
    assert sizes(paper("hello")) == [6]
    kept(guest)
    assert sizes(paper("hello"), paper("x" * 30)) == [30]
    assert sizes({**paper("hello"), "text": "described"}) == []
    assert sizes({"kind": "document", "url": "data:,aGVs,bG8="}) == []


@pytest.mark.parametrize("text", ["x" * 30, "x" * 31, "x" * 32])
def test_a_stored_file_is_found_whatever_its_padding(guest: User, text: str) -> None:
    kept(guest, text.encode())
    assert in_messages.sizes_to_keep([paper(text)], user_id=guest.pk) == []


def test_a_file_of_a_message_is_stored_once_in_its_session(run: Run, session: ChatSession) -> None:
    """A client that keeps the history sends it with every message."""
    first = media_files.from_data_url(run, paper("hello", name="n.txt"))
    assert (first.name, first.session, first.run, first.user) == ("n.txt", session, run, run.user)
    assert storage.read(first) == b"hello"
    again = Run.objects.create(session=session, user=run.user)
    assert media_files.from_data_url(again, paper("hello")) == first
    assert media_files.from_data_url(again, paper("other")) != first
    elsewhere = Run.objects.create(session=chat_of(run.user, session.account, "d"), user=run.user)
    assert media_files.from_data_url(elsewhere, paper("hello")).session == elsewhere.session


@pytest.mark.parametrize("ended", ["revoked_at", "purged_at", "origin"])
def test_a_file_that_is_gone_or_was_made_here_is_stored_anew(run: Run, ended: str) -> None:
    first = media_files.from_data_url(run, paper("hello"))
    value = "made" if ended == "origin" else timezone.now()
    StoredFile.objects.filter(pk=first.pk).update(**{ended: value})
    assert media_files.from_data_url(run, paper("hello")) != first


@pytest.mark.parametrize(
    ("mime", "name"),
    [
        ("text/plain", "document.txt"),
        ("text/plain;charset=utf-8", "document.txt"),
        ("x/unknown", "document"),
        ("", "document"),
    ],
)
def test_a_file_without_a_name_has_that_of_its_kind(run: Run, mime: str, name: str) -> None:
    url = f"data:{mime};base64,aGVsbG8="
    assert media_files.from_data_url(run, {"kind": "document", "url": url}).name == name


@pytest.mark.parametrize("data", ["aGVsbG8", "aGVsbG8=%", "x", "aGVs,bG8=", "éééé"])
def test_a_damaged_file_is_refused_for_good(run: Run, data: str) -> None:
    with pytest.raises(ChannelError, match="the file is damaged") as caught:
        media_files.from_data_url(
            run, {"kind": "document", "url": f"data:text/plain;base64,{data}"}
        )
    assert caught.value.permanent
    assert not StoredFile.objects.exists()


def test_an_uploaded_file_belongs_to_the_first_session_that_names_it(
    run: Run, session: ChatSession
) -> None:
    file, other = kept(run.user), kept(run.user)
    found = media_files.uploaded(run, file.public_id)
    assert (found, found.session, found.run) == (file, session, run)
    later = Run.objects.create(session=session, user=run.user)
    again = media_files.uploaded(later, file.public_id)
    assert (again, again.session, again.run) == (file, session, run)
    other.refresh_from_db()
    assert other.session is None


def test_an_upload_that_is_sent_into_two_chats_outlives_the_first_one(
    run: Run, session: ChatSession
) -> None:
    file = kept(run.user)
    media_files.uploaded(run, file.public_id)
    later = Run.objects.create(session=chat_of(run.user, session.account, "d"), user=run.user)
    copy = media_files.uploaded(later, file.public_id)
    assert (copy.session, copy.run, copy.name) == (later.session, later, file.name)
    assert media_files.uploaded(later, file.public_id) == copy  # by another attempt
    other = kept(run.user, b"other", session=session)
    assert storage.read(media_files.uploaded(later, other.public_id)) == b"other"
    delete(session=session)
    assert storage.read(copy) == b"hello"
    assert StoredFile.objects.filter(sha256=copy.sha256).get() == copy


def test_uploads_of_the_same_content_stay_apart_in_their_chat(run: Run) -> None:
    for file in [kept(run.user), kept(run.user)]:
        assert [media_files.uploaded(run, file.public_id) for _ in range(2)] == [file, file]


def test_an_upload_without_its_bytes_is_not_copied(run: Run, session: ChatSession) -> None:
    file = kept(run.user, session=session)
    storage.path_of(file).unlink()
    later = Run.objects.create(session=chat_of(run.user, session.account, "d"), user=run.user)
    with pytest.raises(ChannelError, match="there is no such uploaded file") as caught:
        media_files.uploaded(later, file.public_id)
    assert caught.value.permanent


def test_a_copy_counts_as_a_file_of_its_person(
    run: Run, session: ChatSession, settings: Settings
) -> None:
    file = kept(run.user, session=session)
    settings.MAX_FILES_PER_USER = 1
    later = Run.objects.create(session=chat_of(run.user, session.account, "d"), user=run.user)
    with pytest.raises(quota.QuotaExceededError):
        media_files.uploaded(later, file.public_id)


@pytest.mark.parametrize("ended", ["user", "revoked_at", "purged_at", "public_id"])
def test_an_uploaded_file_of_another_person_or_one_that_is_gone_is_not_found(
    run: Run, owner: User, ended: str
) -> None:
    values: dict[str, Any] = {"user": owner, "public_id": public_id()}
    file = kept(run.user)
    row = StoredFile.objects.filter(pk=file.pk)
    row.update(**{ended: values.get(ended, timezone.now())})
    with pytest.raises(ChannelError, match="there is no such uploaded file") as caught:
        media_files.uploaded(run, file.public_id)
    assert caught.value.permanent
    assert row.get().session is None


@pytest.fixture
def stored(transactional_db: None, run: Run) -> Callable[[Item], StoredFile]:
    """Return ``stored(item)``: the stored file of a medium of the run."""

    def get(item: Item, channel: Channel | None = CHANNEL) -> StoredFile:
        return asyncio.run(media_files.stored_of(run, channel, {"kind": "document", **item}))

    return get


Stored = Callable[..., StoredFile]


def test_a_medium_is_taken_from_where_it_is(stored: Stored, run: Run) -> None:
    PLATFORM.files["f"] = b"remote"
    uploaded = kept(run.user, b"uploaded")
    assert stored({"upload": uploaded.public_id, "url": paper("x")["url"]}) == uploaded
    assert storage.read(stored({**paper("inline"), "remote": "f"})) == b"inline"
    found = stored({"remote": "f", "name": "n.txt", "size": 6})
    assert storage.read(found) == b"remote"
    columns = (found.name, found.user, found.session, found.run)
    assert columns == ("n.txt", run.user, run.session, run)
    names = {kind: stored({"remote": "f", "kind": kind}).name for kind in ("image", "document")}
    assert names == {"image": "image.jpg", "document": "document.bin"}


def test_a_quoted_file_that_the_conversation_has_is_not_stored_again(
    stored: Stored, session: ChatSession
) -> None:
    PLATFORM.files["f"] = b"remote"
    own = stored({"remote": "f", "name": "n.txt"})
    assert stored({"remote": "f", "quoted": "Bo"}) == own
    StoredFile.objects.update(origin=storage.MADE)  # the assistant's own document
    assert stored({"remote": "f", "quoted": "Bo"}) == own
    away: list[dict[str, Any]] = [
        {"session": None},
        {"session": session, "revoked_at": timezone.now()},
        {"purged_at": timezone.now()},
    ]
    for number, fields in enumerate(away, 2):
        StoredFile.objects.update(**fields)
        stored({"remote": "f", "quoted": "Bo"})
        assert StoredFile.objects.count() == number


class Asked:
    """A channel that is asked for files, and its outbound side."""

    max_download_bytes = 5

    def __init__(self) -> None:
        self.outbound = self
        self.asked: list[tuple[str, RemoteFile]] = []

    async def download_media(self, *, account: Account, file: RemoteFile) -> bytes:
        self.asked.append((account.name, file))
        return b"hello"


def test_a_channel_is_asked_for_the_file_as_its_platform_named_it(stored: Stored) -> None:
    channel = Asked()
    stored({"remote": "f", "name": "n.txt", "size": 5}, channel)
    stored({"remote": "g"}, channel)
    files = [RemoteFile("f", "n.txt", 5), RemoteFile("g", "", 0)]
    assert channel.asked == [("main", each) for each in files]


class Plain:
    """A channel that cannot download."""

    outbound = object()


def test_a_channel_without_downloads_gives_no_files(stored: Stored) -> None:
    for channel in (None, Plain()):
        with pytest.raises(ChannelError, match="this channel gives no files") as caught:
            stored({"remote": "f"}, channel)
        assert caught.value.permanent
    with pytest.raises(ChannelError, match="no such file"):
        stored({"remote": "f"})


def test_a_file_is_fetched_again_after_a_failure_that_passes(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its platform: a rate limit, a broken connection. Not for ever, and no other failure."""
    monkeypatch.setattr(
        media_files, "FETCH_WAITS", [each / 100 for each in media_files.FETCH_WAITS]
    )
    PLATFORM.files["f"] = b"data"
    busy = ChannelError("too many requests", retry_after=0.01)
    PLATFORM.refusals += [busy, ChannelError("no connection")]
    assert stored({"remote": "f"}).size == 4
    PLATFORM.refusals += [busy] * 4
    with pytest.raises(ChannelError, match="too many requests"):
        stored({"remote": "f"})
    assert len(PLATFORM.refusals) == 1
    PLATFORM.refusals[:] = [ChannelError("the file is too big", permanent=True), busy]
    with pytest.raises(ChannelError, match="too big"):
        stored({"remote": "f"})
    assert len(PLATFORM.refusals) == 1


class Broken(Asked):
    """A channel of another package, with its own failures."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def download_media(self, *, account: Account, file: RemoteFile) -> bytes:
        raise self.error


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), KeyError("f")])
def test_a_file_that_a_broken_channel_does_not_fetch_is_told_as_that(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A time-out was told as a full disk; another error ended the turn without an answer."""
    monkeypatch.setattr(media_files, "FETCH_WAITS", [])
    item: Item = {"kind": "document", "name": "n.txt", "remote": "f"}
    row = InboundMessage(account=run.session.account, run=run, media=[item])
    channel: Any = Broken(error)
    found = asyncio.run(media.describe_item(run, channel, row, item, {}, Describer()))
    assert "the file could not be fetched" in found["text"]
    assert "refused" not in found


def test_a_file_is_fetched_once_although_its_worker_ends_while_it_is_described(
    transactional_db: None, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long recording is put into words for minutes."""
    row = InboundMessage.objects.create(
        account=run.session.account,
        run=run,
        media=[{"kind": "audio", "remote": "f"}],
        received_at=timezone.now(),
    )
    PLATFORM.files["f"] = b"data"
    attempts = []

    async def described(medium: Medium, *_: object, **__: object) -> Medium:
        attempts.append(medium.file)
        if len(attempts) == 1:
            raise asyncio.CancelledError
        return replace(medium, transcript="hello")

    monkeypatch.setattr(media, "describe_content", described)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(media.prepare(run, Describer()))
    PLATFORM.files.clear()
    asyncio.run(media.prepare(run, Describer()))
    file = StoredFile.objects.get()
    assert attempts == [f"/files/{file.public_id}"] * 2
    row.refresh_from_db()
    assert row.media[0]["text"].endswith("Transcript: hello\nName: audio.ogg")


def test_a_worker_that_has_lost_a_run_changes_none_of_its_words(
    run: Run, session: ChatSession
) -> None:
    """It stood still while it fetched a file, and another worker has answered since."""
    said: Item = {"kind": "document", "text": "[hello]"}
    message = InboundMessage.objects.create(
        account=session.account, run=run, media=[said], received_at=timezone.now()
    )
    Run.objects.update(attempt=2, text="[hello]")
    Message.objects.create(session=session, run=run, role="user", text="[hello]")
    message.media = [{**said, "text": "[a file that could not be fetched]"}]
    with pytest.raises(LostLeaseError):
        media.keep(run, message)
    with pytest.raises(LostLeaseError):
        media.rewrite(run, [message])
    assert InboundMessage.objects.get().media == [said]
    assert [each.objects.get().text for each in (Run, Message)] == ["[hello]", "[hello]"]


def test_a_file_over_the_limit_of_its_channel_is_not_stored(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the size that the platform names, before it is fetched; and by its own."""
    most = CHANNEL.outbound.max_download_bytes
    PLATFORM.files.update(f=b"x" * most, g=b"x" * (most + 1))
    assert stored({"remote": "f", "size": most}).size == most
    said = "the file has 1 MB; at most 1 MB can be fetched"
    for size in (0, 5):
        with pytest.raises(ChannelError, match=said) as caught:
            stored({"remote": "g", "size": size})
        assert caught.value.permanent
    PLATFORM.files.clear()
    for size, megabytes in ((most + 1, 1), (3 * most, 3)):
        with pytest.raises(ChannelError, match=f"the file has {megabytes} MB") as caught:
            stored({"remote": "f", "size": size})
        assert caught.value.permanent
    assert StoredFile.objects.count() == 1


def test_a_file_over_the_quota_of_its_person_is_not_fetched(stored: Stored, settings: Any) -> None:
    settings.MAX_FILE_MEGABYTES_PER_USER = 1
    PLATFORM.files["f"] = b"x" * 600_000
    stored({"remote": "f", "size": 600_000})
    PLATFORM.refusals.append(ChannelError("it was asked for", permanent=True))
    with pytest.raises(quota.QuotaExceededError, match="your limit is 1 MB"):
        stored({"remote": "f", "size": 600_000})
    PLATFORM.refusals.clear()
    with pytest.raises(quota.QuotaExceededError):
        stored({"remote": "f"})
    assert StoredFile.objects.count() == 1
