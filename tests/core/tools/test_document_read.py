"""The parts of a document that a call returns."""

from core.agent.loop import TOOL_TEXT_CHARACTERS
from core.tools.document_read import cut, in_pieces


def test_l5_the_hint_for_the_rest_reaches_a_model_with_a_large_window() -> None:
    """The agent cuts longer results at their end."""
    text, shown = cut("a", [("", "x y " * 1000)] * 100, first=1, most=300_000)
    assert len(text) < TOOL_TEXT_CHARACTERS
    assert text.endswith(f"(More follows: call document_read again with from_part {shown + 1}.)")


def test_a_part_that_does_not_fit_is_read_in_pieces() -> None:
    """As a page without headings, or a document that is one table."""
    long = "".join(f"{number:05} word " for number in range(3000))
    found = in_pieces([("page 1", "short"), ("page 2", long), ("page 3", "end")], most=900)
    first, shown, calls = 1, 0, 0
    read = ""
    while first <= len(found):
        text, shown = cut("a", found, first=first, most=900)
        read += "".join(found[number][1] for number in range(first - 1, first - 1 + shown))
        assert all(found[number][1] in text for number in range(first - 1, first - 1 + shown))
        first += shown
        calls += 1
    assert read == f"short{long}end"
    assert {reference for reference, _ in found} == {"page 1", "page 2", "page 3"}
    assert found[0] == ("page 1", "short")
