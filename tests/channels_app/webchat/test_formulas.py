"""Formulas of answers: drawn as MathML, never markup of their own (RX2, RX6)."""

import re
import time
from html import escape

import pytest

from channels_app.webchat.html import ATTRIBUTES as ALL_ATTRIBUTES
from channels_app.webchat.html import TAGS as ALL_TAGS
from channels_app.webchat.html import render
from core.markdown.mathml import ATTRIBUTES, MAX_CHARACTERS, TAGS

SQUARE = "<msup><mi>x</mi><mn>2</mn></msup>"


@pytest.mark.parametrize(
    ("source", "display"),
    [
        ("so $x^2$ it is", "inline"),
        (r"so \(x^2\) it is", "inline"),
        ("so $$x^2$$ it is", "block"),
        (r"so \[x^2\] it is", "block"),
        ("so\n$$\nx^2\n$$\nit is", "block"),
        ("so\n\\[\nx^2\n\\]\nit is", "block"),
        ("- so\n\n  $$x^2$$", "block"),
        ("> \\[ x^2 \\]", "block"),
        ("| a |\n|---|\n| $x^2$ |", "inline"),
        ("**so $x^2$**", "inline"),
    ],
)
def test_a_formula_is_drawn_however_a_model_marks_it(source: str, display: str) -> None:
    shown = render(source)
    assert f'<math display="{display}">' in shown
    assert SQUARE in shown
    assert "$" not in shown
    assert "\\" not in shown


@pytest.mark.parametrize(
    ("tex", "rows", "cells"),
    [
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", 2, 4),
        (r"\begin{aligned}[t] a &= b \nonumber \\ c &= d \label{e} \end{aligned}", 2, 4),
        (r"\begin{alignat*}{2} a &= b & c &= d \\ e &= f & g &= h \end{alignat*}", 2, 8),
        (r"\begin{gather*} a \\ b \\ c \end{gather*}", 3, 3),
        (r"\begin{eqnarray} a &=& b \\ c &=& d \end{eqnarray}", 2, 6),
        (r"f(x) = \begin{dcases} 1 & x > 0 \\ 0 & \text{else} \end{dcases}", 2, 4),
        (r"\left\{ \begin{aligned} a &= b \\ c &= d \end{aligned} \right.", 2, 4),
        (r"a = b \\ c = d", 2, 2),
        (r"a &= b \\ &= c", 2, 4),
        (r"\begin{aligned} a &= b \\[0.5em] c &= d \end{aligned}", 2, 4),
    ],
)
def test_the_lines_of_a_formula_stand_below_each_other(tex: str, rows: int, cells: int) -> None:
    shown = render(f"$$\n{tex}\n$$")
    assert (shown.count("<mtr>"), shown.count("<mtd")) == (rows, cells)
    assert not re.search(r"&amp;|\\|em", shown.replace('columnspacing="0em"', ""))


@pytest.mark.parametrize(
    "tex", [r"\ce{H2O}", r"\begin{rcases} a & b \\ c & d \end{rcases}", "a & b", r"a \& \ce{b}"]
)
def test_a_formula_with_an_unknown_command_or_column_is_shown_as_written(tex: str) -> None:
    shown = render(f"$$\n{tex}\n$$")
    assert "<math" not in shown
    assert escape(tex) in shown


def test_names_of_functions_and_a_literal_ampersand_are_drawn() -> None:
    shown = render(r"$\arg\min_x f(x)$ and $\alpha \& \beta$")
    assert shown.count("<math") == 2
    assert "\\" not in shown


@pytest.mark.parametrize("letters", ["n", "n + 1", "x, y", "n!", "-k < 12"])
def test_single_letters_are_a_formula_too(letters: str) -> None:
    for source in (f"for ${letters}$ of them", f"for \\({letters}\\) of them"):
        assert "<math" in render(source)


def test_stars_underscores_and_dashes_of_a_formula_are_no_markdown() -> None:
    shown = render("$$\na_1 * b_1\n- c * d_{2}\n$$\n\nThen $u_i * v_i * w_i$.")
    assert "<em>" not in shown
    assert "<li>" not in shown
    assert shown.count("<math") == 2
    assert "<mo>−</mo>" in shown


@pytest.mark.parametrize(
    "source",
    [
        "It costs $5, or $10 with tax.",
        "`$x^2$`",
        "```\n$$x^2$$\n```",
        "    $$x^2$$",
        r"\$x^2\$",
        "$ x^2 $",
        "$$x^2",
        "$$\nx^2\n\nand $$ more",
        "$HOME and $PATH",
        r"\(see below\)",
        "$HOME$",
        "US$5-$6",
    ],
)
def test_prices_code_and_halves_are_no_formulas(source: str) -> None:
    assert "<math" not in render(source)


def test_a_block_ends_with_the_quotation_in_which_it_began() -> None:
    assert "<math" not in render("> $$\n> x^2\n\nout\n$$")


@pytest.mark.parametrize(
    "tex", [r"\frac{", "x^2^2", "{" * 900, r"\left( x_1", r"\begin{matrix} a & b", "x_"]
)
def test_unsupported_formulas_are_shown_as_written(tex: str) -> None:
    shown = render(f"so $$\\alpha {tex}$$ it is")
    assert "<math" not in shown
    assert "<code>\\alpha " in shown


@pytest.mark.parametrize(
    "tex",
    [
        r"\text{<script>alert(1)</script>}",
        r"\text{<img src=x onerror=alert(1)>}",
        r"\href{javascript:alert(1)}{x^2}",
        r"\style{position:fixed}{x}",
        r"\class{sidebar}{x}",
        r"\cssId{composer}{x}",
        r"\text{</mtext></math><img src=x onerror=alert(1)>}",
        r"\text{&lt;script&gt;alert(1)&lt;/script&gt;}",
        r"\hspace{99999em}x",
        r"\hspace{-9em}x",
        r"\color{red;position:fixed}{x}",
        r"\mathbf{<b onclick=alert(1)>}",
    ],
)
def test_rx2_a_formula_brings_no_markup_no_address_and_no_style(tex: str) -> None:
    shown = render(f"so $$\\alpha {tex}$$ it is")
    for tag, attributes in re.findall(r"<([a-z]+[0-9]?)((?: [^<>]*)?)>", shown):
        assert tag in ALL_TAGS
        for name, value in re.findall(r'([a-z-]+)="([^"]*)"', attributes):
            assert name == "class" or name in ALL_ATTRIBUTES[tag]
            assert not re.search(r"script|position|9em", value)
    assert "href" not in re.sub(r"<code>.*?</code>", "", shown)


def test_words_that_define_others_are_not_followed() -> None:
    laughs = r"\newcommand{\a}{xxxxxxxx}\newcommand{\b}{\a\a\a\a\a\a\a\a}\b\b\b\b"
    for define in (laughs, r"\def\a{x^2}\a", laughs.replace("newcommand", "renewcommand")):
        assert "<math" not in render(f"$${define}$$")
    assert "<math" in render(r"$\Delta \leq \delta_x$")


@pytest.mark.parametrize("tex", ["x_1", "{", r"\sqrt{x_", "&", r"\left(", "\\\\", "^", "'"])
def test_rx6_many_formulas_take_no_minutes(tex: str) -> None:
    for one in (f"$\\alpha {tex * 80}$ ", f"$${tex * 400}$$\n\n", f"\\[{tex * 9}\\] "):
        text = (one * 60_000)[:60_000]
        started = time.process_time()
        shown = render(text)
        assert time.process_time() - started < 3.0
        assert len(shown) < 40 * len(text)


def test_an_answer_draws_so_much_and_shows_the_rest_as_code() -> None:
    one = "$x_1 + " + "y" * 92 + "$\n\n"
    drawn = render(one * 200).count("<math")
    assert drawn == MAX_CHARACTERS // (len(one) - 4)
    assert render(one * 200).count("<code>") == 200 - drawn


def test_the_sanitiser_knows_formulas_and_none_of_their_dangerous_parts() -> None:
    assert TAGS <= ALL_TAGS
    assert not TAGS & {"annotation-xml", "annotation", "mglyph", "malignmark", "maction", "mi:svg"}
    for names in ATTRIBUTES.values():
        assert not names & {"href", "style", "class", "id", "actiontype", "src"}
