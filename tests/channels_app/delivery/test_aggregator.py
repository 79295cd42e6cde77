"""[C5] Blocks at natural boundaries, the same while a text grows."""

from hypothesis import given
from hypothesis import strategies as st

from channels_app.delivery.aggregator import split

PARTS = [
    "word ", "Sentence one. ", "\n", "\n\n", "```python\ncode line\n", "```\n", "| a | b |\n",
    "😀", "👩‍👩‍👧", "x" * 50, "é", "。",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=60).map("".join)


@given(text=TEXTS, cut=st.integers(0, 600))
def test_c5_the_blocks_of_a_growing_text_are_the_blocks_of_the_text(text: str, cut: int) -> None:
    """All but the last, which is not shown before it is complete."""
    shown = split(text[:cut], limit=120)[:-1]
    assert split(text, limit=120)[: len(shown)] == shown


@given(text=TEXTS)
def test_c5_no_block_is_too_long_and_no_character_is_lost(text: str) -> None:
    blocks = split(text, limit=100)
    assert all(len(block) <= 100 for block in blocks)
    for mark in ("😀", "x", "é", "word", "code line"):
        assert "".join(blocks).count(mark) >= text.count(mark)


def test_c5_paragraph_then_line_then_sentence_then_word() -> None:
    text = "a" * 60 + "\n\n" + "b" * 60
    assert split(text, limit=100) == ["a" * 60, "b" * 60]
    assert split(text.replace("\n\n", "\n"), limit=100) == ["a" * 60, "b" * 60]
    assert split("A" * 60 + ". " + "b" * 60, limit=100) == ["A" * 60 + ". ", "b" * 60]
    assert split("a" * 60 + " " + "b" * 60, limit=100) == ["a" * 60 + " ", "b" * 60]


def test_c5_a_fence_is_not_cut_unless_it_is_larger_than_a_block() -> None:
    fence = "```py\n" + "x = 1\n" * 8 + "```"
    text = "Introduction, long enough to matter here.\n\n" + fence
    assert split(text, limit=90) == ["Introduction, long enough to matter here.", fence]
    pieces = split("```py\n" + "x = 1\n" * 60 + "```\n", limit=100)
    assert all(piece.startswith("```py\n") for piece in pieces)
    assert all(piece.endswith("```") for piece in pieces)
    assert sum(piece.count("x = 1") for piece in pieces) == 60


def test_c5_a_table_is_not_cut() -> None:
    table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 4
    for gap in ("\n\n", "\n"):  # a row is no line to cut at, either
        text = f"Some words before the table that fill a block.{gap}{table}"
        assert split(text, limit=100)[1] == table.strip("\n")
