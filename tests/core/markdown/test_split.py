"""[T6], [S3]: long messages in pieces, and one message of a long text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import markdown
from core.markdown import TelegramText, utf16_length

from . import texts
from .checks import delivered, forms

PROSE = "The **quick** brown `fox` jumps over the [lazy](https://e.com/a_b) dog. It never *stops*! "


def visible(text: str) -> str:
    return "".join(text.split())


def well_split(source: str, *, limit: int = markdown.MESSAGE_LIMIT) -> list[TelegramText]:
    """Split, and check the invariants of any pieces."""
    whole = markdown.to_telegram(source)
    pieces = markdown.split(source, limit=limit)
    assert all(utf16_length(piece.text) <= limit for piece in pieces)
    assert all(len(piece.entities) <= markdown.ENTITY_LIMIT for piece in pieces)
    assert visible("".join(piece.text for piece in pieces)) == visible(whole.text)
    for piece in pieces:
        assert piece.text == piece.text.rstrip()
        assert all(0 <= s.start < s.end <= len(piece.text) for s in piece.spans)
    return pieces


def test_t6_a_short_text_is_one_piece() -> None:
    """[T6]."""
    assert markdown.split("**a**") == [markdown.to_telegram("**a**")]


def test_t6_prose_is_cut_between_sentences() -> None:
    """[T6]: in as few pieces as entities allow."""
    pieces = well_split(PROSE * 80)
    assert len(pieces) == 4  # 320 entities
    assert all(piece.text.endswith(("!", ".")) for piece in pieces)


def test_t6_the_best_place_is_taken() -> None:
    """[T6]: paragraph before line before sentence before word."""
    words = "word " * 200
    for separator in ("\n\n", "\n", ". "):
        source = f"{words.strip()}{separator}{words * 5}"
        assert well_split(source, limit=5500)[0].text.rstrip(".") == words.strip()
    assert well_split("word " * 700, limit=3000)[0].text.endswith("word")


def test_t6_no_piece_more_than_needed() -> None:
    """[T6]: paragraphs that would fit alone do not make more pieces."""
    source = "\n\n".join("x" * 99 for _ in range(120))
    assert len(well_split(source)) == 3


def test_t6_code_goes_on_with_its_language() -> None:
    """[T6]: at a line of code, its indentation kept."""
    code = "".join(f"    line {number}\n" for number in range(900))
    pieces = well_split(f"text\n\n```py\n{code}```\n\nend")
    assert len(pieces) == 3
    for piece in pieces[1:]:
        assert piece.text.startswith("    line ")
        assert (piece.entities[0].type, piece.entities[0].language) == ("pre", "py")
    assert pieces[-1].text.endswith("\nend")


def test_t6_styles_and_quotes_go_on() -> None:
    """[T6]: a style that is cut ends and begins again."""
    pieces = well_split(f"> **{'word ' * 1500}end**\n\nafter")
    assert [span.kind for span in pieces[1].spans] == ["quote", "bold"]
    for piece in pieces:
        entities, markup, html = forms(piece)
        assert entities == markup == html


@pytest.mark.parametrize("unit", ["👨‍👩‍👧‍👦", "🇩🇪", "é", "👍🏽", "✌️", "😀", "각"])
def test_t6_no_visible_character_is_cut(unit: str) -> None:
    """[T6]: no surrogate pair, joined emoji, flag, or combined letter."""
    for pad in range(4):
        source = "x" * pad + unit * 3000
        for piece in well_split(source, limit=1001):
            rest = piece.text.removeprefix("x" * pad)
            assert rest == unit * (len(rest) // len(unit))


def test_t6_a_word_without_end_is_cut_all_the_same() -> None:
    """[T6]: there is no boundary to take."""
    pieces = well_split("x" * 9000)
    assert [len(piece.text) for piece in pieces] == [4096, 4096, 808]


def test_t6_scripts_without_spaces_are_not_cut_early() -> None:
    """[T6]: between any two characters of CJK text, better after a full stop."""
    assert [len(p.text) for p in well_split("汉" * 9000)] == [4096, 4096, 808]
    assert well_split("汉字文章。" * 2000)[0].text.endswith("。")


def test_t6_long_addresses_make_smaller_pieces() -> None:
    """[T6]: the Bot API takes 32,768 bytes of markup."""
    source = " ".join(f"[x](https://e.com/{'é' * 400}{number})" for number in range(90))
    for piece in well_split(source):
        assert max(len(piece.markdown_v2().encode()), len(piece.html().encode())) <= 32_768


@pytest.mark.unmeasured
def test_t6_generated_documents_stay_consistent() -> None:
    """[T6]: in very small pieces, too."""
    for seed in range(300):
        source = "\n\n".join(texts.well_formed(seed * 7 + n).source for n in range(6))
        pieces = well_split(source, limit=300)
        whole = delivered(pieces)
        assert visible(whole) == visible(delivered([markdown.to_telegram(source)]))


@given(st.text(alphabet="ab *`\n.😀汉\u200d|>-", max_size=120), st.integers(1, 30))
def test_t6_any_text_at_any_limit(source: str, limit: int) -> None:
    """[T6]: even where nothing fits."""
    whole = markdown.to_telegram(source)
    pieces = markdown.split(source, limit=limit)
    seen = visible("".join(piece.text for piece in pieces))
    hidden = str.maketrans("", "", "\u200d")
    assert seen.translate(hidden) == visible(whole.text).translate(hidden)
    if limit > 1:
        assert all(utf16_length(piece.text) <= limit for piece in pieces)


def test_s3_a_text_that_fits_is_not_truncated() -> None:
    """[S3]."""
    assert markdown.truncate("**a**") == markdown.to_telegram("**a**")
    exact = markdown.truncate("x" * 4096)
    assert (len(exact.text), exact.text[-1]) == (4096, "x")


@pytest.mark.parametrize(
    "source",
    [PROSE * 80, "```py\n" + "code\n" * 1500, "> " + "quoted " * 900, "x" * 5000, "😀" * 4000],
    ids=["prose", "code", "quote", "word", "emoji"],
)
def test_s3_a_longer_text_ends_with_the_indicator(source: str) -> None:
    """[S3]: always valid, never over the limit, the indicator outside of code and quotes."""
    message = markdown.truncate(source)
    assert message.text.endswith(markdown.TRUNCATED)
    assert utf16_length(message.text) <= markdown.MESSAGE_LIMIT
    assert len(message.entities) <= markdown.ENTITY_LIMIT
    entities, markup, html = forms(message)
    assert entities == markup == html
    start = len(message.text) - len(markdown.TRUNCATED)
    assert all(span.end <= start for span in message.spans)
    assert message.text[:start].rstrip() == markdown.to_telegram(source).text[:start].rstrip()


def test_t6_a_converted_text_is_split_as_its_source() -> None:
    """[T6]."""
    pieces = markdown.split(PROSE * 80)
    assert markdown.split(markdown.to_telegram(PROSE * 80)) == pieces


def counted(piece: TelegramText) -> int:
    """Return Telegram's entities of a message, in which no style stands in another."""
    return len(forms(piece)[0][1])


@pytest.mark.parametrize(
    "unit",
    [
        "**a *b* c** ",
        "**a [b](https://e.com) c** ",
        "*a **b** ~~c ||d|| e~~* ",
        "**_~~a [b](https://e.com) c~~ d_ e** ",
        "<u>a **b** c</u> ",
    ],
)
def test_t6_entities_are_counted_as_telegram_counts_them(unit: str) -> None:
    """[T6]: it cuts a style where another begins in it, and drops all beyond the hundredth."""
    for piece in well_split(unit * 120):
        assert counted(piece) <= markdown.ENTITY_LIMIT


@pytest.mark.unmeasured
def test_t6_generated_documents_have_no_entity_too_many() -> None:
    """[T6]: deep nesting in any order."""
    for seed in range(40):
        source = " ".join(texts.well_formed(seed * 50 + n).source for n in range(40))
        for piece in markdown.split(source):
            assert counted(piece) <= markdown.ENTITY_LIMIT


def test_t6_the_cuts_of_a_growing_text_stay() -> None:
    """[T6]: whatever follows, and as long as it takes no more messages at the end either."""
    source = (PROSE * 3 + "\n\n") * 40
    before: list[TelegramText] = []
    for end in range(4000, len(source), 997):
        pieces = markdown.split(source[:end], growing=True)
        full = before[:-1]
        assert pieces[: len(full)] == full
        before = pieces
    assert markdown.split(source)[: len(before) - 1] == before[:-1]
