"""Answers as rich messages, where the account wants them and its Bot API has them ([C13])."""

from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from channels_app.worker.runner import Runner
from core.markdown import to_rich
from core.models import ChannelAccount, Delivery
from tests.channels_app.running import script, until
from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import message

pytestmark = pytest.mark.django_db(transaction=True)
TABLE = "| Name | Price |\n|---|--:|\n| Tea | 2 |\n| Cake | 3 |"
LONG = "\n\n".join(f"**Part {number}.** " + "x " * 450 for number in range(7))
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def rich(local: Local) -> Local:
    """Return the bot with the setting, and a Bot API that has rich messages and no drafts."""
    wants_rich("rich", growing="edits")
    local.api.with_rich.add(local.tokens["main"])
    return local


def wants_rich(answers: str, **config: str) -> None:
    account = ChannelAccount.objects.get(name="main")
    account.config |= {"answers": answers, **config}
    account.save()


def answers(settings: Settings, folder: Path, *steps: dict[str, Any]) -> None:
    script(settings, folder, {"match": "", "steps": list(steps)})


def shown(local: Local) -> list[Shown]:
    return local.api.shown(local.tokens["main"], 556)


def is_done() -> bool:
    rows = Delivery.objects.all()
    return bool(rows) and all(row.state == Delivery.State.SENT for row in rows)


def test_c13_a_table_is_a_table(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path
) -> None:
    answers(settings, tmp_path, {"text": f"# Prices\n\n{TABLE}\n\n2*3*4 = **24**"})
    sent = rich.say("go", user=556)
    until(lambda: rich.texts(556) == ["Prices\nName | Price\nTea | 2\nCake | 3\n2*3*4 = 24"])
    (message,) = shown(rich)
    assert message.reply_to == sent
    table = next(each for each in message.rich if each["type"] == "table")
    assert [cell["align"] for cell in table["cells"][1]] == ["left", "right"]
    assert not rich.api.of("sendMessage", 556)


def test_c13_a_text_without_structure_stays_a_text(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path
) -> None:
    answers(settings, tmp_path, {"text": "**Yes**, `x` and [y](https://example.org)"})
    rich.say("go", user=556)
    until(lambda: rich.texts(556) == ["Yes, x and y"])
    assert not rich.api.of("sendRichMessage")
    assert shown(rich)[0].entities


def test_c13_a_long_answer_is_one_message(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path
) -> None:
    answers(settings, tmp_path, {"text": LONG, "tokens_per_second": 2000})
    rich.say("go", user=556)
    until(lambda: "Part 6" in "".join(rich.texts(556)) and is_done(), seconds=40)
    (message,) = shown(rich)
    assert len(message.text) > 4096


def test_c13_an_answer_over_the_limits_is_sent_as_text(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path
) -> None:
    items = "\n".join(f"- item {number}" for number in range(300))  # two blocks each
    answers(settings, tmp_path, {"text": items})
    rich.say("go", user=556)
    until(lambda: "item 299" in "".join(rich.texts(556)) and is_done())
    assert not rich.api.of("sendRichMessage", 556)


def test_c13_a_growing_answer_becomes_rich_in_its_message(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path
) -> None:
    words = "A sentence that is long enough to be shown while it grows.\n\n"
    answers(settings, tmp_path, {"text": f"{words}{TABLE}\n\nThe end.", "tokens_per_second": 20})
    rich.say("go", user=556)
    until(lambda: is_done() and "The end." in "".join(rich.texts(556)), seconds=40)
    (message,) = shown(rich)
    assert [each["type"] for each in message.rich] == ["paragraph", "table", "paragraph"]
    assert len(message.history) > 1
    assert rich.api.of("sendMessage", 556)  # it began as a text


def test_c13_a_draft_is_rich_too(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path
) -> None:
    wants_rich("rich", growing="drafts")
    rich.api.with_drafts.add(rich.tokens["main"])
    answers(settings, tmp_path, {"text": f"# Title\n\n{'word ' * 60}end", "tokens_per_second": 15})
    rich.say("go", user=556)
    until(lambda: is_done() and len(shown(rich)) == 1, seconds=40)
    assert len(rich.api.of("sendRichMessageDraft", 556)) > 1
    (message,) = shown(rich)
    assert len(message.history) == 1
    assert message.rich


@pytest.mark.parametrize("refused", ["method", "content", "edit"])
def test_c13_a_refused_answer_is_sent_as_text_with_its_pictures_behind(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path, refused: str
) -> None:
    """It has two messages as text; the picture, which had the second place, comes third."""
    pace = {"tokens_per_second": 400} if refused == "edit" else {}
    picture = {"native": {"type": "image", "props": {"url": PIXEL, "alt": "A pixel"}}}
    text = f"{LONG[:5000]}\n\n# Refused\n\nThe end."
    answers(settings, tmp_path, picture, {"text": text, **pace})
    if refused == "method":
        rich.api.with_rich.clear()
    else:
        rich.api.refused_word = "Refused" if refused == "edit" else "end"
    rich.say("go", user=556)
    until(lambda: len(shown(rich)) == 3 and is_done(), seconds=60)
    assert [each.kind for each in shown(rich)] == ["text", "text", "photo"]
    assert " ".join(rich.texts(556)[:2]).count("The end.") == 1
    assert not any(each.rich for each in shown(rich))


def test_c13_a_server_without_rich_messages_is_asked_once(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path
) -> None:
    rich.api.with_rich.clear()
    answers(settings, tmp_path, {"text": TABLE})
    rich.say("go", user=556)
    until(lambda: len(shown(rich)) == 1 and is_done())
    rich.say("again", user=556)
    until(lambda: len(shown(rich)) == 2 and is_done())
    assert len(rich.api.of("sendRichMessage")) == 1


def test_c13_a_rich_message_of_a_person_and_a_quoted_one_are_read(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path
) -> None:
    """The Bot API gives them without a text of their own."""
    answers(settings, tmp_path, {"text": "heard: {input}"})
    given = {"blocks": to_rich(f"# Title\n\n{TABLE}\n\n- a **b**\n\n<details>x</details>")}
    update = message("", user=556, rich_message=given)
    assert rich.post(update)[0] == 200
    words = "Title\nName | Price\nTea | 2\nCake | 3\na b\n…\nx"
    until(lambda: f"heard: {words}" in rich.texts(556))
    bot = {"id": 900, "is_bot": True, "first_name": "Bot"}
    quoted = {"message_id": 3, "date": 1, "from": bot, "rich_message": given}
    rich.say("and this?", user=556, reply_to_message=quoted)
    until(lambda: any("Cake | 3" in text and "and this?" in text for text in rich.texts(556)[1:]))


@pytest.mark.parametrize("failure", ["429", "502", "blocked"])
def test_c13_other_failures_keep_the_form(
    runner: Runner, rich: Local, settings: Settings, tmp_path: Path, failure: str
) -> None:
    answers(settings, tmp_path, {"text": TABLE})
    match failure:
        case "429":
            rich.api.fail("sendRichMessage", 429, "Too Many Requests", retry_after=1)
        case "502":
            rich.api.fail("sendRichMessage", 502, "Bad Gateway", effect=True)
        case _:
            rich.api.fail("sendRichMessage", 403, "Forbidden: bot was blocked by the user")
    rich.say("go", user=556)
    if failure == "blocked":
        until(lambda: Delivery.objects.filter(state=Delivery.State.DEAD).exists())
        assert not shown(rich)
        return
    until(lambda: is_done() and len(shown(rich)) == 1, seconds=40)
    assert shown(rich)[0].rich
    assert not rich.api.of("sendMessage", 556)
