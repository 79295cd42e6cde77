"""[T1]: never raises on any text; time grows with the text, not with its square."""

import gc
import logging
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import markdown
from core.markdown import plain
from tests.run import of_this_turn

from .checks import forms, html, markdown_v2

FUNCTIONS: tuple[Callable[[object], object], ...] = (
    markdown.looks_like_markdown,
    markdown.classify_outbound_format,
    markdown.markdown_to_plain,
    markdown.markdown_to_whatsapp,
    markdown.to_telegram,
    markdown_v2,
    html,
    markdown.split,
    markdown.truncate,
    markdown.strip_outer_fence,
    markdown.live_view,
)
SPECIALS = "*_~`[]()<>!|\\&#$:;-+=.0123\n\t\r \u00a0\u2028\u200d\ufe0f\x00ab中é😀\"'/@?{}^%"
# Units whose repetition hurts a parser that looks back or ahead too far.
UNITS = (
    "[",
    "*",
    "`",
    ">",
    "> ",
    "- ",
    "* ",
    "1. ",
    "![",
    "](",
    "[a](",
    "[a](b",
    "[a](<b",
    '[a](b "',
    "[a][",
    "[](",
    "*a ",
    "*a _b ",
    "**a*b ",
    "_a __b",
    "~~a",
    "||a",
    "$a",
    "\\(",
    "\\*",
    "<",
    "<a ",
    "<a b='",
    "<!--",
    "<?",
    "</b>",
    "<b>",
    "<p>b</p>",
    "<summary>",
    "<T>",
    "&",
    "&amp;",
    "https://a.b/c_d*e ",
    "# a\n",
    "a\n=\n",
    "- a\n",
    "- > a\n",
    "a | b\n--|--\n",
    "|a\n",
    "[a]: b\n",
    "[a]: /b\n\n",
    "<div>\n",
    "```\n",
    "***\n",
    "\\*a\\* ",
    "中**a**",
    " ",
    "\n",
    "👨‍👩‍👧‍👦",
    "🇩🇪",
    "2*3",
    "a*b_",
    ")*(",
    "x**(y)",
    "**/*.ts ",
    "a/*.b",
    "C:\\*.log",
    "__init__ ",
    "__a",
    "a`b",
    "<sup>q</sup>",
    "<b>a</b>",
    "$x^2$ ",
    "> [!NOTE]\n",
    "[^1]",
    "![](b)",
    "<details>\n\n",
    ">> a\n",
)
GROWN = {
    "brackets": lambda n: "[" * (n // 2) + "]" * (n // 2),
    "images": lambda n: "![" * (n // 7) + "](b)" * (n // 7),
    "emphasis": lambda n: "*a " * (n // 6) + "b* " * (n // 6),
    "lists": lambda n: "".join("  " * min(i, 300) + "- x\n" for i in range(n // 600)),
    "quotes": lambda n: ">" * n,
    "quote lines": lambda n: (">" * 60 + "a\n") * (n // 62),
    "ticks": lambda n: "".join("`" * i + "a" for i in range(1, int((2 * n) ** 0.5))),
    "table": lambda n: "a|" * (n // 6) + "\n" + "-|" * (n // 6) + "\n" + "a\n" * (n // 6),
    "definitions": lambda n: "".join(f"[a{i}]: /u{i}\n" for i in range(n // 12)),
}


def goes_out(source: str) -> None:
    """Assert that nothing raises and that TDLib accepts all three forms of every piece, which
    agree.
    """
    for function in FUNCTIONS:
        function(source)
    for piece in markdown.split(source):
        entities, markup, html = forms(piece)
        assert entities == markup == html


@given(st.text(alphabet=SPECIALS, max_size=200))
@settings(max_examples=400)
def test_t1_no_text_of_markers_raises_or_is_refused(source: str) -> None:
    """[T1], [T5]: markers in any order."""
    goes_out(source)


@pytest.mark.unmeasured
@given(st.text(max_size=300))
@settings(max_examples=300)
def test_t1_no_text_at_all_raises_or_is_refused(source: str) -> None:
    """[T1], [T5]: any code points."""
    goes_out(source)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "value",
    [
        None,
        b"**a** \xff",
        bytearray(b"a"),
        12,
        ["*a*"],
        "\ud800 **a** \udfff",
        "\x00",
        "\ud83d\ude00 **x**",
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_t1_anything_is_text(function: Callable[[object], object], value: object) -> None:
    """[T1]: and the output can be encoded."""
    result = function(value)
    if isinstance(result, str):
        result.encode()


def test_t1_none_is_empty_and_bytes_are_decoded() -> None:
    """[T1]."""
    assert markdown.markdown_to_plain(None) == ""
    assert markdown.markdown_to_channel(None, "none") == ""
    assert markdown.markdown_to_whatsapp(b"**a**") == "*a*"
    assert markdown.to_telegram("\ud83d\ude00 **x**").text == "😀 x"


def test_t1_a_failure_is_logged_and_the_text_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[T1]: the one guard."""

    def broken(_source: str) -> str:
        raise RuntimeError("broken")

    monkeypatch.setattr(plain, "render", broken)
    with caplog.at_level(logging.ERROR):
        assert markdown.markdown_to_plain("**a**") == "**a**"
    assert "broken" in caplog.text


@pytest.mark.unmeasured
@pytest.mark.parametrize("unit", ["[", "*", "`", ">", "> " * 20 + "\n", "a **b** `c`\n"])
def test_t1_a_megabyte_takes_seconds(unit: str) -> None:
    """[T1]: generous bound of CPU time; the text is all there."""
    source = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]
    for function in (markdown_v2, markdown.markdown_to_whatsapp):
        began = time.process_time()
        function(source)
        assert time.process_time() - began < 10


def cost(source: str, *, times_each: int = 1) -> float:
    """Return CPU seconds of the two most expensive renderings, the best of ``times_each``."""
    times = []
    gc.disable()  # it reads all that earlier tests of this process have left
    try:
        for _ in range(times_each):
            began = time.process_time()
            markdown.split(markdown.live_view(source))
            markdown_v2(source)
            markdown.markdown_to_whatsapp(source)
            markdown.to_rich(source)
            times.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(times)


def grows_linearly(make: Callable[[int], str]) -> None:
    """Check four times the text: linear is 4, quadratic 16, on a busy machine as well, each time."""
    found = []
    for _ in range(10):
        large = cost(make(32_000))
        if large < 0.05:  # is not compared
            return
        # Noise may cost another try, but makes no small one dear.
        small = cost(make(8_000), times_each=3)
        if large < 9 * small:
            return
        found.append((small, large))
    raise AssertionError(found)


@pytest.mark.unmeasured
@pytest.mark.parametrize("unit", of_this_turn(UNITS, parts=3))
def test_t1_repetition_is_linear(unit: str) -> None:
    """[T1]."""
    grows_linearly(lambda size: (unit * (size // len(unit) + 1))[:size])


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", GROWN)
def test_t1_nesting_is_linear(name: str) -> None:
    """[T1]."""
    grows_linearly(GROWN[name])


def test_t1_no_nesting_loses_its_text() -> None:
    """[T1], [T5]: deeper than the parser follows."""
    for source in (
        ">" * 300 + "end",
        "- " * 300 + "end",
        "\n".join("  " * n + f"- x{n}" for n in range(200)),
    ):
        text = markdown.to_telegram(source).text
        assert "end" in text or all(f"x{n}" in text for n in range(200))
