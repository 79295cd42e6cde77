"""The parts of a document that a call returns."""

import re

import pytest

from core.agent.loop import TOOL_TEXT_CHARACTERS
from core.tools.document_read import cut, pieces


def test_l5_the_hint_for_the_rest_reaches_a_model_with_a_large_window() -> None:
    """The agent cuts longer results at their end."""
    parts = pieces([("", "x y " * 1000)] * 100, most=300_000)
    text, shown = cut("a", parts, first=1, most=300_000, tool="document_read")
    assert len(text) < TOOL_TEXT_CHARACTERS
    assert text.endswith(
        f"(More follows: call document_read again with from_part {len(shown) + 1}.)"
    )


@pytest.mark.parametrize("most", [400, 2730, 300_000])
def test_l5_every_word_of_a_document_is_read(most: int) -> None:
    """Also the end of the page at which one call stops, and of a part without headings."""
    found = [(f"page {number}", f"word{number} " * 700) for number in range(9)]
    found += [("", "every " * 30_000), ("end", "水车" * 4000)]
    parts = pieces(found, most=most)
    read, first = "", 1
    while first:
        text, _ = cut("a", parts, first=first, most=most, tool="document_read")
        more = re.search(r"\(More follows: .* from_part (\d+)\.\)\Z", text)
        read += text
        first = int(more[1]) if more else 0
    counts = [read.count(f"word{number} ") for number in range(9)]
    assert [*counts, read.count("every "), read.count("水")] == [700] * 9 + [30_000, 4000]
