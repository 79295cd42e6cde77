"""[T5]: one parse, three forms, all accepted by TDLib's own parser with the same text and spans."""

import os
from collections import Counter

import pytest

from core import markdown
from core.markdown import TelegramText

from . import texts
from .checks import delivered, forms, lost

GENERATED = int(os.environ.get("GENERATED_TEXTS", "4000"))
BATCH = 1_000
COMPARED = GENERATED * 3 // 40  # noise texts compared with the reference reading


def spans(source: str) -> list[tuple[str, str, str]]:
    """Return (kind, words, value) of every span that Telegram keeps, in any of the three forms."""
    entities, markup, html = forms(markdown.to_telegram(source))
    assert entities == markup == html
    text, found = entities
    return [(kind, text[start:end], value) for kind, start, end, value in found]


def check(messages: list[TelegramText]) -> None:
    for message in messages:
        entities, markup, html = forms(message)
        assert entities == markup == html, message.text
        assert len(message.entities) <= markdown.ENTITY_LIMIT


@pytest.mark.unmeasured
@pytest.mark.parametrize("batch", range(GENERATED // BATCH))
@pytest.mark.sampled
def test_t5_generated_texts_are_accepted_agree_and_lose_no_word(batch: int) -> None:
    """[T5], [T6]: nested Markdown whose words are known, and words and markers in any order."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        if seed % 2:
            check(markdown.split(texts.noise(seed)))
            continue
        generated = texts.well_formed(seed)
        messages = markdown.split(generated.source)
        check(messages)
        seen = delivered(messages)
        for word, count in Counter(generated.words).items():
            assert seen.count(word) >= count, (word, generated.source)


@pytest.mark.unmeasured
@pytest.mark.sampled
def test_t5_noise_loses_nothing_that_the_reference_shows() -> None:
    """[T5]: compared with an independent reading of the same Markdown."""
    for seed in range(1, 2 * COMPARED, 2):
        # Left as they are on purpose: formulas, spoilers. Read differently: escaped addresses.
        source = texts.noise(seed).translate(str.maketrans("\0$|\\", "    "))
        assert not lost(source, markdown.split(source)), source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("***both***", [("bold", "both", ""), ("italic", "both", "")]),
        ("**a *b* c**", [("bold", "a ", ""), ("bold", "b c", ""), ("italic", "b", "")]),
        ("snake_case and 2 * 3", []),
        ("**注意：**请", [("bold", "注意：", "")]),
        ("**[a](https://e.com)**", [("bold", "a", ""), ("link", "a", "https://e.com")]),
        ("[a](https://e.com/x_(y))", [("link", "a", "https://e.com/x_(y)")]),
        ("**use `a*b` now**", [("bold", "use ", ""), ("bold", " now", ""), ("code", "a*b", "")]),
        ("- ```py\n  x\n  ```", [("pre", "x", "py")]),
        ("> ```c++\n> x\n> ```", [("pre", "x", "c++"), ("quote", "x", "")]),
        ("```py\nx = 1", [("pre", "x = 1", "py")]),
        ("````\n```\nx\n```\n````", [("pre", "```\nx\n```", "")]),
        ("~~~\na **b**\n~~~", [("pre", "a **b**", "")]),
        ("a\n\n    code", [("pre", "code", "")]),
        ("> > a\n> b", [("quote", "a\nb", "")]),
        ("> 1. a", [("quote", "1. a", "")]),
        ("> a\n\n> b", [("quote", "a\n", ""), ("quote", "b", "")]),
        ("# Title `c`", [("bold", "Title ", ""), ("code", "c", "")]),
        (
            "## The `Source` class",
            [("bold", "The ", ""), ("bold", " class", ""), ("code", "Source", "")],
        ),
        ("## `Source`", [("code", "Source", "")]),
        ("<b>a</b> <i>b</i> <s>c</s>", [("bold", "a", ""), ("italic", "b", ""), ("strike", "c", "")]),
        ("<u>a</u> <ins>b</ins>", [("underline", "a", ""), ("underline", "b", "")]),
        ("<code>a*b*c</code>", [("code", "a*b*c", "")]),
        ("<p><strong>a</strong> <code>b</code></p>", [("bold", "a", ""), ("code", "b", "")]),
        ("*<u>a</u>*", [("italic", "a", ""), ("underline", "a", "")]),
        ("_a_<u>b</u>", [("italic", "a", ""), ("underline", "b", "")]),
        ("> [!NOTE]\n> x", [("bold", "Note:", ""), ("quote", "Note:\nx", "")]),
        ("||secret|| and a || b || c", [("spoiler", "secret", "")]),
        ("<tg-spoiler>x</tg-spoiler>", [("spoiler", "x", "")]),
        ("😀 **x** 👨‍👩‍👧‍👦 _y_", [("bold", "x", ""), ("italic", "y", "")]),
        ("[`c`](https://e.com)", [("link", "c", "https://e.com")]),
        ("[a](tg://user?id=1)", [("link", "a", "tg://user?id=1")]),
        ("[a](www.e.com/x)", [("link", "a", "http://www.e.com/x")]),
        ("<a href='https://e.com'>x</a> **y**", [("bold", "y", ""), ("link", "x", "https://e.com")]),
        ("~~a~~ ~b~", [("strike", "a", "")]),
    ],
)  # fmt: skip
def test_t5_styles_survive(source: str, expected: list[tuple[str, str, str]]) -> None:
    """[T5]."""
    assert sorted(spans(source)) == sorted(expected)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("[a](docs/x.md) b", "a b"),
        ("[a](#x) b", "a b"),
        ("[a](http://localhost:8000/x)", "a (http://localhost:8000/x)"),
        ("[a](ftp://e.com/x)", "a (ftp://e.com/x)"),
        ("[a](http://e.com:99999/)", "a (http://e.com:99999/)"),
        ("[a](mailto:b@c.de)", "a (b@c.de)"),
        ("[](https://e.com)", "https://e.com"),
        ("![](https://e.com/i.png)", "🖼 https://e.com/i.png"),
        ("![x](data:image/png;base64,AA)", "🖼x"),
    ],
)
def test_t5_a_link_that_telegram_refuses_becomes_text(source: str, text: str) -> None:
    """[T5]: it never costs the message."""
    message = markdown.to_telegram(source)
    assert message.text == text
    assert forms(message)[0] == forms(message)[1] == forms(message)[2]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("- a\n  - b\n\n    c\n- d", "• a\n  • b\n\n    c\n• d"),
        ("3. a\n4. b\n   - c", "3. a\n4. b\n  • c"),
        ("- [ ] a\n- [x] b\n\n1. [x] c", "☐ a\n☑ b\n\n☑ 1. c"),
        ("- - a", "•\n  • a"),
        ("-\n- b", "•\n• b"),
        ("- > q", "• q"),
        ("a\n\n***\n\nb", "a\n\n———\n\nb"),
        ("**a**  \nb\\\nc", "a\nb\nc"),
        ("**AT&amp;T** &#x41;&#0;", "AT&T A\ufffd"),
        ("x[^1] **y**\n\n[^1]: Smith, 2020.", "x[^1] y\n\n[^1]: Smith, 2020."),
        ("[INFO]: a.py **y**\n[INFO]: b.py", "[INFO]: a.py y\n[INFO]: b.py"),
        ("[INFO]: a.py\n\n[INFO]: b.py\n\n**y**", "[INFO]: a.py\n\n[INFO]: b.py\n\ny"),
        ("[x]: a.py\n\n**y** [X]", "y X"),
        ("a<p>**b**</p><ul><li><p>c</p></li><li>d</li></ul>e", "a\nb\n• c\n• d\ne"),
        ("x[^a-z] `[^1]` **y** [^2]\n\n[^3]: z", "x[^a-z] [^1] y [^2]\n\n[^3]: z"),
        ("fns[0](e.data) m[i + 1](x) **y**", "fns[0](e.data) m[i + 1](x) y"),
        ("| a |\n|---|\n| <ul><li>b</li><li>c</li></ul> |", "a\n-------\n• b • c"),
        ("| a |\n|---|\n| <details><summary>b</summary>c</details> |", "a\n---\nb c"),
        ("**a** $x_1 * y_2*$ \\(a_b*c*d\\)", "a x₁ * y₂* a_b*c*d"),
        ("$E = mc^2$ and $\\alpha \\leq \\frac{1}{2}$", "E = mc² and α ≤ 1/2"),
        ("\\(\\sqrt{x_1^2} \\to \\infty\\)", "√(x₁²) → ∞"),
        ("$\\begin{matrix}a\\end{matrix}$ **b**", "$\\begin{matrix}a\\end{matrix}$ b"),
        ("$HOME_DIR/$x costs $5 and $6 **b**", "$HOME_DIR/$x costs $5 and $6 b"),
        ("Term[^1] **a**\n\n[^1]: word", "Term[^1] a\n\n[^1]: word"),
        ("[![](https://e.com/1.png)](https://e.com/2)", "🖼 https://e.com/1.png https://e.com/2"),
        ("![](https://e.com/1)![](https://e.com/2)", "🖼 https://e.com/1 🖼 https://e.com/2"),
        ("> [!tip] Try it", "Tip: Try it"),
        ("**a**\n\n> > nested\n\n> 5 a\n> b", "a\n\nnested\n\n5 a\nb"),
        ("**a** List<String> b", "a List<String> b"),
        ("**a** <kbd>b</kbd><br>c<!-- d -->", "a b\nc"),
        ("a <script> **b**", "a  b"),
        ("<details>\n<summary>S</summary>\n\n**H**\n\n</details>", "S\n\nH"),
        ("<details>\n<summary>S</summary>\n\n**H**.</details>\n\nx </details>", "S\n\nH.\n\nx </details>"),
        ("[INFO]: started **now**", "[INFO]: started now"),
        ("[r] **a**\n\n[r]: https://e.com 'T'", "r a"),
        ("| a | b |\n|--:|:-:|\n| 重要 | `x\\|y` |", "   a |  b\n-----+----\n重要 | x|y"),
        ("| a |\n|---|", "a\n-"),
        ("| n | l |\n|---|---|\n| 1 | [x](https://e.com) |", "n | l\n1 | x"),
    ],
)  # fmt: skip
def test_t5_structure_is_drawn(source: str, text: str) -> None:
    """[T5]: lists, tasks, rules, references, formulas, tags and tables."""
    assert markdown.to_telegram(source).text == text


def test_t5_a_wide_table_is_a_list_and_so_are_those_that_follow() -> None:
    """[T3], [T5]: header and value; tables before it have been shown as grids."""
    wide = f"| Option | Meaning |\n|---|---|\n| -v | {'long ' * 12}|\n| -q | no |"
    text = markdown.to_telegram(f"{wide}\n\n| a | b |\n|---|---|\n| 1 | 2 |").text
    assert "• Option: -q\nMeaning: no" in text
    assert text.endswith("• a: 1\nb: 2")
    text = markdown.to_telegram(f"| a | b |\n|---|---|\n| 1 | 2 |\n\n{wide}").text
    assert text.startswith("a | b\n--+--\n1 | 2")
    assert "• Option: -q\nMeaning: no" in text


def test_t5_a_table_of_many_columns_is_rows() -> None:
    """[T5]: nine lines for every row would be no table any more."""
    row = "|" + " a cell |" * 9
    source = f"{row}\n|{'---|' * 9}\n{row}"
    assert markdown.to_telegram(source).text == "\n".join([" | ".join(["a cell"] * 9)] * 2)


def test_t5_offsets_are_utf16_units() -> None:
    """[T5]: as the Bot API counts."""
    message = markdown.to_telegram("😀 **𝔊x** [l](https://e.com) `c`\n\n```py\nz\n```")
    assert [entity.to_dict() for entity in message.entities] == [
        {"type": "bold", "offset": 3, "length": 3},
        {"type": "text_link", "offset": 7, "length": 1, "url": "https://e.com"},
        {"type": "code", "offset": 9, "length": 1},
        {"type": "pre", "offset": 11, "length": 1, "language": "py"},
    ]


def test_t2_plain_text_goes_out_as_it_came() -> None:
    """[T2]: byte for byte, without entities."""
    for source in ("a\r\n\r\n\n b ", "2*3*4 = 24", "*.py", "5* hotel", "https://e.com/a_b", "$5-6"):
        assert markdown.to_telegram(source) == TelegramText(source)


@pytest.mark.parametrize("source", ["<!-- x -->", "[r]: https://e.com", "```\n```", "#", "&nbsp;"])
def test_t5_an_answer_that_shows_nothing_goes_out_as_it_was_written(source: str) -> None:
    """[T5]: a comment, a definition, an empty fence: never no message at all."""
    assert [piece.text for piece in markdown.split(source)] == [source]
    assert markdown.markdown_to_plain(source) == source
    assert markdown.markdown_to_whatsapp(source) == source


def test_t5_nothing_is_no_message() -> None:
    """[T5]."""
    assert markdown.split(None) == []
    assert markdown.split(" \n") == []


@pytest.mark.parametrize(
    "source",
    [
        "> " + "a long quote " * 60,
        "> line\n" * 12,
        "> line\n" * 12 + "> ||spoiler||",
        "> line\n> ```\n> code\n" * 5 + "> ```\n\nafter",
        "<details>\n<summary>More</summary>\n\n**Hidden**\n\n- a\n- b\n\n</details>\n\nafter",
        "<details>\n<summary>More</summary>\n\n**Hidden**\n\n- a\n- b</details>\n\nafter",
        "> short\n\n" + "> long " * 1 + "words " * 120 + "\n\n<u>x</u>",
    ],
    ids=["words", "lines", "spoiler", "code", "details", "details at an end", "beside a short one"],
)
def test_t5_long_quotes_and_details_can_be_folded(source: str) -> None:
    """[T5]: as Telegram's expandable quotes, in all three forms."""
    message = markdown.to_telegram(source)
    assert [e.type for e in message.entities].count("expandable_blockquote") == 1
    assert message.markdown_v2().count("||") >= 1
    assert "<blockquote expandable>" in message.html()
    entities, markup, html = forms(message)
    assert entities == markup == html


def test_t5_a_short_quote_is_not_folded() -> None:
    """[T5]."""
    assert [e.type for e in markdown.to_telegram("> a\n> b").entities] == ["blockquote"]
