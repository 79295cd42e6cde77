"""[T2], [T3], [T5]: no character that a reader needs is taken for a marker.

Numbers, names, globs and paths stand in Markdown of every kind; all their letters, digits and
operators arrive, in order, in every form. ``vectors/ordinary.json`` are messages without any
Markdown, as people write them: every visible character of them arrives.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import markdown
from tests import load_vectors

from .checks import forms
from .mdb import whatsapp

ORDINARY: list[dict[str, str]] = load_vectors("ordinary")["messages"]
GUARDS = dict.fromkeys(map(ord, "\u200a\u2060"))
# More messages of the same kinds.
FURTHER = (
    "10*20*30 = 6000", "5*6*7 and 8*9*10", "2 ** 3 ** 4", "(a+b)*c + d*(e+f)", "f**k off, s**t",
    "src/**/*.ts", "src/*, lib/*", "/*c*/ int x; /*d*/", "*.test.* or *.py", "^_^ hi ^_^",
    "-_- and -_-", "@_@ ... @_@", "call __init__ and __new__", "x = obj.__dict__[0]", ">>> x = 1",
    ">_<", ">w< so cute", ">:( no", ">= 18 only", "C:\\temp\\*.log", "D:\\a\\_b\\c", "don`t, can`t",
    "长*宽*高", "+ 5 EUR", "#", "###", "*123*456#", "__name__ == \"__main__\"", "a_b_c * d_e_f",
    "2*(3+4) and 5*(6+7)", "(1+2)*3 - (4+5)*6", "user__id and user__name", "Tel *100# or *101#",
)  # fmt: skip
CONTEXTS = (
    "**Volume:** {}",
    "# {}",
    "## The **size**: {} and {}",
    "- {}\n- **b** {}",
    "1. {}",
    "> {} _x_",
    "| a | b |\n|---|---|\n| {} | `c` |",
    "[{}](https://e.com/x) and **b**",
    "**{}**",
    "*{}*",
    "_{}_ and `code`",
    "~~{}~~",
    "text {}\ntext {}\n\n**end**",
    "***a*** {} __b__ {} *c*",
    "<b>{}</b> and <i>x</i>",
    '({}) **x** "{}"',
)
WORDS = ("a", "n", "x1", "width", "count", "größe", "имя", "N", "total")
NAMES = ("__init__", "user_name", "my_file_v2", "_private", "MY__VAR__NAME", "__main__", "a_b_c")
PATHS = (
    "src/**/*.ts", "*.py", "tests/test_*.py", "dist/*", "**/node_modules/**", "lib/*_test.go",
    "*.tar.gz", "a/*/b", "/usr/local/bin", "./x_y/z_w", "C:\\temp\\x.log", "docs/*.{md,txt}",
)  # fmt: skip


def arithmetic(chance: random.Random) -> str:
    """Generate a product or a power without spaces, perhaps with brackets."""

    def term(depth: int) -> str:
        if depth < 2 and chance.random() < 0.3:
            return f"({expression(depth + 1)})"
        return chance.choice((str(chance.randint(0, 999)), chance.choice(WORDS)))

    def expression(depth: int) -> str:
        signs = ("*", "*", "**", "+", "-", "/", "_") if depth else ("*", "**", "*")
        parts = [term(depth)]
        for _ in range(chance.randint(1, 3)):
            sign = chance.choice(signs)
            if sign == "_" and not parts[-1].isalnum():
                sign = "*"
            parts += (sign, term(depth))
        return "".join(parts)

    return expression(0)


def outputs(source: str) -> Iterator[tuple[str, str]]:
    """Return (form, the visible text) of every form."""
    for message in [markdown.to_telegram(source)]:
        names = ("entities", "markdownv2", "html")
        yield from ((name, shown[0]) for name, shown in zip(names, forms(message), strict=True))
    yield "plain", markdown.markdown_to_plain(source)
    yield "whatsapp", whatsapp.parse(markdown.markdown_to_whatsapp(source)).text


def in_order(wanted: str, shown: str) -> bool:
    """Return whether all the characters stand one after another; the guards of WhatsApp do not
    count.
    """
    return wanted in shown.translate(GUARDS)


@pytest.mark.parametrize("context", CONTEXTS)
def test_t5_numbers_names_and_paths_arrive_in_markdown_of_every_kind(context: str) -> None:
    """[T3], [T5]: 200 in each context, in every form."""
    chance = random.Random(context)
    makers: tuple[Callable[[], str], ...] = (
        lambda: arithmetic(chance),
        lambda: chance.choice(NAMES),
        lambda: chance.choice(PATHS),
    )
    for number in range(200):
        wanted = [makers[(number + at) % 3]() for at in range(context.count("{}"))]
        if context in ("*{}*", "_{}_ and `code`", "**{}**", "__{}__"):
            wanted = [arithmetic(chance)]
        source = context.format(*wanted)
        for form, shown in outputs(source):
            for each in wanted:
                assert in_order(each, shown), (form, source, shown)


@pytest.mark.unmeasured
@settings(max_examples=300)
@given(
    st.lists(st.from_regex(r"\A[0-9a-z]{1,4}\Z"), min_size=2, max_size=6),
    st.sampled_from(("*", "**", "_", "__")),
    st.sampled_from(CONTEXTS),
)
def test_t5_a_marker_between_letters_or_digits_is_a_character(
    words: list[str], sign: str, context: str
) -> None:
    """[T5]: whatever stands around it."""
    wanted = sign.join(words)
    if sign in ("_", "__") and context.startswith("_"):
        return  # `_a__b_` is read from its outer markers
    source = context.replace("{}", wanted)
    for form, shown in outputs(source):
        assert in_order(wanted, shown), (form, source, shown)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("**a** 10<sup>6</sup>", "a 10⁶"),
        ("H<sub>2</sub>O and CO<sub>2</sub>", "H₂O and CO₂"),
        ("x<sup>n+1</sup>, 1<sup>st</sup>", "xⁿ⁺¹, 1ˢᵗ"),
        ("x<sup>a/b</sup>", "x^(a/b)"),
        ("x<sup>Q</sup> y<sub>Q</sub>", "x^Q y_Q"),
        ("<p>10<sup>6</sup> m<sup>a/b</sup></p>", "10⁶ m^(a/b)"),
        ("<sup>in small print here</sup>", "in small print here"),
    ],
)
def test_t5_raised_and_lowered_characters_stay_so(source: str, text: str) -> None:
    """[T3], [T5]: in the characters of Unicode, else with a sign."""
    assert markdown.to_telegram(source).text == text
    assert markdown.markdown_to_plain(source) == text


@pytest.mark.parametrize("text", [*(each["text"] for each in ORDINARY), *FURTHER])
def test_t2_an_ordinary_message_arrives_byte_for_byte(text: str) -> None:
    """[T2], [T3], [T5]: every visible character, in every form; no invisible one is added."""
    for form, shown in outputs(text):
        if form != "whatsapp":  # where nothing can be escaped, and plain text is left alone
            missing = Counter("".join(text.split())) - Counter("".join(shown.split()))
            assert not missing, (form, shown)
    for shape in ("whatsapp", "plain", "none"):
        converted = markdown.markdown_to_channel(text, shape)
        if not markdown.looks_like_markdown(text):
            assert converted == text
        assert not any(char in converted for char in "\u200a\u2060")


def test_t2_ordinary_messages_are_hardly_ever_markdown() -> None:
    """[T2]: none of them but lists of the kind ``1. x`` may be."""
    marked = [each["text"] for each in ORDINARY if markdown.looks_like_markdown(each["text"])]
    assert len(marked) <= 3, marked


@pytest.mark.parametrize(
    ("source", "bold"),
    [
        ("**注意：**请先保存", "注意："),
        ("这是**重要**的", "重要"),
        ("**서울**에서", "서울"),
        ("**กรุงเทพ**มหานคร", "กรุงเทพ"),
        ("**2*3*4**", "2*3*4"),
        ("**/help** – help", "/help"),
        ("**src/** – sources", "src/"),
        ("**.env** file", ".env"),
        ("**Yes**/**No**", "Yes"),
        ("**Step 1**(optional)", "Step 1"),
        ("**50%**!", "50%"),
        ("**+**", "+"),
        ("__bold__ text", "bold"),
        ("_**x**_", "x"),
    ],
)
def test_t5_bold_words_stay_bold(source: str, bold: str) -> None:
    """[T5]: the rules for characters cost no style that people write."""
    message = markdown.to_telegram(source)
    assert bold in [message.text[s.start : s.end] for s in message.spans if s.kind == "bold"]
