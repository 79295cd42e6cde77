"""[RC8] After the outcome of a delivery: the next try, a search, a notice."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from channels_app import registry
from channels_app.base import Capability, ChannelError
from channels_app.delivery import find_sent, sending
from channels_app.memory.channel import CHANNEL, PLATFORM, MemoryOutbound
from channels_app.owner import notices, outages
from channels_app.rendering.translations import ENGLISH
from channels_app.replies import outbound
from channels_app.replies.outbound import Next
from channels_app.tool_requests import answers
from core.conversations import outbox, runs
from core.database.transactions import atomic_write, in_thread
from core.files import storage
from core.lib.installed import Installed
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, Run, User
from tests.channels_app.replies.deliveries import (
    CHAT,
    Pacer,
    deliver,
    in_doubt,
    put,
    refuse,
    session_of,
    stored,
)
from tests.channels_app.running import hours_pass

pytestmark = pytest.mark.django_db(transaction=True)
State = Delivery.State


def test_after_a_failure_the_messages_that_wait_are_due_again(account: ChannelAccount) -> None:
    waiting, row = put(account, "waiting", conversation="other"), put(account)
    refuse(ChannelError("away"), ChannelError("away"))
    for each in (waiting, row):
        assert deliver(each) is not None
        assert stored(each).retry_at is not None
    Delivery.objects.filter(id=row.id).update(retry_at=None)
    assert deliver(row) is None
    assert stored(waiting).retry_at is None


def test_a_first_success_looks_for_nothing_that_waits(account: ChannelAccount) -> None:
    waiting, row = put(account, "waiting", conversation="other"), put(account)
    refuse(ChannelError("away"))
    deliver(waiting)
    deliver(row)
    assert stored(waiting).retry_at is not None


def test_a_repeat_is_told_in_the_conversation(account: ChannelAccount) -> None:
    session = session_of(account, language="de")
    row = put(account, session_id=session.pk)
    in_doubt(row)
    assert deliver(row) is None
    [note] = Delivery.objects.exclude(id=row.id)
    assert note.payload["text"].startswith("↻ Die Verbindung")
    assert (note.session_id, note.conversation) == (session.pk, row.conversation)
    assert note.target == {"chat": CHAT, "thread": "", "reply_to": ""}
    assert note.dedupe_key == f"repeated:{row.id}:2"
    deliver(note)
    assert (len(PLATFORM.sent), Delivery.objects.count()) == (2, 2)


def test_a_repeat_without_a_conversation_is_told_in_english(account: ChannelAccount) -> None:
    row = put(account)
    in_doubt(row)
    deliver(row)
    [note] = Delivery.objects.exclude(id=row.id)
    assert note.payload["text"].startswith("↻ The connection broke")


@pytest.mark.parametrize("is_cleared", [True, False])
def test_a_repeat_is_told_when_nothing_is_in_doubt_any_more(
    is_cleared: bool, account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = put(account)
    in_doubt(row, after_id=1)

    async def search(*, channel: object, delivery: Delivery) -> None:
        del channel
        delivery.may_repeat = True
        if is_cleared:
            delivery.doubt_chat = ""

    monkeypatch.setattr(find_sent, "clear_doubt", search)
    deliver(row)
    assert len(PLATFORM.sent) == 1
    assert Delivery.objects.count() == (2 if is_cleared else 1)


def test_a_message_that_was_removed_is_sent_anew(account: ChannelAccount) -> None:
    row = put(account)
    deliver(row)
    Delivery.objects.filter(id=row.id).update(state=State.PENDING)
    PLATFORM.sent.clear()
    assert deliver(row) == Next(row.id)
    assert stored(row).external_message_id == ""
    assert deliver(row) is None
    assert len(PLATFORM.sent) == 1


def test_messages_of_a_channel_that_cannot_be_loaded_wait_until_it_can(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that broke it is taken back; those of one that was removed are given up."""
    row = put(account)
    ChannelAccount.objects.update(channel="pigeon")
    monkeypatch.setattr(registry, "installed", lambda: Installed(broken={"pigeon": "No module."}))
    assert deliver(row) is not None
    assert (stored(row).state, stored(row).tries) == (State.PENDING, 1)
    assert "`manage.py doctor`" in stored(row).error
    monkeypatch.setattr(registry, "installed", Installed)
    Delivery.objects.update(retry_at=None)
    assert deliver(row) is None
    assert (stored(row).state, stored(row).error) == (State.DEAD, "This channel is not installed.")


def begun_in(account: ChannelAccount, **more: Any) -> Run:
    """Return a run of a message in the chat, which its answer replies to."""
    session = session_of(account)
    route = {"account": account.pk, "chat": CHAT, "thread": "", "reply_to": "7"}
    return Run.objects.create(session=session, user=session.user, route=route, **more)


@pytest.mark.parametrize("text", ["one", ""])
def test_an_answer_that_ends_while_its_channel_cannot_be_loaded_is_sent_when_it_can(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    run = begun_in(account, state="running", attempt=1)
    with monkeypatch.context() as broken:
        broken.setattr(registry, "get", lambda name: None)
        broken.setattr(registry, "installed", lambda: Installed(broken={"memory": "No module."}))
        outcome = runs.Outcome(Run.State.SUCCEEDED, text=text)
        with atomic_write():
            runs.settle(run=run, outcome=outcome, last_seq=1, also=outbound.enqueue_answer)
        row = Delivery.objects.get()
        assert deliver(row) is not None
    Delivery.objects.update(retry_at=None)
    assert deliver(row) == Next(row.id)
    assert deliver(row) is None
    [sent] = PLATFORM.sent
    assert (sent.block["text"], sent.target.reply_to) == (text or ENGLISH.nothing, "7")
    assert stored(row).state == State.SENT


def test_an_answer_after_a_yes_waits_for_its_channel_and_is_sent_to_no_other(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of its messages had the same number, so that its run could not end."""
    user = session_of(account).user
    theirs = ChannelAccount.objects.create(channel="theirs", name="theirs")
    session = ChatSession.objects.create(user=user, account=theirs, chat="1")
    route = {"account": theirs.pk, "chat": "1", "thread": "", "reply_to": ""}
    run = Run.objects.create(session=session, user=user, route=route, options={"continues": 1})
    monkeypatch.setattr(registry, "installed", lambda: Installed(broken={"theirs": "No module."}))
    with atomic_write():
        for put_answer in (outbound.enqueue_answer, answers.put_elsewhere):
            put_answer(run, runs.Outcome(Run.State.SUCCEEDED, text="Here."))
    assert [row.account for row in run.deliveries.all()] == [theirs]


@pytest.mark.parametrize("end", ["three", ""])
def test_an_answer_that_grew_before_its_channel_was_broken_goes_on_behind_its_messages(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Its first message was taken for what is left, and looked at again without end."""
    run = begun_in(account, attempt=2)
    blocks = [{"text": text} for text in ("one", "two", end) if text]
    for index in range(2):
        with atomic_write():
            shown = outbound.put_block(run=run, index=index, payload=blocks[index])
        deliver(shown)
    run.result = {"state": "succeeded", "text": "one two"}
    run.save()
    with monkeypatch.context() as broken, atomic_write():
        broken.setattr(registry, "get", lambda name: None)
        broken.setattr(registry, "installed", lambda: Installed(broken={"memory": "No module."}))
        outbound.enqueue_answer(run, runs.Outcome(**run.result))
    monkeypatch.setattr(CHANNEL, "capabilities", CHANNEL.capabilities - {Capability.EDIT})
    monkeypatch.setattr(outbound, "render_answer", lambda *_: list(blocks))
    row = Delivery.objects.get(payload=outbound.UNRENDERED)
    assert (deliver(row), deliver(row)) == (Next(row.id), None)
    assert PLATFORM.texts(CHAT) == [block["text"] for block in blocks]
    assert not Delivery.objects.filter(state=State.PENDING).exists()


def test_a_chat_that_has_a_new_id_is_followed(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = heard(monkeypatch)
    row = put(account)
    refuse(ChannelError("moved", trouble="migrated", moved_to="d"))
    assert deliver(row) == Next(row.id)
    assert stored(row).target["chat"] == "d"
    assert told == [(CHAT, "migrated", "now d")]
    assert (stored(row).state, stored(row).retry_at) == (State.PENDING, None)


def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Return what owners are told of troubles: the chat, what it is, and the platform's words."""
    told: list[tuple[str, str, str]] = []

    def trouble(*, account: ChannelAccount, chat: str, trouble: str, words: str) -> None:
        assert account.name == "main"
        told.append((chat, trouble, words))

    monkeypatch.setattr(notices, "trouble", trouble)
    return told


def test_a_refused_token_holds_the_account_and_ends_nothing(
    account: ChannelAccount, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = heard(monkeypatch)
    row = put(account)
    refuse(ChannelError("Unauthorized", permanent=True, trouble="auth"))
    assert deliver(row, ended) is None
    account.refresh_from_db()
    assert account.deliveries_held == "Unauthorized"
    assert (stored(row).state, ended) == (State.PENDING, [])
    assert told == [("", "auth", "Unauthorized")]


def test_a_chat_that_is_closed_is_told_and_the_next_message_follows(
    account: ChannelAccount, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = heard(monkeypatch)
    monkeypatch.setattr(outages, "given_up", lambda **_: told.append(("", "", "given up")))
    row, following = put(account), put(account, "next")
    refuse(ChannelError("blocked", permanent=True, trouble="blocked"))
    assert deliver(row, ended) == Next(following.id)
    assert (stored(row).state, stored(row).error) == (State.DEAD, "blocked")
    assert ended == [row.id]
    assert told == [(CHAT, "blocked", "blocked")]


def test_a_refusal_without_a_cause_that_owners_can_mend_is_an_outage(
    account: ChannelAccount, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = heard(monkeypatch)
    lost: list[int] = []
    monkeypatch.setattr(outages, "given_up", lambda *, delivery, **_: lost.append(delivery.id))
    row = put(account)
    refuse(ChannelError("too long", permanent=True), ChannelError("away"))
    assert deliver(row, ended) is None
    other = put(account, "other")
    assert deliver(other) is not None
    assert (lost, told, ended) == ([row.id], [], [row.id])


def test_a_refused_form_is_sent_in_the_ordinary_one_at_once(
    account: ChannelAccount, caplog: pytest.LogCaptureFixture
) -> None:
    row = put(account)
    Delivery.objects.update(payload={"text": "x", "rich": {"html": "<b>x</b>"}, "more": []})
    refuse(ChannelError("rich messages are not taken here", trouble="form"))
    assert deliver(row) == Next(row.id)
    assert (stored(row).payload, stored(row).tries) == ({"text": "x"}, 0)
    assert "in the ordinary form: rich messages are not taken here" in caplog.text
    assert deliver(row) is None
    assert PLATFORM.texts(CHAT) == ["x"]


def test_of_a_file_that_the_platform_finds_too_large_the_link_is_sent_at_once(
    account: ChannelAccount, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a stored file has one; of another one the owner is told, with a button."""
    lost: list[int] = []
    monkeypatch.setattr(outages, "given_up", lambda *, delivery, **_: lost.append(delivery.id))
    session = session_of(account)
    file = storage.keep(user=session.user, name="a_b_.zip", content=b"x", session_id=session.pk)
    row = put(account, payload={"kind": "document", "file": file.public_id, "caption": "All"})
    refuse(too_large := ChannelError("too large", permanent=True, trouble="too_large"))
    assert deliver(row) == Next(row.id)
    assert "is sent as a link: too large" in caplog.text
    assert (stored(row).tries, deliver(row)) == (0, None)
    (text,) = PLATFORM.texts(CHAT)
    assert text.startswith("All\n📎 a_b_.zip\n")
    assert storage.opened(text.rpartition("token=")[2]) == file
    refuse(too_large)
    other = put(account, "other")
    assert (deliver(other), stored(other).state) == (None, State.DEAD)
    assert lost == [other.id]


def test_a_limit_of_the_platform_is_waited_out_exactly(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    pacer = Pacer(0.0)
    monkeypatch.setattr(outbound, "pacer", lambda: pacer)
    row = put(account)
    refuse(ChannelError("too many", retry_after=30.0))
    assert deliver(row) == Next(row.id, 30.0)
    assert pacer.held == [{"account_id": account.pk, "chat": CHAT, "seconds": 30.0}]
    assert stored(row).state == State.PENDING


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        (0.0, None),
        (-5.0, None),
        (float("nan"), None),
        (1, 1),
        (1e300, 86_400.0),
        (float("inf"), 86_400.0),
        pytest.param(10**400, 86_400.0, id="10**400"),
    ],
)
def test_a_limit_that_is_no_time_neither_stops_nor_floods_a_worker(
    asked: float,
    waited: float | None,
    account: ChannelAccount,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a wait it is a failure as others, after which the pauses grow."""
    pacer = Pacer(0.0)
    monkeypatch.setattr(outbound, "pacer", lambda: pacer)
    row = put(account)
    refuse(ChannelError("too many", retry_after=asked))
    found = deliver(row)
    assert found is not None
    assert found.seconds >= 1
    assert [each["seconds"] for each in pacer.held] == ([] if waited is None else [waited])
    again = stored(row)
    assert (again.state, again.tries) == (State.PENDING, int(waited is None))
    assert again.retry_at is not None


def test_the_next_try_after_a_failure_is_a_little_late(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that not all begin at the same time."""
    monkeypatch.setattr(outbound, "jitter", lambda seconds: seconds + 1000)
    row = put(account)
    refuse(ChannelError("away"))
    found = deliver(row)
    assert found is not None
    assert 1000 < found.seconds < 1100


@pytest.mark.parametrize("seconds", [1.0, 50.0])
def test_jitter_adds_at_most_two_fifths(seconds: float) -> None:
    found = [outbound.jitter(seconds) for _ in range(200)]
    assert min(found) >= seconds
    assert max(found) <= seconds * 1.4
    assert len(set(found)) > 100


@pytest.mark.parametrize(
    ("payload", "more", "is_harmless"),
    [
        ({"text": "x"}, {}, False),
        ({"text": "x"}, {"external_message_id": "1"}, True),
        ({"kind": "photo", "image": 0}, {}, False),
        ({"kind": "answer", "press": "p", "text": ""}, {}, True),
        ({"kind": "close_topic"}, {}, True),
        ({"kind": "delete"}, {}, True),
        ({"kind": "delete"}, {"doubt_chat": "c"}, False),
    ],
)
def test_sending_again_is_harmless_where_it_shows_nothing_twice(
    payload: dict[str, Any], more: dict[str, str], is_harmless: bool, account: ChannelAccount
) -> None:
    row = Delivery(account=account, payload=payload, **more)
    assert outbound.is_repeatable(row) == is_harmless


def test_of_a_channel_that_knows_repeats_everything_may_be_sent_again(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Delivery(account=account, payload={"text": "x"})
    monkeypatch.setattr(registry, "get", lambda name: replace(CHANNEL, idempotent=True))
    assert outbound.is_repeatable(row)
    monkeypatch.setattr(registry, "get", lambda name: None)
    assert not outbound.is_repeatable(row)
    assert outbound.last_known(row) is None


@pytest.mark.parametrize("is_known", [True, False])
def test_the_message_of_a_dead_worker_is_due_at_once(
    is_known: bool, account: ChannelAccount
) -> None:
    """It is in doubt unless its message is known."""
    row = put(account)
    assert outbox.claim(delivery_id=row.id) is not None
    known = "1" if is_known else ""
    Delivery.objects.update(external_message_id=known, lease_until=Now() + timedelta(minutes=1))
    outbound.recover_lost()
    assert stored(row).state == State.SENDING
    Delivery.objects.update(lease_until=Now() - timedelta(seconds=1))
    outbound.recover_lost()
    found = stored(row)
    assert (found.state, found.retry_at, found.after_id) == (State.PENDING, None, None)
    assert (found.doubt_chat == "") == is_known
    assert found.error == f"{outbox.UNKNOWN} The worker that sent it is gone."


@pytest.mark.parametrize("known", ["", "1"])
def test_only_an_edit_of_a_lost_message_is_sent_as_a_new_one(
    known: str, account: ChannelAccount
) -> None:
    """A chat that is gone is a failure like others; so is an edit that fails otherwise."""
    row = put(account)
    Delivery.objects.update(external_message_id=known)
    refuse(ChannelError("no") if known else ChannelError("no", trouble="gone"))
    found = deliver(row)
    assert found is not None
    assert found.seconds > 0
    assert (stored(row).external_message_id, stored(row).tries) == (known, 1)


class Finding(MemoryOutbound):
    """A platform on which a sent message is found again by its id."""

    __slots__ = ()

    def sequence(self, chat: str) -> str:
        return chat

    async def is_ours(self, **_: Any) -> bool:
        return False


@pytest.fixture
def finds(account: ChannelAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the platform find messages; a message of id 9 came before."""
    channel = replace(CHANNEL, outbound=Finding(PLATFORM))
    monkeypatch.setattr(registry, "get", lambda name: channel if name == "memory" else None)
    InboundMessage.objects.create(
        account=account,
        chat=CHAT,
        external_message_id="9",
        received_at=timezone.now() - timedelta(hours=1),
    )


def test_after_an_unknown_outcome_the_search_begins_at_the_last_known_id(
    account: ChannelAccount, finds: None
) -> None:
    row = put(account)
    refuse(ChannelError("cut", unsure=True))
    found = deliver(row)
    assert found is not None
    assert found.seconds > 0
    assert (stored(row).after_id, stored(row).doubt_chat) == (9, f"{account.pk}:{CHAT}")
    assert stored(row).tries == 1


def test_an_edit_with_an_unknown_outcome_is_made_again(
    account: ChannelAccount, finds: None
) -> None:
    row = put(account)
    Delivery.objects.update(external_message_id="3")
    refuse(ChannelError("cut", unsure=True))
    assert deliver(row) is not None
    assert (stored(row).after_id, stored(row).doubt_chat) == (None, "")


def test_the_message_of_a_dead_worker_is_searched_for(account: ChannelAccount, finds: None) -> None:
    row = put(account)
    assert outbox.claim(delivery_id=row.id) is not None
    Delivery.objects.update(lease_until=Now() - timedelta(seconds=1))
    outbound.recover_lost()
    assert stored(row).after_id == 9


@pytest.fixture
def owner(account: ChannelAccount) -> User:
    """Return an owner, who wrote last in another chat of the account."""
    target = {"chat": "of the owner", "thread": ""}
    return User.objects.create(
        username="owner", is_owner=True, last_account=account, last_target=target
    )


def notices_of(owner: User) -> list[str]:
    """Return the notices that wait for an owner."""
    rows = Delivery.objects.filter(target__chat=owner.last_target["chat"]).order_by("id")
    return [row.payload["text"] for row in rows]


UNSURE = (
    "memory/main: it is not known whether a message was delivered. It is not sent again by itself."
)
LOST = "memory/main: a message could not be delivered and will not be retried."


def test_the_owner_is_told_of_a_message_whose_sending_ended_two_workers(
    account: ChannelAccount, owner: User
) -> None:
    """It is not sent a third time: they decide."""
    row = put(account)
    for number in (0, 1):
        assert notices_of(owner) == [], number
        assert outbox.claim(delivery_id=row.id) is not None
        Delivery.objects.update(lease_until=Now() - timedelta(seconds=1))
        outbound.recover_lost()
    assert stored(row).state == State.UNCERTAIN
    assert notices_of(owner) == [UNSURE]


@pytest.mark.parametrize("known", ["", "3"])
def test_an_unknown_outcome_that_stays_so_is_given_up_in_the_end(
    known: str,
    account: ChannelAccount,
    owner: User,
    ended: list[int],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.DELIVERY_LEASE_SECONDS = 0.2

    async def hang(**_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(sending, "perform", hang)
    row = put(account)
    hours_pass(25)
    Delivery.objects.update(external_message_id=known, claimed_at=Now())
    assert deliver(row, ended) is None
    assert stored(row).state == (State.DEAD if known else State.UNCERTAIN)
    assert (ended, notices_of(owner)) == ([row.id], [LOST if known else UNSURE])


def test_a_file_may_take_longer_than_a_message(
    account: ChannelAccount, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow line. No other worker takes it meanwhile; a message is in doubt by then."""
    settings.DELIVERY_LEASE_SECONDS = 0.3
    lost = []

    async def slowly(_outbound: MemoryOutbound, **what: Any) -> str:
        for _ in range(5):
            await asyncio.sleep(0.1)
            lost.extend(await in_thread(outbox.lost))
        return str(len(what["key"]))

    monkeypatch.setattr(MemoryOutbound, "send_file", slowly)
    monkeypatch.setattr(MemoryOutbound, "reply_text", slowly)
    session = session_of(account)
    file = storage.keep(user=session.user, name="a.txt", content=b"x", session_id=session.pk)
    row = put(account, payload={"kind": "document", "file": file.public_id})
    assert deliver(row) is None
    assert (stored(row).state, stored(row).attempt, lost) == (State.SENT, 1, [])
    assert stored(row).lease_until is None
    message = put(account, "longer")
    assert deliver(message) is not None
    assert stored(message).doubt_chat
