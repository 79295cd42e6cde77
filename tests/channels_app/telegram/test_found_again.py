"""A send whose outcome is not known: the message is found again, or sent once (decision 162)."""

from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from channels_app.delivery.secret_blocks import sealed_block
from channels_app.rendering.translations import ENGLISH
from channels_app.worker.runner import Runner
from core.conversations import outbox
from core.database.transactions import atomic_write
from core.files import storage
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, Run, User
from tests.channels_app.running import until
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import message

pytestmark = pytest.mark.django_db(transaction=True)
GROUP = -1001234
# Every call that shows a new message.
KINDS = ("sendMessage", "sendDocument", "sendAudio", "sendPhoto")
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
# The ways in which the connection ends after Telegram has carried the request out.
AFTER_EFFECT: dict[str, dict[str, Any]] = {
    "502": {"status": 502},
    "504": {"status": 504},
    "cut": {"status": 500, "cut": True},
}


@pytest.fixture(autouse=True)
def known_id(local: Local) -> None:
    """Store an earlier message to the bot: its id is the start of a search."""
    InboundMessage.objects.create(
        account=ChannelAccount.objects.get(name="main"),
        chat="1",
        external_message_id=str(local.api.say(local.tokens["main"], 1)),
        state="answered",
        received_at=timezone.now() - timedelta(hours=1),
    )


def put(payload: dict[str, Any], *, chat: int = 556, thread: str = "", key: str = "x") -> Delivery:
    """Queue a message for a chat."""
    account = ChannelAccount.objects.get(name="main")
    with atomic_write():
        return outbox.enqueue(
            key=key,
            account_id=account.pk,
            conversation=outbox.conversation(account_id=account.pk, chat=str(chat), thread=thread),
            target={"chat": str(chat), "thread": thread, "reply_to": ""},
            payload=payload,
            run_id=run_with_a_picture() if payload.get("kind") == "photo" else None,
        )


def run_with_a_picture() -> int:
    """Return a run whose answer has one picture."""
    owner, account = User.objects.get(username="owner"), ChannelAccount.objects.get(name="main")
    session = ChatSession.objects.create(user=owner, account=account, chat="556")
    result = {"text": "", "images": [PIXEL]}
    given = {"state": "succeeded", "text": "draw", "origin": "telegram", "result": result}
    return Run.objects.create(session=session, user=owner, **given).pk


def shown(local: Local, chat: int = 556) -> list[str]:
    """Return the contents of a chat: texts, and the names of files."""
    messages = local.api.shown(local.tokens["main"], chat)
    return [each.text or each.filename for each in messages]


def all_sent() -> None:
    """Wait until all deliveries are sent."""
    until(lambda: not Delivery.objects.exclude(state="sent").exists(), seconds=30)


def payload_of(method: str, owner: User) -> dict[str, Any]:
    """Return the payload that is sent by ``method``."""
    if method == "sendMessage":
        return {"text": "hello"}
    if method == "sendPhoto":
        return {"kind": "photo", "image": 0}
    name = "hello.mp3" if method == "sendAudio" else "hello.txt"
    stored = storage.keep(user=owner, name=name, content=b"content")
    return {"kind": "document", "file": stored.public_id, "caption": "hello"}


def text_shown_by(method: str) -> str:
    """Return what ``shown`` has of :func:`payload_of`."""
    return "image-1.png" if method == "sendPhoto" else "hello"


@pytest.mark.parametrize("ending", AFTER_EFFECT)
@pytest.mark.parametrize("method", KINDS)
def test_a_message_whose_reply_was_lost_is_found_again(
    runner: Runner, local: Local, owner: User, method: str, ending: str
) -> None:
    put({"text": "before"}, key="before")
    all_sent()
    known = len(local.api.of(method))
    local.api.fail(method, description="Bad Gateway", effect=True, **AFTER_EFFECT[ending])
    put(payload_of(method, owner))
    all_sent()
    assert shown(local) == ["before", text_shown_by(method)]
    assert len(local.api.of(method)) == known + 1
    assert set(Delivery.objects.values_list("error", "doubt_chat")) == {("", "")}


@pytest.mark.parametrize("method", KINDS)
def test_a_message_whose_worker_died_before_the_commit_is_found_again(
    runner: Runner, local: Local, owner: User, method: str
) -> None:
    """Telegram has replied, and nothing of it was stored: the row is as it was at the claim."""
    put({"text": "before"}, key="before")
    put(payload_of(method, owner))
    all_sent()
    known = len(local.api.of(method))
    over = timezone.now() - timedelta(seconds=1)
    as_claimed: dict[str, Any] = {"external_message_id": "", "sent_at": None, "lease_until": over}
    Delivery.objects.filter(dedupe_key="x").update(state="sending", **as_claimed)
    until(lambda: Delivery.objects.get(dedupe_key="x").external_message_id != "", seconds=30)
    all_sent()
    assert shown(local) == ["before", text_shown_by(method)]
    assert len(local.api.of(method)) == known


def test_a_one_time_code_whose_reply_was_lost_is_found_and_stays_readable(
    runner: Runner, local: Local
) -> None:
    """It is stored encrypted; the user's message is not overwritten with the placeholder."""
    put({"text": "before"}, key="before")
    all_sent()
    local.api.fail("sendMessage", 502, "Bad Gateway", effect=True)
    put(sealed_block({"text": "/link ABCD-EFGH"}))
    all_sent()
    assert shown(local) == ["before", "/link ABCD-EFGH"]
    assert local.api.of("editMessageText")
    assert "not shown" not in str(local.api.of("editMessageText"))


@pytest.mark.parametrize("method", KINDS)
@pytest.mark.parametrize("status", [502, 504])
def test_a_message_that_never_reached_telegram_is_sent_once(
    runner: Runner, local: Local, owner: User, method: str, status: int
) -> None:
    local.api.fail(method, status, "Bad Gateway")
    put(payload_of(method, owner))
    all_sent()
    assert shown(local) == [text_shown_by(method)]
    assert Delivery.objects.get().doubt_chat == ""


def test_an_answer_is_found_among_the_users_later_messages(runner: Runner, local: Local) -> None:
    """People's messages have ids of the same sequence; they are neither changed nor removed."""

    def talk(params: dict[str, Any]) -> bool:
        for chat in (556, 555, 556):
            local.api.say(local.tokens["main"], chat)
        return True

    local.api.fail("sendMessage", 502, "Bad Gateway", effect=True, when=talk)
    local.say("hello", user=556)
    until(lambda: Delivery.objects.filter(state="sent").exists(), seconds=30)
    assert shown(local) == ["hello"]
    assert not local.api.lost_words


def test_in_a_supergroup_there_may_be_messages_that_the_bot_never_saw(
    runner: Runner, local: Local
) -> None:
    def talk(params: dict[str, Any]) -> bool:
        for _ in range(4):
            local.api.say(local.tokens["main"], GROUP)
        return True

    put({"text": "before"}, chat=GROUP, key="before")
    all_sent()
    local.api.fail("sendMessage", 502, "Bad Gateway", effect=True, when=talk)
    put({"text": "hello"}, chat=GROUP)
    all_sent()
    assert shown(local, GROUP) == ["before", "hello"]


def test_a_message_that_appears_only_after_the_search_is_removed(
    runner: Runner, local: Local
) -> None:
    """Telegram may carry a request out late: the next message's id ends where it can be."""
    token = local.tokens["main"]
    local.api.fail("sendMessage", 502, "Bad Gateway")

    def late(method: str, params: dict[str, Any], phase: str) -> None:
        if method == "sendMessage" and phase == "before":
            local.api.hook = None
            for _ in range(20):  # of other chats, unknown here
                local.api.take_id(token, 1)
            local.api._show(token, {"chat_id": 556}, text="hello")

    local.api.hook = late
    put({"text": "hello"})
    all_sent()
    assert shown(local) == ["hello"]
    (remaining,) = local.api.shown(token, 556)
    assert str(remaining.id) == Delivery.objects.get().external_message_id


def test_an_earlier_message_is_edited_once_the_later_one_is_found(
    runner: Runner, local: Local
) -> None:
    """As when a question is decided while the next one is on its way: neither waits for ever."""
    first = put({"text": "question"}, key="before")
    all_sent()

    def decide() -> None:
        with atomic_write():
            outbox.change(delivery=Delivery.objects.get(id=first.pk), payload={"text": "done"})
        connection.close()

    def meanwhile(method: str, _: dict[str, Any], when: str) -> None:
        if (method, when) == ("sendMessage", "after"):
            local.api.hook = None
            thread = Thread(target=decide)
            thread.start()
            thread.join()

    local.api.hook = meanwhile
    local.api.fail("sendMessage", 502, "Bad Gateway", effect=True)
    put({"text": "next question"})
    all_sent()
    assert shown(local) == ["done", "next question"]


def test_where_too_many_ids_are_unknown_the_reader_is_told(runner: Runner, local: Local) -> None:
    token = local.tokens["main"]
    put({"text": "before"}, key="before")
    all_sent()
    local.api.fail("sendMessage", 502, "Bad Gateway", chat=556)

    def busy(method: str, params: dict[str, Any], phase: str) -> None:
        if method == "sendMessage" and phase == "before":
            local.api.hook = None
            for _ in range(100):
                local.api.take_id(token, 1)

    local.api.hook = busy
    put({"text": "hello"})
    until(lambda: shown(local) == ["before", "hello", ENGLISH.repeated], seconds=40)


def test_nothing_of_another_conversation_is_taken(runner: Runner, local: Local) -> None:
    """Two uncertain deliveries in one chat, in two topics: each is found in its own."""
    put({"text": "first"}, chat=GROUP, thread="77", key="first")
    put({"text": "second"}, chat=GROUP, thread="78", key="second")
    all_sent()
    local.api.fail("sendMessage", 502, "Bad Gateway", effect=True, times=2)
    put({"text": "in 77"}, chat=GROUP, thread="77", key="a")
    put({"text": "in 78"}, chat=GROUP, thread="78", key="b")
    all_sent()
    token = local.tokens["main"]
    assert local.api.texts(token, GROUP, 77) == ["first", "in 77"]
    assert local.api.texts(token, GROUP, 78) == ["second", "in 78"]


def test_in_a_group_that_became_a_supergroup_messages_are_found_by_its_new_ids(
    runner: Runner, local: Local
) -> None:
    """The answered message has an id of the old chat, far above those of the new one."""
    local.api.fail(
        "sendMessage",
        400,
        "Bad Request: group chat was upgraded",
        chat=556,
        migrate_to_chat_id=GROUP,
    )
    local.api.fail("sendMessage", 502, "Bad Gateway", chat=GROUP, effect=True)
    with local.api.lock:
        local.api.last_ids["", GROUP] = 3
    local.say("hello", user=556)
    until(lambda: Delivery.objects.filter(target__chat=str(GROUP), state="sent").exists())
    all_sent()
    assert shown(local, GROUP) == ["hello"]


def test_deliveries_that_wait_when_a_group_gets_a_new_id_come_before_later_ones(
    runner: Runner, local: Local
) -> None:
    """It was queued under the old id, whose wait is not that of the new one."""
    local.api.fail("sendMessage", 429, "Too Many Requests", chat=556, retry_after=20_000)
    first = put({"text": "first"})
    until(lambda: Delivery.objects.get(id=first.pk).retry_at is not None)
    local.post(message("", user=556, chat=556, migrate_to_chat_id=GROUP))
    put({"text": "second"}, chat=GROUP, key="y")
    all_sent()
    assert shown(local, GROUP) == ["first", "second"]


def test_a_message_that_may_not_be_removed_stays_and_the_reader_is_told(
    runner: Runner, local: Local
) -> None:
    """Telegram removes nothing that is older than two days."""
    local.api.fail("sendMessage", 502, "Bad Gateway")
    local.api.fail("deleteMessage", 400, "Bad Request: message can't be deleted")

    def late(method: str, params: dict[str, Any], phase: str) -> None:
        if method == "sendMessage" and phase == "before":
            local.api.hook = None
            local.api._show(local.tokens["main"], {"chat_id": 556}, text="hello")
            for _ in range(20):  # beyond the range of the search
                local.api.take_id(local.tokens["main"], 1)

    local.api.hook = late
    put({"text": "hello"})
    until(lambda: shown(local)[-1:] == [ENGLISH.repeated], seconds=40)
    all_sent()


def test_a_result_in_markdown_keeps_its_formatting_when_it_is_found(
    runner: Runner, local: Local
) -> None:
    local.api.fail("sendMessage", 502, "Bad Gateway", effect=True)
    put({"text": "it is bold", "markdown_v2": "it is *bold*"})
    all_sent()
    assert shown(local) == ["it is bold"]
    edit = local.api.of("editMessageText")[-1]
    assert edit.params["parse_mode"] == "MarkdownV2"


def test_an_answer_that_is_taken_back_in_doubt_is_removed(runner: Runner, local: Local) -> None:
    put({"text": "before"}, key="before")
    all_sent()
    local.api.fail("sendMessage", 502, "Bad Gateway", effect=True)
    row = put({"text": "hello"})
    until(lambda: Delivery.objects.get(id=row.id).doubt_chat != "")
    with atomic_write():
        outbox.change(delivery=Delivery.objects.get(id=row.id), payload={"kind": "delete"})
    all_sent()
    assert shown(local) == ["before"]


def test_a_connection_that_was_refused_leaves_no_doubt(runner: Runner, local: Local) -> None:
    account = ChannelAccount.objects.get(name="main")
    ChannelAccount.objects.update(config=account.config | {"api_base": "http://127.0.0.1:9"})
    row = put({"text": "hello"})
    until(lambda: Delivery.objects.get().tries == 1)
    assert Delivery.objects.get().doubt_chat == ""
    ChannelAccount.objects.update(config=account.config)
    all_sent()
    assert shown(local) == ["hello"]
    assert not local.api.of("editMessageText")
    assert row.id


def test_a_pause_of_the_pace_is_no_try(runner: Runner, local: Local) -> None:
    """A delivery that waits for the rate limit is not claimed."""
    for number in range(4):
        put({"text": str(number)}, key=str(number))
    all_sent()
    assert shown(local) == ["0", "1", "2", "3"]
    assert set(Delivery.objects.values_list("attempt", "tries")) == {(1, 0)}


def test_the_log_names_account_person_and_run(
    runner: Runner, local: Local, caplog: pytest.LogCaptureFixture
) -> None:
    local.api.fail("sendMessage", 400, "Bad Request: no such thing")
    local.say("hello", user=556)
    until(lambda: any("given up" in each for each in caplog.messages))
    run = Delivery.objects.get(state="dead").run
    assert run is not None
    (line,) = [each for each in caplog.messages if "given up" in each]
    assert all(words in line for words in ("telegram/main", "guest", run.public_id))


def test_messages_that_wait_for_a_search_take_no_turn_of_it(
    runner: Runner, local: Local, settings: Any
) -> None:
    """Answers to pressed buttons have a conversation each, in the chat of the search."""
    settings.DELIVERY_LEASE_SECONDS = 2
    local.api.fail("sendMessage", description="Bad Gateway", effect=True, **AFTER_EFFECT["cut"])
    first = put({"text": "first"})
    until(lambda: Delivery.objects.filter(pk=first.pk).exclude(doubt_chat="").exists())
    account = ChannelAccount.objects.get(name="main")
    with atomic_write():
        for number in range(8):
            outbox.enqueue(
                key=f"press:{number}",
                account_id=account.pk,
                conversation=f"{account.pk}:press:{number}",
                target={"chat": "556", "thread": "", "reply_to": ""},
                payload={"text": f"press {number}"},
            )
    all_sent()
    assert sorted(shown(local)) == ["first", *(f"press {number}" for number in range(8))]
