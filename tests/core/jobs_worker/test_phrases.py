"""[D2] Progress and results in the language of the request; unknown texts stay unchanged."""

import re
from typing import Any

import pytest

from core.plugins.slides import maker
from core.tools import phrases, waiting
from tests.core.jobs_worker.conftest import Say, Worker, ended
from tests.core.jobs_worker.slides import SLIDES
from tests.core.jobs_worker.test_asked import CALL, lines
from tests.servers import wait_until

REQUESTS = {
    "en": "Make slides about renewable energy",
    "zh": "请帮我生成一份关于可再生能源的PPT",
    "es": "Haz una presentación sobre energías renovables",
    "de": "Mach mir bitte eine Präsentation über erneuerbare Energien",
    "fr": "Fais-moi une présentation sur les énergies renouvelables",
    "ja": "再生可能エネルギーについてのスライドを作ってください",
}


def test_every_sentence_is_there_in_every_language() -> None:
    assert len(phrases.SENTENCES) == len(set(phrases.SENTENCES)) > 100
    for english in phrases.SENTENCES:
        slots = sorted(re.findall(r"\{\d\}", english))
        said = english.replace("{0}", "x y").replace("{1}", "7").replace("{2}", "2 slides")
        for language in phrases.ORDER:
            other = phrases.translated(english, language)
            assert sorted(re.findall(r"\{\d\}", other)) == slots, english
            assert phrases.in_language(said, language) != said
        assert phrases.in_language(said, "en") == said


@pytest.mark.parametrize("own", [0, 1, 3])
def test_the_slides_final_sentences_are_translated(own: int) -> None:
    class Made:
        """The part of a deck that the sentence needs."""

        deck = type("Deck", (), {"title": 'Wind {0} "and" sea'})

    Made.own = own  # type: ignore[attr-defined]
    made: Any = Made
    said = phrases.in_language(maker.told(made, 12), "de")
    assert said.startswith('Die Präsentation „Wind {0} "and" sea“ ist fertig: 12 Folien.')
    assert "the model" not in said


@pytest.mark.parametrize(
    ("english", "german"),
    [("100,000", "100.000"), ("$5.00", "$5,00"), ("$1,234.50", "$1.234,50"), ("2", "2"),
     ("3.14", "3.14"), ("1,5", "1,5")],
)  # fmt: skip
def test_numbers_are_written_as_in_the_language(english: str, german: str) -> None:
    """In German 100,000 is a hundred."""
    said = phrases.in_language(f"The budget for today is used up: {english}.", "de")
    assert said == f"Das Budget für heute ist aufgebraucht: {german}."


def test_unknown_sentences_stay() -> None:
    for text in ("", "A summary.\nRunning late…", "Writing slide one of two", "{0} {1}"):
        assert phrases.in_language(text, "fr") == text
    assert phrases.in_language("Running late…", "xx") == "Running late…"
    assert phrases.in_language(waiting.STOPPED, "es") == "La tarea se detuvo."


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("language", REQUESTS)
def test_d2_progress_is_in_the_users_language(
    language: str, worker: Worker, script: Any, say: Say
) -> None:
    arguments = {**CALL, "parameters": {"topic": "linger"}}
    script([{"match": "", "steps": [{"tool": "route_to_plugin", "arguments": arguments}]}])
    run = say(REQUESTS[language], wait=False)
    writing = (phrases.in_language("Writing slide 1 of 2", language), "route_to_plugin")
    wait_until(lambda: writing in lines(run), what="the line of the plugin")
    SLIDES.go_on.set()
    assert ended(run).state == "succeeded"
    first = phrases.in_language("Generating your presentation…", language)
    assert lines(run)[0] == (first, "route_to_plugin")
    assert (first == "Generating your presentation…") == (language == "en")
