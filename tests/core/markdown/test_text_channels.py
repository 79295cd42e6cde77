"""[T2], [T3], [T4]: the class of a text, and its form where there are no entities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import markdown

from . import texts
from .mdb import whatsapp

FORMATS = ("whatsapp", "plain", "none")

PLAIN_TEXTS = (
    "",
    " ",
    "Hello.",
    "2 * 3",
    "2*3*4 = 24",
    "snake_case and __dunder",
    "*.py and *.txt",
    "5* hotel",
    "https://e.com/a_b_c?x=1&y=2",
    "C:\\Users\\me",
    "a | b",
    "x || y",
    "#tag",
    "1.5 and 2.",
    "cost ~5, ~10",
    "a < b && c > d",
    "List<String> x",
    "50% [...] done",
    "a\r\nb\r\n\r\n\r\nc ",
    "文件_名称_测试",
    "\ufeffbom\u200b",
    "[INFO]: started",
    "100$ and 5$",
    "f(x) = x_1 * x_2",
    "-5",
    "=> ok",
    "~/.config",
    "a `b",
    "@me #1 !",
    "-",
)
MARKDOWN = (
    "**a**",
    "_a_",
    "~~a~~",
    "`a`",
    "[a](https://e.com)",
    "![a](b.png)",
    "# a",
    "a\n===",
    "- a",
    "1. a",
    "> a",
    "```\na",
    "    a",
    "---",
    "|a|b|\n|-|-|",
    "<https://e.com>",
    "\\*a\\*",
    "AT&amp;T",
    "<b>x</b>",
    "- [ ] a",
    "a\n\n* b",
    "||s||",
    "\\(x^2\\)",
    "[a]\n\n[a]: https://e.com",
)


@pytest.mark.parametrize("source", PLAIN_TEXTS)
def test_t2_plain_text_is_not_markdown_and_passes_unchanged(source: str) -> None:
    """[T2]: byte for byte, whichever format; twice is once."""
    assert not markdown.looks_like_markdown(source)
    for shape in (*FORMATS, "unknown"):
        assert markdown.markdown_to_channel(source, shape) == source


@pytest.mark.parametrize("source", MARKDOWN)
def test_t2_markdown_is_recognised(source: str) -> None:
    """[T2], [T4]."""
    assert markdown.looks_like_markdown(source)
    assert markdown.classify_outbound_format(source) == "markdown"
    assert markdown.markdown_to_channel(source, "none") == source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Report is ready. Open: https://e.com/files/out?token=a_b", "link"),
        ("See /files/out?token=x", "link"),
        ("https://e.com " + "x" * 600, "plain"),
        ("Hello.", "plain"),
        ("**Ready**: https://e.com", "markdown"),
        (None, "plain"),
    ],
)
def test_t4_texts_are_classified(source: str | None, expected: str) -> None:
    """[T4]."""
    assert markdown.classify_outbound_format(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("**bold** *it* ~~no~~ `c*d`", "*bold* _it_ ~no~ `c*d`"),
        ("# Title\n\ntext", "*Title*\n\ntext"),
        ("[t](https://e.com/a_b) end", "t (https://e.com/a_b) end"),
        ("[https://e.com/a_b](https://e.com/a_b)", "https://e.com/a_b"),
        ("[r](docs/x.md)", "r (docs/x.md)"),
        ("[h](#x)", "h"),
        ("![alt](https://e.com/i.png)", "alt (https://e.com/i.png)"),
        ("[![alt](https://e.com/i.png)](https://e.com)", "alt (https://e.com)"),
        ("[![](https://e.com/1)](https://e.com/2)", "https://e.com/1 https://e.com/2"),
        ("<b>a</b> <i>b</i> <u>c</u> <code>d</code>", "*a* _b_ c `d`"),
        ("> [!WARNING]\n> x", "> *Warning:*\n> x"),
        ("[MITM](https://e.com)ed", "MITMed (https://e.com)"),
        ("[a](https://e.com/1)[b](https://e.com/2)", "a (https://e.com/1) b (https://e.com/2)"),
        ("![a](https://e.com/1)(note)", "a (https://e.com/1) (note)"),
        ("[見](https://e.com)た、[a](https://e.com).", "見 [1]た、a [1].\n\n[1] https://e.com"),
        ("- a\n  - b\n- [x] c\n\n2. d", "• a\n  • b\n☑ c\n\n2. d"),
        ("> q\n> r\n>\n> > s", "> q\n> r\n> \n> s"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("```py\nx *y*\n```", "```\nx *y*\n```"),
        ("a\n\n    x", "a\n\n```\nx\n```"),
        ("~~~\n```\nx\n~~~", "```\nx"),
        ("``a ` b``", "```a ` b```"),
        ("`` `a` ``", "``` `a` ```"),
        ("|a|b|\n|-|-|\n|1|2|", "```\na | b\n--+--\n1 | 2\n```"),
        ("- ```\n  x\n  ```", "•\n```\nx\n```"),
        ("> ```\n> x\n> y\n> ```", "> ```\nx\ny\n```"),
        ("**a**b", "**a**b"),
        ("a**b**, **c**", "a**\u200a\u2060b**\u200a\u2060, *c*"),
        ("**a\nb**", "*a*\n*b*"),
        ("**[t](https://e.com)**", "*t* (https://e.com)"),
        ("\\*x\\*", "*\u200a\u2060x*"),
        ("\\*x **b**", "*\u200a\u2060x *b*"),
        ("**a\\* b**", "*a\u2060\u200a* b*"),
        ("see `a` and https://e.com/*x*/_y_ **b**", "see `a` and https://e.com/*x*/_y_ *b*"),
        ("[a](https://e.com/`x`) **b**", "a (https://e.com/%60x%60) *b*"),
        ("**a** ```\u2060``` `` ``` ``", "*a* ```\u2060``` ``` `\u2060`` ```"),
        ("**a**\n\\> 5 mg", "*a*\n>\u200a\u2060 5 mg"),
        ("**a**\n\n\\* b, \\- c\n\\- d", "*a*\n\n*\u200a\u2060 b, - c\n-\u200a\u2060 d"),
        ("> q\n> \\> r\n> `- s`", "> q\n> >\u200a\u2060 r\n> `- s`"),
        ("the \\` key and `ls`, `cd`", "the ` key and ```ls```, ```cd```"),
        ("> 1. a", "> 1. a"),
    ],
)
def test_t3_whatsapp(source: str, expected: str) -> None:
    """[T3]."""
    assert markdown.markdown_to_whatsapp(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# T\n\n**a** _b_ ~~c~~ `d`", "T\n\na b c d"),
        ("- a\n  1. b\n- [ ] c\n- [x] d", "- a\n  1. b\n- [ ] c\n- [x] d"),
        ("1. [x] a", "1. [x] a"),
        ("> a\n> > b", "> a\n> > b"),
        ("a\n\n    x\n      y", "a\n\n    x\n      y"),
        ("|a|b|\n|-|-:|\n|1|22|", "a |  b\n--+---\n1 | 22"),
        ("<p>x<br>y <img alt='i'></p>", "x\ny i"),
        ("[a](https://e.com/with%20space 'title')", "a (https://e.com/with%20space)"),
        ("[a](<https://e.com/with space>)", "a (https://e.com/with%20space)"),
        ("<ul><li>a</li><li>b</li></ul>\n\n**c**", "• a\n• b\n\nc"),
        ("<ol>\n<li>a</li>\n<li>b</li>\n</ol>", "1. a\n2. b"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
        ("<script>x</script>\n\n**c**", "c"),
        ("<MyTag>\nx\n</MyTag>\n\n**c**", "<MyTag>\nx\n</MyTag>\n\nc"),
        ("<details>\n\n- **a**</details>\n\nb", "- a\n\nb"),
    ],
)
def test_t3_plain(source: str, expected: str) -> None:
    """[T3]."""
    assert markdown.markdown_to_plain(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "Begin with ` ``` ` and **go**.\n\n{}",
        "Begin with \\`\\`\\` and **go**.\n\n{}",
        "- [ ] ```py\n  a\n\n{}",
        "`````md\n````\n```sh\nls\n```\n````\n`````\n\n{}",
        "````md\n# How\n\n```sh\nls\n```\n````\n\n{}",
        "````md\nonly one\n```\n````\n\n{}",
        "~~~\n```\n~~~\n\n{}",
        "> ````\n> ```\n> a\n> ````\n\n{}",
        "- a\n  ```diff\n  ``` b\n  ```\n\n{}",
    ],
)
def test_t3_whatsapp_shows_prose_and_code_as_such_behind_fences_that_are_text(source: str) -> None:
    """[T3]: a fence that is text or part of some code pairs with none of the other blocks."""
    message = source.replace("{}", "Then *this*:\n\n```\ncode = 1\n```\n\nand the end")
    found = whatsapp.parse(markdown.markdown_to_whatsapp(message))
    shown = [(span.type, found.text[span.start : span.end].strip()) for span in found.spans]
    assert ("italic", "this") in shown
    assert ("pre", "code = 1") in shown
    assert not any("Then" in text or "end" in text for kind, text in shown if kind == "pre")


def test_t3_a_wide_table_is_a_list() -> None:
    """[T3]: header and value."""
    source = f"| Option | Meaning |\n|---|---|\n| -v | {'word ' * 12}|\n| -q | |"
    expected = f"- Option: -v\nMeaning: {('word ' * 12).strip()}\n- Option: -q"
    assert markdown.markdown_to_plain(source) == expected


def test_t3_addresses_amid_sentences_are_numbered() -> None:
    """[T3]: one is written behind its text, several go to notes at the end, each address once."""
    one = "See [a](https://e.com/a) and this."
    assert markdown.markdown_to_plain(one) == "See a (https://e.com/a) and this."
    many = "See [a](https://e.com/a), [b](https://e.com/b), [c](https://e.com/a)."
    notes = "See a [1], b [2], c [1].\n\n[1] https://e.com/a\n[2] https://e.com/b"
    assert markdown.markdown_to_plain(many) == notes


def test_t3_tags_are_text_where_some_are_no_html() -> None:
    """[T3]: a text with `<T>` means `<b>` literally, too."""
    assert markdown.markdown_to_plain("**a** <T> <b>c</b>") == "a <T> <b>c</b>"
    assert markdown.markdown_to_plain("**a** <b>c</b>") == "a c"


@pytest.mark.unmeasured
def test_t3_whatsapp_formats_as_markdown_does_and_nothing_else() -> None:
    """[T3]: by the documented rules of the messenger, over generated texts."""
    for seed in range(0, 2_000, 2):
        generated = texts.well_formed(seed)
        shown = whatsapp.parse(markdown.markdown_to_whatsapp(generated.source)).text
        for word in generated.words:
            assert word in shown or not word.isalnum(), (word, generated.source)


@given(st.text(alphabet="ab*_~ .\n", max_size=40))
def test_t2_plain_text_passes_every_converter_byte_for_byte(source: str) -> None:
    """[T2]: no invisible character is added."""
    if not markdown.looks_like_markdown(source):
        for shape in FORMATS:
            assert markdown.markdown_to_channel(source, shape) == source


@given(st.text(alphabet="abc*_`#-> \n", max_size=60))
def test_t3_code_is_never_altered(code: str) -> None:
    """[T3]."""
    fence = "`" * 12
    source = f"{fence}\n{code}\n{fence}"
    if code.strip():
        assert code in markdown.markdown_to_plain(source)
        assert code in markdown.markdown_to_whatsapp(source)
        assert code == markdown.to_telegram(source).text
