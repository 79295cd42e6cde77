"""A growing answer as a draft, in private chats of bots whose Bot API has drafts ([C12])."""

from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from channels_app.replies import streaming_edits
from channels_app.worker.runner import Runner
from core.models import ChannelAccount, Delivery
from tests.channels_app.running import script, until
from tests.channels_app.telegram.local import Local

pytestmark = pytest.mark.django_db(transaction=True)
ANSWER = " ".join(f"word{number}" for number in range(80))


def answers(settings: Settings, folder: Path, text: str, pace: float = 25) -> None:
    """Let the model say ``text`` at so many tokens a second."""
    script(settings, folder, {"match": "", "steps": [{"text": text, "tokens_per_second": pace}]})


def drafts(local: Local, chat: int) -> list[dict[str, Any]]:
    """Return the drafts that were shown in a chat, in order."""
    return [call.params for call in local.api.of("sendMessageDraft", chat)]


def test_c12_an_answer_is_a_draft_until_it_is_one_message(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    local.api.with_drafts.add(local.tokens["main"])
    answers(settings, tmp_path, ANSWER)
    sent = local.say("go", user=556)
    until(lambda: local.texts(556) == [ANSWER])
    shown = drafts(local, 556)
    assert len(shown) >= 2
    assert len({each["draft_id"] for each in shown}) == 1
    texts = [each["text"] for each in shown]
    assert texts == sorted(texts, key=len)
    assert all(ANSWER.startswith(text.rstrip(" …")) for text in texts)
    (message,) = local.api.shown(local.tokens["main"], 556)
    assert (message.history, message.reply_to) == ([ANSWER], sent)
    assert not local.api.of("editMessageText")
    assert not local.api.drafts
    assert Delivery.objects.count() == 1


def test_c12_full_messages_of_a_long_answer_are_sent_and_the_rest_is_the_draft(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    local.api.with_drafts.add(local.tokens["main"])
    answer = "\n\n".join(f"Paragraph {number}. " + "x " * 450 for number in range(7))
    answers(settings, tmp_path, answer, pace=400)
    local.say("go", user=556)
    until(lambda: len(local.texts(556)) == 2 and "Paragraph 6" in local.texts(556)[-1], seconds=40)
    last = drafts(local, 556)[-1]["text"]
    assert "Paragraph 0" not in last
    assert " ".join(local.texts(556)).split() == answer.split()


def test_c12_a_group_is_edited(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    local.api.with_drafts.add(local.tokens["main"])
    answers(settings, tmp_path, ANSWER)
    name = f"@bot{local.tokens['main'].partition(':')[0]}_bot"
    local.say(f"{name} go", user=556, chat=-100)
    until(lambda: local.texts(-100) == [ANSWER], seconds=40)
    assert local.api.of("editMessageText", -100)
    assert not drafts(local, -100)


def test_c12_a_bot_api_without_drafts_is_tried_once(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    answers(settings, tmp_path, ANSWER)
    local.say("go", user=556)
    until(lambda: local.texts(556) == [ANSWER])
    assert len(drafts(local, 556)) == 1
    assert local.api.of("editMessageText", 556)
    local.say("again", user=555)
    until(lambda: local.texts(555) == [ANSWER])
    assert not drafts(local, 555)
    assert local.api.of("editMessageText", 555)


def test_c12_the_setting_of_the_account_is_obeyed(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    local.api.with_drafts.add(local.tokens["main"])
    account = ChannelAccount.objects.get(name="main")
    account.config["growing"] = "edits"
    account.save()
    answers(settings, tmp_path, ANSWER)
    local.say("go", user=556)
    until(lambda: local.texts(556) == [ANSWER])
    assert not drafts(local, 556)
    assert local.api.of("editMessageText", 556)


def test_c12_a_draft_that_does_not_change_is_shown_again(
    runner: Runner,
    local: Local,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The platform lets it go after half a minute."""
    local.api.with_drafts.add(local.tokens["main"])
    monkeypatch.setattr(streaming_edits, "DRAFT_SECONDS", 0.5)
    answers(settings, tmp_path, "one two", pace=0.2)
    local.say("go", user=556)
    until(lambda: [each["text"] for each in drafts(local, 556)].count("one") >= 2)
    until(lambda: local.texts(556) == ["one two"])


@pytest.mark.parametrize("failure", ["429", "502", "entities"])
def test_c12_a_draft_that_fails_costs_no_answer(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path, failure: str
) -> None:
    local.api.with_drafts.add(local.tokens["main"])
    answers(settings, tmp_path, f"**bold** {ANSWER}", pace=40)
    match failure:
        case "429":
            local.api.fail("sendMessageDraft", 429, "Too Many Requests", retry_after=1)
        case "502":
            local.api.fail("sendMessageDraft", 502, "Bad Gateway", effect=True, times=2)
        case _:
            local.api.refuse_entities("sendMessageDraft")
    local.say("go", user=556)
    until(lambda: local.texts(556) == [f"bold {ANSWER}"])
    (message,) = local.api.shown(local.tokens["main"], 556)
    assert len(message.history) == 1
    assert not local.api.of("editMessageText")


def test_c12_a_draft_for_a_topic_that_was_deleted_is_shown_in_the_chat(
    runner: Runner, local: Local, settings: Settings, tmp_path: Path
) -> None:
    """As its answer is. The Bot API has drafts all the same, for all."""
    local.api.with_drafts.add(local.tokens["main"])
    answers(settings, tmp_path, ANSWER)
    for method in ("sendMessageDraft", "sendMessage"):
        local.api.fail(
            method,
            400,
            "Bad Request: message thread not found",
            times=999,
            when=lambda params: bool(params.get("message_thread_id")),
        )
    local.say("go", user=556, thread=9)
    until(lambda: local.texts(556) == [ANSWER])
    assert local.api.drafts == {}
    assert any(not each.get("message_thread_id") for each in drafts(local, 556))
    assert not local.api.of("editMessageText")
