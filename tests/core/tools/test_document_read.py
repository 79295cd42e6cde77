"""The parts of a document that a call returns."""

from core.agent.loop import TOOL_TEXT_CHARACTERS
from core.tools.document_read import cut


def test_l5_the_hint_for_the_rest_reaches_a_model_with_a_large_window() -> None:
    """The agent cuts longer results at their end."""
    text, shown = cut("a", [("", "x y " * 1000)] * 100, first=1, most=300_000)
    assert len(text) < TOOL_TEXT_CHARACTERS
    assert text.endswith(f"(More follows: call document_read again with from_part {shown + 1}.)")
