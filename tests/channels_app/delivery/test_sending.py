"""Deliveries: files, blocks that were sent before, and answers that became shorter."""

import asyncio
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.utils import timezone

from channels_app.base import Account, Block, Capability, ChannelError, Health
from channels_app.memory.channel import CHANNEL, PLATFORM, MemoryGateway, say
from channels_app.rendering.translations import ENGLISH
from channels_app.replies import outbound
from channels_app.worker.runner import Runner
from core.conversations import outbox
from core.conversations.runs import Outcome
from core.database.transactions import atomic_write
from core.files import storage
from core.lib import leases
from core.models import ChannelAccount, Delivery, Run, StoredFile, User
from tests.channels_app.running import memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)


def settled(run: Run, outcome: Outcome) -> None:
    """Return the deliveries at the end of a run, in a transaction."""
    with atomic_write():
        outbound.enqueue_answer(run, outcome)


def put(account: ChannelAccount, payload: Block, key: str = "x") -> Delivery:
    """Queue a block for the chat ``c``."""
    return outbox.enqueue(
        key=key,
        account_id=account.pk,
        conversation=key,
        target={"chat": "c", "thread": "", "reply_to": ""},
        payload=payload,
    )


@pytest.fixture
def answered(runner: Runner, owner: User) -> Run:
    """Return a run in the chat ``c`` that was answered with ``hello``."""
    account = memory_account()
    say(account=account, sender="555", chat="c", text="hello", message_id="1", now=timezone.now())
    until(lambda: PLATFORM.texts("c") == ["hello"])
    return Run.objects.select_related("session__account", "user").get()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("notes.txt", b"content", "document"),
        ("song.mp3", b"content", "audio"),
        ("screen.png", b"\x89PNG\r\n\x1a\n", "photo"),
        ("cat.gif", b"GIF89a", "document"),  # as a photo it would stand still
    ],
)
def test_stored_files_are_documents_audio_or_photos(
    runner: Runner, owner: User, name: str, content: bytes, kind: str
) -> None:
    """[D7] [T7]"""
    stored = storage.keep(user=owner, name=name, content=content)
    put(memory_account(), {"kind": "document", "file": stored.public_id, "caption": "for you"})
    until(lambda: PLATFORM.sent)
    sent = PLATFORM.sent[0].file
    assert sent is not None
    assert (sent.kind, sent.name, sent.content, sent.caption) == (kind, name, content, "for you")


def test_a_file_that_is_gone_is_a_dead_letter(runner: Runner, owner: User) -> None:
    stored = storage.keep(user=owner, name="a.txt", content=b"x")
    storage.path_of(stored).unlink()
    put(memory_account(), {"kind": "document", "file": stored.public_id})
    put(memory_account("other"), {"kind": "document", "file": "unknown"}, key="y")
    until(lambda: Delivery.objects.filter(state="dead").count() == 2)
    assert set(Delivery.objects.values_list("error", flat=True)) == {"The file is gone."}


def test_a_channel_without_files_gets_the_name_and_the_link(
    runner: Runner, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a caption an agent's file has its name as the caption."""
    only_text = frozenset({Capability.EDIT})
    monkeypatch.setattr(CHANNEL, "capabilities", only_text)
    stored = storage.keep(user=owner, name="a.txt", content=b"x")
    put(memory_account(), {"kind": "document", "file": stored.public_id, "caption": "a.txt"})
    until(lambda: PLATFORM.texts("c"))
    (text,) = PLATFORM.texts("c")
    name, link = text.splitlines()
    assert name == "📎 a.txt"
    assert "/files/out?token=" in link


def test_a_payload_of_a_newer_version_is_a_dead_letter(runner: Runner, owner: User) -> None:
    put(memory_account(), {"kind": "hologram"})
    until(lambda: Delivery.objects.filter(state="dead").exists())


def test_an_answer_that_became_shorter_takes_its_surplus_back(answered: Run) -> None:
    with atomic_write():
        surplus = outbound.put_block(run=answered, index=1, payload={"text": "second half"})
    until(lambda: PLATFORM.texts("c") == ["hello", "second half"])
    settled(answered, Outcome(state="succeeded", text="Hello!"))
    until(lambda: PLATFORM.texts("c") == ["Hello!"])
    until(lambda: Delivery.objects.get(id=surplus.id).state == "sent")


def test_a_failed_run_says_so_and_an_empty_answer_says_something(answered: Run) -> None:
    settled(answered, Outcome(state="failed", error="The model broke."))
    until(lambda: PLATFORM.texts("c") == ["⚠️ The model broke."])
    settled(answered, Outcome(state="succeeded"))
    until(lambda: PLATFORM.texts("c") == ["The assistant had nothing to say."])


def test_where_nothing_can_be_edited_another_answer_begins_anew(
    answered: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CHANNEL, "capabilities", frozenset[Capability]())
    settled(answered, Outcome(state="succeeded", text="Something else."))
    until(lambda: PLATFORM.texts("c")[-1] == "Something else.")
    assert PLATFORM.texts("c")[0] == "hello"
    assert "interrupted" in PLATFORM.texts("c")[1]


def test_the_outcome_of_a_lost_sending_is_unknown_it_goes_out_once_more_and_the_reader_is_told(
    runner: Runner, owner: User
) -> None:
    PLATFORM.refusals.append(ChannelError("no answer", unsure=True))
    put(memory_account(), {"text": "hello"})
    until(lambda: PLATFORM.texts("c") == ["hello", ENGLISH.repeated])
    until(lambda: not Delivery.objects.exclude(state="sent").exists())
    first = Delivery.objects.order_by("id")[0]
    assert first.error == outbox.REPEATED
    Delivery.objects.filter(id=first.id).update(state="sending", lease_until=timezone.now())
    until(lambda: Delivery.objects.get(id=first.id).state == "sent")
    assert PLATFORM.texts("c") == ["hello", ENGLISH.repeated]


def test_where_a_repeat_is_possible_the_platform_is_asked_for_its_health_first(
    runner: Runner, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = ChannelError("no connection")
    asked: list[str] = []

    async def check(self: MemoryGateway, account: Account) -> Health:
        asked.append(account.name)
        if len(asked) < 3:
            raise away
        return Health()

    monkeypatch.setattr(MemoryGateway, "check", check)
    PLATFORM.refusals.append(ChannelError("no answer", unsure=True))
    put(memory_account(), {"text": "hello"})
    until(lambda: Delivery.objects.get().tries == 2)
    assert PLATFORM.texts("c") == []
    until(lambda: PLATFORM.texts("c")[:1] == ["hello"])


def test_a_platform_that_says_nothing_of_its_health_leaves_no_second_doubt(
    runner: Runner, owner: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its health was queried, nothing was sent: the message is not given up."""
    settings.DELIVERY_LEASE_SECONDS = 1
    asked: list[str] = []

    async def check(self: MemoryGateway, account: Account) -> Health:
        if leases._current.get() is None:
            return Health()  # asked by the chore that looks after accounts
        asked.append(account.name)
        if len(asked) == 1:
            await asyncio.sleep(60)
        return Health()

    monkeypatch.setattr(MemoryGateway, "check", check)
    PLATFORM.refusals.append(ChannelError("no answer", unsure=True))
    put(memory_account(), {"text": "hello"})
    until(lambda: PLATFORM.texts("c") == ["hello", ENGLISH.repeated], seconds=30)
    assert len(asked) == 2


def test_rc8_a_sweep_sends_the_deliveries_of_a_dead_worker(
    owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[str, int]] = []
    made = Runner()
    monkeypatch.setattr(made, "_spawn", lambda *key: begun.append(key))
    row = put(memory_account(), {"text": "hello"})
    long_ago = timezone.now() - timedelta(seconds=1)
    Delivery.objects.update(state="sending", attempt=1, lease_until=long_ago)
    asyncio.run(made._sweep())
    made.loop.close()
    assert begun == [("delivery", row.id)]


def test_two_doubts_leave_it_to_the_owner(runner: Runner, owner: User) -> None:
    PLATFORM.refusals += [ChannelError("no answer", unsure=True)] * 2
    put(memory_account(), {"text": "hello"})
    until(lambda: Delivery.objects.get().state == "uncertain")
    assert outbox.dismiss(Delivery.objects.get().id)


def test_an_account_of_a_channel_that_is_not_installed(runner: Runner, owner: User) -> None:
    account = ChannelAccount.objects.create(channel="gone", name="x")
    put(account, {"text": "hello"})
    until(lambda: Delivery.objects.filter(state="dead").exists())
    assert not StoredFile.objects.exists()


def test_a_progress_line_becomes_the_answer(
    runner: Runner, owner: User, settings: Any, tmp_path: Any
) -> None:
    path = tmp_path / "script.json"
    loading = {"native": {"type": "loading", "props": {"message": "Drawing slides…"}}}
    path.write_bytes(
        orjson.dumps([{"match": "", "steps": [loading, {"sleep": 1}, {"text": "Here they are."}]}])
    )
    settings.LLM_SCRIPT = str(path)
    account = memory_account()
    say(account=account, sender="555", chat="c", text="go", message_id="1", now=timezone.now())
    until(lambda: PLATFORM.texts("c") == ["Drawing slides…"])
    until(lambda: PLATFORM.texts("c") == ["Here they are."])
