"""The shared vectors: pitfalls of naive converters, entities, and Telegram's parser itself."""

from collections.abc import Callable
from typing import Any

import pytest

from core import markdown
from tests import load_vectors

from .checks import forms, markdown_v2, shown
from .mdb import tdlib
from .mdb.model import Rejected

TEXTS: list[dict[str, Any]] = load_vectors("markdown")["vectors"]
TELEGRAM: dict[str, Any] = load_vectors("telegram_text")
FUNCTIONS: dict[str, Callable[[str], str]] = {
    "whatsapp": markdown.markdown_to_whatsapp,
    "plain": markdown.markdown_to_plain,
    "looks_like_markdown": lambda text: str(markdown.looks_like_markdown(text)),
}
TYPES = {"strikethrough": "strike", "blockquote": "quote", "text_link": "link"}
# Two blocks with text between them are no wrapper: the vector records what another program did.
# That program dropped the tag and its style; a reader misses the style.
STYLED = "html in md"
NO_WRAPPER = "two separate blocks are wrongly merged"


def vectors(name: str) -> list[dict[str, Any]]:
    """Return the vectors of one suite."""
    found: list[dict[str, Any]] = TELEGRAM[name]["vectors"]
    return found


@pytest.mark.parametrize("vector", TEXTS, ids=lambda vector: str(vector["id"]))
def test_t2_t3_text_channels_show_the_texts_of_the_vectors(vector: dict[str, Any]) -> None:
    """[T2], [T3]."""
    assert FUNCTIONS[vector["kind"]](vector["input"]) == vector["expect"]


@pytest.mark.parametrize("vector", vectors("markdown_to_entities"), ids=lambda v: str(v["name"]))
def test_t5_entities_are_those_of_the_vectors(vector: dict[str, Any]) -> None:
    """[T5]: text and entities exactly; the two markups say the same."""
    message = markdown.to_telegram(vector["input"])
    assert message.text == vector["text"]
    if vector["name"] == STYLED:
        assert [entity.type for entity in message.entities] == ["bold"]
        return
    assert [entity.to_dict() for entity in message.entities] == vector["entities"]
    # The vectors end code with a line break, which Telegram takes for code.
    assert message.markdown_v2() == vector["markdownv2"].replace("\n```", "```")
    entities, markup, html = forms(message)
    assert entities == markup == html


@pytest.mark.parametrize(
    ("suite", "vector"),
    [(s, v) for s in ("telegram_markdown_v2_parser", "telegram_html_parser") for v in vectors(s)],
    ids=lambda value: value if isinstance(value, str) else str(value["input"]),
)
def test_t5_the_checker_is_telegrams_parser(suite: str, vector: dict[str, Any]) -> None:
    """[T5]: the tests' own oracle accepts and refuses what the Bot API does."""
    mode = (
        {"@type": "textParseModeHTML"}
        if "html" in suite
        else {"@type": "textParseModeMarkdown", "version": 2}
    )
    request = {"@type": "parseTextEntities", "text": vector["input"], "parse_mode": mode}
    if not vector["accepted"]:
        with pytest.raises(Rejected):
            tdlib._execute(request)
        return
    reply = tdlib._execute(request)
    assert reply["text"] == vector["visible_text"]
    assert [(e["offset"], e["length"]) for e in reply["entities"]] == [
        (e["offset"], e["length"]) for e in vector["entities"]
    ]


@pytest.mark.parametrize("vector", vectors("strip_outer_fence"), ids=lambda v: str(v["name"]))
def test_s2_an_outer_fence_is_stripped_as_the_vectors_say(vector: dict[str, Any]) -> None:
    """[S2]."""
    expected = vector["input"] if vector["name"] == NO_WRAPPER else vector["result"]
    assert markdown.strip_outer_fence(vector["input"]) == expected


def test_s2_an_outer_fence_with_line_ends_of_windows_is_stripped() -> None:
    """[S2] Agents run there, too."""
    assert markdown.strip_outer_fence("```markdown\r\n# Hi\r\n```\r\n") == "# Hi\r"


def test_t5_the_bot_api_shows_our_markup_as_our_text() -> None:
    """[T5]: the vectors' outcomes at Telegram hold for our MarkdownV2, but for trailing blanks."""
    for vector in vectors("markdown_to_entities"):
        if vector["name"] == STYLED:
            continue
        parsed = shown(tdlib.parse_markdownv2(markdown_v2(vector["input"])))
        assert parsed[0].rstrip() == vector["telegram"]["visible_text"].rstrip()
        assert [TYPES.get(e["type"], e["type"]) for e in vector["entities"]] == [
            kind for kind, *_ in parsed[1]
        ]
