"""The fidelity of every rendering, measured by the channels' display, with lower limits.

The texts are the descriptions that installed packages carry. With ``LATCHKEY_ORACLE_CORPUS`` (the
file of a larger corpus of this kind) the same is measured there, with the floors of the product.
Documents count by their intended reading (``meant.py``), not as the checker alone reads them.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from core import markdown

from . import meant, texts
from .checks import forms, html, lost, markdown_v2, messages_in_markdown_v2
from .mdb import corpus, runner

CORPUS = os.environ.get("LATCHKEY_ORACLE_CORPUS", "")
ONE_MESSAGE = 3_900  # characters of Markdown that fit into one message
LONGEST = 10_000
# The reference reads formulas and spoilers as Markdown, and decodes bare addresses.
DIFFERENT = {0: None, ord("$"): None, ord("|"): "/", ord("%"): None}
TELEGRAM = {
    "accept": 1.0, "text": 0.995, "exact": 0.98, "spans": 0.993, "quote": 0.99, "structure": 0.995,
    "code": 0.99, "headings": 0.98, "links": 0.995, "perfect": 0.98,
}  # fmt: skip
WHATSAPP = {"accept": 1.0, "spans": 0.93, "links": 1.0, "perfect": 0.90}
PLAIN = {"accept": 1.0, "links": 0.99, "perfect": 0.97}
TARGETS: list[tuple[str, Callable[[str], Any], dict[str, float]]] = [
    ("entities", markdown.to_telegram, TELEGRAM),
    ("markdownv2", markdown_v2, TELEGRAM),
    ("html", html, TELEGRAM),
    ("whatsapp", markdown.markdown_to_whatsapp, WHATSAPP),
    ("plain", markdown.markdown_to_plain, PLAIN),
]
# Which packages are installed changes with every update; one description is more than a per cent.
SLACK = {"exact": 0.02, "perfect": 0.04, "links": 0.01}


def short_descriptions() -> list[corpus.Document]:
    """Return Markdown descriptions of packages, cut between blocks to the size of one message."""
    documents = []
    for name, text in texts.descriptions(content_type="text/markdown"):
        end = len(text)
        if end > ONE_MESSAGE:
            end = max(text.rfind("\n\n", 0, ONE_MESSAGE), 0)
        if end and text.count("```", 0, end) % 2 == 0:
            documents.append(corpus.Document(name, "readme", text[:end]))
    return documents


def below(measured: dict[str, Any], floors: dict[str, float]) -> dict[str, float]:
    """Return the measures that miss their floor."""
    found = {name: float(measured.get(name, 0)) for name in floors}
    return {name: value for name, value in found.items() if value < floors[name]}


@pytest.mark.unmeasured
@pytest.mark.parametrize(("target", "function", "floors"), TARGETS, ids=[t[0] for t in TARGETS])
def test_t3_t5_descriptions_of_packages_arrive(
    target: str, function: Callable[[str], Any], floors: dict[str, float]
) -> None:
    """[T3], [T5]."""
    documents = short_descriptions()
    assert len(documents) > 50
    measured = meant.measure(documents, function, target, limit=5.0)["overall"]
    relaxed = {name: floor - SLACK.get(name, 0) for name, floor in floors.items()}
    assert below(measured, relaxed) == {}


@pytest.mark.unmeasured
def test_t5_t6_documents_of_packages_lose_nothing() -> None:
    """[T5], [T6]: every message is accepted, the three forms agree, every character arrives."""
    count = 0
    for name, text in texts.of_packages():
        source = text[:LONGEST].translate(DIFFERENT)
        messages = markdown.split(source)
        for message in messages:
            entities, markup, html = forms(message)
            assert entities == markup == html, name
        missing = lost(source, messages)
        assert not missing, (name, missing)
        count += 1
    assert count >= 300


def corpus_of(sections: Sequence[str]) -> list[corpus.Document]:
    return [document for document in corpus.load(Path(CORPUS)) if document.section in sections]


@pytest.mark.unmeasured
@pytest.mark.skipif(not CORPUS, reason="LATCHKEY_ORACLE_CORPUS names no corpus")
@pytest.mark.unmeasured
@pytest.mark.parametrize(("target", "function", "floors"), TARGETS, ids=[t[0] for t in TARGETS])
def test_t3_t5_the_corpus_arrives(
    target: str, function: Callable[[str], Any], floors: dict[str, float]
) -> None:
    """[T3], [T5]: the floors of the product."""
    documents = corpus_of(("spec", "gfm", "llm", "adv", "readme"))
    assert below(meant.measure(documents, function, target)["overall"], floors) == {}


@pytest.mark.unmeasured
@pytest.mark.skipif(not CORPUS, reason="LATCHKEY_ORACLE_CORPUS names no corpus")
def test_t6_long_documents_of_the_corpus_are_split_well() -> None:
    """[T6]: whole, in few pieces, never in a word."""
    split = runner.run_splitter(
        corpus_of(("long",)), messages_in_markdown_v2, "markdownv2", markdown_v2
    )
    assert (split["ok"], split["same"]) == (1.0, 1.0)
    # By the checker's own reading, to which a number inside stars is a loss; "same" is ours.
    assert split["lossless"] >= 0.55
    assert split["pieces_over_ideal"] <= 1.10
    assert (split["inside_word"], split["many_entities"]) == (0, 0)


@pytest.mark.unmeasured
@pytest.mark.skipif(not CORPUS, reason="LATCHKEY_ORACLE_CORPUS names no corpus")
def test_t1_pathological_documents_of_the_corpus_are_quick() -> None:
    """[T1]: generous, because the machine that runs the tests is shared."""
    result = runner.run_pathological(corpus_of(("patho",)), markdown_v2)
    assert (result["failed"], result["worst_ms"] < 3000) == (0, True)
