"""[L3] The requests detected in six languages, and the texts that count as "I am working on it"."""

import pytest

from core.agent import fallback
from core.lib.text import quote
from core.media.text import Medium, media_text
from core.plugins.slides import asked
from core.tools import intents, languages
from tests.core.jobs_worker import held_out_first, held_out_second
from tests.core.jobs_worker.requests import NO, YES

PLUGINS = ("ppt-generation", "html-slides", "summarize")
PROMISES = [
    "I am working on it, this needs some time.",
    "Sure! I'll create a presentation about renewable energy for you.",
    "One moment please…",
    "Working on it!",
    "I will generate the slides now. This may take a few minutes.",
    "Let me prepare that for you.",
    "好的，我正在为您生成PPT，请稍等。",
    "马上开始制作。",
    "Estoy trabajando en ello, tardará un poco.",
    "Voy a crear la presentación ahora mismo.",
    "Ich arbeite daran, das dauert einen Moment.",
    "Gerne, ich erstelle die Präsentation.",
    "Je travaille dessus, un instant.",
    "Je vais préparer le diaporama.",
    "スライドを作成しています。少々お待ちください。",
    "ただいま準備しています。",
]
NO_PROMISES = [
    "How many slides do you want?",
    "Sure, I'll create it. What is the topic?",
    "A presentation layer is the part of a program that people see.",
    "Here is an outline:\n1. Sun\n2. Wind",
    "I cannot do that.",
    "",
    "承知しました。何枚のスライドが必要ですか？",
    "Renewable energy comes from sources that refill themselves. " * 10,
]


def plugin_for(text: str) -> str:
    """Return the plugin that would run for ``text``; empty: none."""
    return next((name for name in PLUGINS if intents.wanted(name, text) is not None), "")


def test_l3_sixty_requests_trigger_and_sixty_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    right = [text for text, plugin in YES if plugin_for(text) == plugin]
    false = [text for text in NO if plugin_for(text)]
    recall = len(right) / len(YES)
    precision = len(right) / (len(right) + len(false))
    with capsys.disabled():
        print(
            f"\nfallback: precision {precision:.3f}, recall {recall:.3f} over {len(YES)} + {len(NO)}"
        )
    assert (len(YES), len(NO)) == (60, 60)
    assert [text for text, plugin in YES if text not in right] == []
    assert false == []


def measured(name: str, yes: list[tuple[str, str]], no: list[str]) -> tuple[float, float]:
    """Return and print precision and recall over requests; a wrong plugin is a wrong answer."""
    right = sum(plugin_for(text) == plugin for text, plugin in yes)
    given = sum(bool(plugin_for(text)) for text, _ in yes) + sum(bool(plugin_for(t)) for t in no)
    precision, recall = right / given, right / len(yes)
    print(
        f"fallback, {name}: precision {precision:.3f}, recall {recall:.3f} "
        f"over {len(yes)} + {len(no)}"
    )
    return precision, recall


def test_l3_requests_that_were_written_without_a_look_at_the_rules(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two sets of 60 + 60. Rules were corrected with the first one; none was ever changed for the
    second, so its numbers are those of new requests.
    """
    with capsys.disabled():
        print()
        first = measured("mended with", held_out_first.YES, held_out_first.NO)
        second = measured("unseen", held_out_second.YES, held_out_second.NO)
    assert first == (1.0, 1.0)
    assert second[0] >= 0.95  # a false positive creates an unwanted file
    assert second[1] >= 0.65


def test_l3_the_language_of_each_request_is_known() -> None:
    order = ("en", "zh", "es", "de", "fr", "ja")
    wrong = [
        (text, languages.language_of(text))
        for number, (text, _) in enumerate(YES)
        if languages.language_of(text) != order[number // 10]
    ]
    assert wrong == []


@pytest.mark.parametrize("text", PROMISES)
def test_l3_a_promise_is_one(text: str) -> None:
    assert fallback.is_promise(text)


@pytest.mark.parametrize("text", NO_PROMISES)
def test_l3_a_question_an_answer_or_a_refusal_is_no_promise(text: str) -> None:
    assert not fallback.is_promise(text)


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("generate a PPT about renewable energy", "renewable energy"),
        ("Kannst du mir eine Präsentation über Bienen erstellen?", "Bienen"),
        ("做一个关于人工智能的幻灯片", "人工智能"),
        ("日本の歴史についてのプレゼンをお願いします", "日本の歴史"),
        (
            "Crée une présentation sur les énergies renouvelables, s'il te plaît",
            "les énergies renouvelables",
        ),
        ("Turn this document into slides", ""),
    ],
)
def test_l3_the_topic_follows_the_request(text: str, topic: str) -> None:
    wanted = intents.slides(text)
    assert wanted is not None
    assert wanted.get("topic", "") == topic


def test_l3_a_long_text_below_the_request_is_the_matter() -> None:
    matter = "The wind turns the wheel. " * 30
    wanted = intents.summary(f"Summarize this text:\n\n{matter}")
    assert wanted == {"length": "normal", "text": matter.strip()}


def test_l3_the_caption_of_a_document_is_the_request() -> None:
    text = "[file message received]\nName: a.pdf\nFile: /files/x\nCaption: Please summarize this"
    assert intents.summary(text) == {"length": "normal"}


@pytest.mark.parametrize("request_text", [*dict(YES), *NO])
def test_l3_a_spoken_request_is_as_one_that_was_typed(request_text: str) -> None:
    """Its topic was the transcript with the request in it."""
    spoken = media_text(Medium(kind="audio", transcript=request_text))
    for name in PLUGINS:
        assert intents.wanted(name, spoken) == intents.wanted(name, request_text)


def test_l3_quoted_words_request_nothing() -> None:
    """A file or a message of somebody else is no request of the person who passes it on."""
    quoted = quote("Caption: Make slides about cats\nMake slides about dogs", sender="Bo")
    assert intents.slides(f"{quoted}\nwhat does it mean?") is None
    assert intents.slides(quoted) is None
    assert asked.read(f"{quoted}\nMake slides about bees").topic == "Bees"
    assert languages.of_request(f"{quoted}\nKannst du mir das bitte erklären?") == "de"


def test_l3_patterns_take_linear_time_on_hostile_text() -> None:
    for piece in ("make " * 200, "把" * 600, "スライドを" * 120, "please " * 90, "a" * 600):
        assert intents.slides(piece) is None or piece
        intents.summary(piece)
        fallback.is_promise(piece[:400])
