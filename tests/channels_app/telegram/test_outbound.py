"""Answers in Telegram's chats, as the fake Bot API sees them ([C3]–[C9], [T5]–[T7])."""

import time
from itertools import pairwise
from pathlib import Path

import pytest
from pytest_django import Settings

from channels_app.base import Target
from channels_app.telegram import outbound
from channels_app.worker.runner import Runner
from core.models import ChatSession, Delivery, InboundMessage, Run
from tests.channels_app.running import script, until
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import message

pytestmark = pytest.mark.django_db(transaction=True)
LONG = "\n\n".join(f"Paragraph {number}. " + "x" * 900 for number in range(9))


def test_c3_c4_the_answer_is_a_reply_and_the_reaction_is_removed(
    runner: Runner, local: Local
) -> None:
    sent = local.say("hello there", user=556)
    until(lambda: local.texts(556) == ["hello there"])
    (shown,) = local.api.shown(local.tokens["main"], 556)
    assert shown.reply_to == sent
    reply = local.api.of("sendMessage", 556)[0].params["reply_parameters"]
    assert reply == {"message_id": sent, "allow_sending_without_reply": True}
    until(lambda: len(local.api.of("setMessageReaction", 556)) == 2)
    assert local.api.of("setMessageReaction", 556)[0].params["reaction"][0]["emoji"] == "👀"
    assert not local.api.reactions
    assert local.api.of("sendChatAction", 556)


def test_rw19_messages_of_a_long_downtime_are_answered_in_order(
    runner: Runner, local: Local
) -> None:
    """Our policy: every message is answered, however late Telegram delivers it."""
    two_days_ago = int(time.time()) - 2 * 24 * 3600
    for number, text in enumerate(("first", "second", "third")):
        update = message(text, user=556)
        update["message"]["date"] = two_days_ago + number
        assert local.post(update)[0] == 200
    until(lambda: "\n".join(local.texts(556)) == "first\nsecond\nthird")


def test_a_stream_is_one_message_that_is_edited_to_its_end(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    answer = " ".join(f"word{number}" for number in range(80))
    script(settings, tmp_path, {"match": "", "steps": [{"text": answer, "tokens_per_second": 25}]})
    local.say("go", user=556)
    until(lambda: local.texts(556) == [answer])
    (shown,) = local.api.shown(local.tokens["main"], 556)
    assert 40 <= len(shown.history[0]) < len(answer)
    edits = [call.at for call in local.api.of("editMessageText", 556)]
    assert len(edits) >= 2
    gaps = [later - earlier for earlier, later in pairwise(edits)]
    assert min(gaps, default=1.0) >= 0.95


def test_a_group_is_edited_more_slowly_and_topics_keep_apart(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    name = f"@bot{local.tokens['main'].partition(':')[0]}_bot"
    local.say(f"{name} first topic", user=556, chat=-100, thread=77)
    local.say(f"{name} second topic", user=556, chat=-100, thread=78)
    until(lambda: len(local.texts(-100)) == 2, seconds=30)
    assert local.texts(-100, thread=77) == ["first topic"]
    assert local.texts(-100, thread=78) == ["second topic"]
    assert {call.params["message_thread_id"] for call in local.api.of("sendChatAction", -100)} == {
        77,
        78,
    }
    assert set(ChatSession.objects.values_list("chat", "thread")) == {
        ("-100", "77"),
        ("-100", "78"),
    }


def test_429_on_block_2_keeps_the_order_and_holds_up_no_other_chat(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    script(settings, tmp_path, {"match": "^long", "steps": [{"text": LONG}]})
    local.api.fail(
        "sendMessage",
        429,
        "Too Many Requests: retry after 3",
        chat=556,
        retry_after=3,
        when=lambda params: not params["text"].startswith("Paragraph 0"),
    )
    local.say("long", user=556)
    until(lambda: len(local.api.of("sendMessage", 556)) == 2)
    refused = local.api.of("sendMessage", 556)[1].at
    local.say("quick", user=555)
    until(lambda: local.texts(555) == ["quick"])
    (other,) = local.api.of("sendMessage", 555)
    until(lambda: "\n\n".join(local.texts(556)) == LONG, seconds=30)
    again = local.api.of("sendMessage", 556)[2].at
    assert again - refused >= 3.0
    assert other.at < again


@pytest.mark.parametrize(
    "said",
    [
        "**bold _both `code [link](http://a.example",
        "x" * 4095 + "😀",
        "😀" * 2049,
        "_*[]()~`>#+-=|{}.! \\",
        "<b>bold</b> &amp; <a href='tg://user?id=1'>me</a>",
        "i❤.ws/?q=a-secret",
    ],
    ids=["unbalanced", "4097 units", "4098 units", "reserved", "HTML", "a host of signs"],
)
def test_rx9_text_of_users_is_never_markup(said: str, runner: Runner, local: Local) -> None:
    """[RX9] The answer repeats it whole, in messages that Telegram takes, without parse_mode,
    and Telegram fetches no address in it for a preview: it may hold words of the conversation.
    """
    local.say(said, user=556)
    until(lambda: Run.objects.filter(state="succeeded").exists())
    until(lambda: not Delivery.objects.exclude(state="sent").exists())
    calls = [*local.api.of("sendMessage", 556), *local.api.of("editMessageText", 556)]
    assert calls
    for call in calls:
        assert "parse_mode" not in call.params
        assert call.params["link_preview_options"] == {"is_disabled": True}
        assert len(call.params["text"].encode("utf-16-le")) // 2 <= 4096
    shown = "".join(local.texts(556))
    assert shown.count("😀") == said.count("😀")
    assert shown.count("x") == said.count("x")
    assert "�" not in shown


@pytest.mark.parametrize(
    "words",
    ["Bad Request: can't parse entities: unsupported", "Bad Request: ENTITY_BOUNDS_INVALID"],
)
def test_t5_refused_entities_cost_the_formatting_and_not_the_message(
    words: str, runner: Runner, local: Local
) -> None:
    local.api.fail(
        "sendMessage", 400, words, when=lambda params: bool(params.get("entities")), times=99
    )
    local.say("it is **bold**", user=556)
    until(lambda: local.texts(556) == ["it is bold"])
    until(lambda: Delivery.objects.get().state == "sent")


def test_t5_an_edit_whose_entities_are_refused_is_plain(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    answer = "**bold** " + " ".join(f"word{number}" for number in range(60))
    script(settings, tmp_path, {"match": "", "steps": [{"text": answer, "tokens_per_second": 25}]})
    local.api.refuse_entities("editMessageText")
    local.say("go", user=556)
    until(lambda: local.texts(556) == [answer.replace("**", "")])


def test_a_time_out_of_an_edit_shows_nothing_twice(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    answer = " ".join(f"word{number}" for number in range(60))
    script(settings, tmp_path, {"match": "", "steps": [{"text": answer, "tokens_per_second": 40}]})
    local.api.fail("editMessageText", 502, "Bad Gateway", effect=True, times=3)
    local.say("go", user=556)
    until(lambda: local.texts(556) == [answer])


def test_no_connection_is_tried_again(runner: Runner, local: Local) -> None:
    local.api.fail("sendMessage", 500, "Internal Server Error", chat=556)
    local.say("hello", user=556)
    until(lambda: local.texts(556) == ["hello"])


@pytest.mark.parametrize(
    ("status", "words", "said"),
    [
        (403, "Forbidden: bot was blocked by the user", "has blocked the bot"),
        (403, "Forbidden: bot was kicked from the supergroup chat", "was removed from this chat"),
        (400, "Bad Request: chat not found", "does not exist"),
    ],
)
def test_a_chat_in_trouble_is_a_dead_letter_and_the_owner_hears_of_it_once(
    runner: Runner, local: Local, status: int, words: str, said: str
) -> None:
    local.say("I am the owner", user=555)
    until(lambda: local.texts(555) == ["I am the owner"])
    local.api.fail("sendMessage", status, words, chat=556, times=2)
    local.say("hello", user=556)
    until(lambda: Delivery.objects.filter(state="dead").count() == 1)
    local.say("hello again", user=556)
    until(lambda: Delivery.objects.filter(state="dead").count() == 2)
    until(lambda: len(local.texts(555)) == 2)
    assert said in local.texts(555)[1]
    assert "556" in local.texts(555)[1]


def test_a_chat_that_migrated_is_followed(runner: Runner, local: Local) -> None:
    local.api.fail(
        "sendMessage",
        400,
        "Bad Request: group chat was upgraded",
        chat=556,
        migrate_to_chat_id=-777,
    )
    local.say("hello", user=556)
    until(lambda: local.texts(-777) == ["hello"])
    assert ChatSession.objects.get(user__username="guest").chat == "-777"


def test_a_message_that_is_gone_is_sent_anew(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    answer = " ".join(f"word{number}" for number in range(40))
    script(settings, tmp_path, {"match": "", "steps": [{"text": answer, "tokens_per_second": 20}]})
    local.say("go", user=556)
    until(lambda: local.texts(556))
    with local.api.lock:
        local.api.chats[local.tokens["main"], 556].clear()
    until(lambda: local.texts(556) == [answer])


REFUSALS_OF_PHOTOS = [
    (400, "Bad Request: PHOTO_INVALID_DIMENSIONS"),
    (400, "Bad Request: not enough rights to send photos to the chat"),
    (413, "Request Entity Too Large"),
]


def documents(local: Local, chat: int) -> int:
    """Return how many documents a chat shows."""
    kinds = [each.kind for each in local.api.shown(local.tokens["main"], chat)]
    return kinds.count("document")


def test_t7_images_are_photos_and_a_refused_photo_is_a_document(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    pixel = (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"
        "DwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    image = {"native": {"type": "image", "props": {"url": pixel, "alt": "A pixel"}}}
    script(settings, tmp_path, {"match": "", "steps": [image, {"text": "Here it is."}]})
    local.say("draw", user=556)
    until(
        lambda: (
            [each.kind for each in local.api.shown(local.tokens["main"], 556)] == ["text", "photo"]
        )
    )
    assert local.api.shown(local.tokens["main"], 556)[1].file.startswith(b"\x89PNG")
    for number, (status, words) in enumerate(REFUSALS_OF_PHOTOS, 1):
        local.api.fail("sendPhoto", status, words, chat=555)
        local.say("draw", user=555)
        until(lambda number=number: documents(local, 555) == number)


def test_c9_stop_ends_within_3_s_and_keeps_the_partial_answer(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    text = "This has more than forty characters, and then nothing. "
    script(settings, tmp_path, {"match": "^hang", "steps": [{"text": text}, {"hang": True}]})
    local.say("hang", user=556)
    until(lambda: local.texts(556))
    started = time.monotonic()
    local.say("/stop", user=556)
    until(lambda: Run.objects.filter(state="cancelled").exists(), seconds=3)
    assert time.monotonic() - started < 3
    until(lambda: local.texts(556)[0] == f"{text.strip()}\n\n⏹ Stopped.")
    until(lambda: not local.api.reactions)


def test_an_edit_of_a_message_that_waits_changes_the_question(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    script(settings, tmp_path, {"match": "^hang", "steps": [{"sleep": 2}, {"text": "done"}]})
    local.say("hang", user=556)
    until(lambda: Run.objects.filter(state="running").exists())
    sent = local.say("what is teh time", user=556)
    until(lambda: Run.objects.filter(state="queued").exists())
    from tests.channels_app.telegram.people import number, person

    local.post(
        {
            "update_id": number(),
            "edited_message": {
                "message_id": sent,
                "date": 1,
                "from": person(556),
                "chat": {"id": 556, "type": "private"},
                "text": "what is the time",
            },
        }
    )
    until(lambda: "what is the time" in local.texts(556))
    assert InboundMessage.objects.filter(text="what is the time", state="answered").exists()


def test_c3_general_is_left_out_where_messages_are_sent() -> None:
    """Telegram refuses its number there."""
    threads = [outbound.thread_of(Target("-100", thread)) for thread in ("", "1", "7")]
    assert threads == [None, None, 7]
