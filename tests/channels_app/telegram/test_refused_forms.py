"""Which refusals of a rich message mean its form, and which mean that the server has no such."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from channels_app.base import Account, Block, ChannelError, OutgoingFile, Target
from channels_app.telegram import bot_api, outbound
from channels_app.telegram.outbound import OUTBOUND, refused_form
from tests.channels_app.telegram.fake_api import FakeBotApi

ACCOUNT = Account(1, "telegram", "main", {"answers": "rich", "api_base": "http://a"}, {})
RICH: Block = {"text": "x", "rich": [{"type": "table"}]}
TARGET = Target("5")
NO_RICH = ("Not Found: method not found", "Bad Request: message TEXT IS EMPTY")


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Remember no server without rich messages, before and after the test."""
    outbound.without_rich.clear()
    yield
    outbound.without_rich.clear()


def raised(block: Block, error: Exception) -> Exception:
    """Return what a sender gets when the platform answers with ``error``."""
    with pytest.raises(type(error)) as caught, refused_form(ACCOUNT, block):
        raise error
    return caught.value


@pytest.mark.parametrize("words", ["Bad Request: RICH_MESSAGE_INVALID", *NO_RICH])
def test_a_refusal_of_a_rich_message_is_one_of_its_form(words: str) -> None:
    """Sending it again is useless; nothing was sent."""
    error = raised(RICH, ChannelError(words, permanent=True))
    assert isinstance(error, ChannelError)
    assert (str(error), error.permanent, error.trouble) == (words, True, "form")
    assert (error.unsure, error.retry_after) == (False, None)


@pytest.mark.parametrize(
    ("block", "words", "how"),
    [
        ({"text": "x"}, "method not found", {"permanent": True}),
        (RICH, "Too Many Requests: text is empty", {"retry_after": 3.0}),
        (RICH, "text is empty", {"unsure": True}),
        (RICH, "text is empty", {"trouble": "conflict"}),
        (RICH, "text is empty", {"permanent": True, "trouble": "blocked"}),
        (RICH, "Bad Request: message is not modified, text is empty", {"permanent": True}),
    ],
    ids=["a text", "too many", "unknown", "of the account", "blocked", "unchanged"],
)
def test_other_errors_stay_as_they_are(block: Block, words: str, how: dict[str, Any]) -> None:
    error = ChannelError(words, **how)
    assert raised(block, error) is error
    assert OUTBOUND.takes_rich(ACCOUNT)


def test_an_error_of_another_kind_stays_as_it_is() -> None:
    error = ValueError("method not found")
    assert raised(RICH, error) is error


def test_a_message_that_was_sent_is_no_refusal() -> None:
    with refused_form(ACCOUNT, RICH):
        pass
    assert OUTBOUND.takes_rich(ACCOUNT)


@pytest.mark.parametrize("words", NO_RICH)
def test_a_server_without_rich_messages_gets_none_from_then_on(words: str) -> None:
    """The same account at another server does, and another account at the same one."""
    raised(RICH, ChannelError(words, permanent=True))
    assert not OUTBOUND.takes_rich(ACCOUNT)
    moved = {"answers": "rich", "api_base": "http://b"}
    assert OUTBOUND.takes_rich(Account(1, "telegram", "main", moved, {}))
    assert OUTBOUND.takes_rich(Account(2, "telegram", "other", ACCOUNT.config, {}))


def test_a_file_that_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Telegram's own server takes 50 MB, and may end the connection; another one says its limit."""
    monkeypatch.setattr(bot_api, "MOST_UPLOAD_BYTES", 5)

    def refused(size: int, **config: str) -> ChannelError:
        file = OutgoingFile("document", "a.zip", bytes(size), "application/zip")
        account = Account(1, "telegram", "main", config, {})
        with pytest.raises(ChannelError) as caught:
            asyncio.run(OUTBOUND.send_file(account=account, target=TARGET, file=file, key=""))
        return caught.value

    large = refused(6)
    assert (large.permanent, large.trouble) == (True, "too_large")
    no_token = refused(5)
    assert no_token.trouble == refused(6, api_base="http://a").trouble == "auth"
    other = bot_api.refusal(413, b"<html>", token="")
    assert (other.permanent, other.trouble) == (True, "too_large")


def test_a_picture_that_is_too_large_for_a_photo_is_sent_as_a_file_at_once(
    api: FakeBotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[T7] Telegram would take 10 MB only to refuse them."""
    monkeypatch.setattr(outbound, "PHOTO_BYTES", 5)
    account = Account(1, "telegram", "main", {"api_base": api.base}, {"token": "900:x"})

    async def send(size: int) -> None:
        file = OutgoingFile("photo", "a.png", bytes(size), "image/png")
        await OUTBOUND.send_file(account=account, target=TARGET, file=file, key="")
        await bot_api.close()

    asyncio.run(send(5))
    asyncio.run(send(6))
    assert [each.kind for each in api.shown("900:x", 5)] == ["photo", "document"]
    assert len(api.of("sendPhoto", 5)) == 1


def test_a_refused_answer_is_no_refusal_of_the_next_one() -> None:
    raised(RICH, ChannelError("Bad Request: RICH_MESSAGE_INVALID", permanent=True))
    assert OUTBOUND.takes_rich(ACCOUNT)


def test_typing_in_the_general_topic_names_it_and_a_message_does_not(api: FakeBotApi) -> None:
    """Telegram shows the one only so, and refuses the other."""
    account = Account(1, "telegram", "main", {"api_base": api.base}, {"token": "900:x"})
    general = Target("-1006", "1")

    async def send() -> None:
        await OUTBOUND.send_typing(account=account, target=general)
        await OUTBOUND.send_text(account=account, target=general, block={"text": "hi"}, key="")
        await bot_api.close()

    asyncio.run(send())
    for method, thread in (("sendChatAction", 1), ("sendMessage", None)):
        (call,) = api.of(method, -1006)
        assert call.params.get("message_thread_id") == thread


def test_an_answer_in_a_topic_that_was_deleted_comes_in_the_chat(api: FakeBotApi) -> None:
    """Else it, and each reminder that was made there, was given up. A closed topic stays one."""
    account = Account(1, "telegram", "main", {"api_base": api.base}, {"token": "900:x"})
    there, gone = Target("-1005", "77"), "Bad Request: message thread not found"
    for method in ("sendMessage", "sendDocument"):
        api.fail(method, 400, gone, when=lambda params: "message_thread_id" in params)

    async def send(target: Target) -> str:
        """Send a text; return its id, or the words of a refusal."""
        block = {"text": "hi"}
        try:
            return await OUTBOUND.send_text(account=account, target=target, block=block, key="")
        except ChannelError as error:
            return str(error)

    async def all_of_it() -> list[str]:
        file = OutgoingFile("document", "a", b"x", "text/plain")
        found = [await send(there)]
        await OUTBOUND.send_file(account=account, target=there, file=file, key="")
        for words, target in ((gone, TARGET), ("Bad Request: TOPIC_CLOSED", there)):
            api.fail("sendMessage", 400, words)
            found.append(await send(target))
        await bot_api.close()
        return found

    _, *refused = asyncio.run(all_of_it())
    shown = api.shown("900:x", -1005)
    assert [(each.thread, each.kind) for each in shown] == [(0, "text"), (0, "document")]
    assert refused == [gone, "Bad Request: TOPIC_CLOSED"]
