"""Words of a document that a journey quotes stand in it: known before the journeys are made."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture import sources
from tests.journeys.documents import says


def quotes() -> Iterator[tuple[str, str]]:
    """Yield document and words of each call of :func:`says` in a journey."""
    for source in sources.read("tests/journeys"):
        for node in ast.walk(source.tree):
            match node:
                case ast.Call(
                    func=ast.Name("says"),
                    args=[ast.Constant(str(document)), ast.Constant(str(words))],
                ):
                    yield document, words


QUOTES = list(quotes())


def test_there_are_quotes() -> None:
    assert len(QUOTES) > 20


@pytest.mark.parametrize(("document", "words"), QUOTES)
def test_a_document_has_the_words_that_a_journey_quotes(document: str, words: str) -> None:
    says(document, words)
