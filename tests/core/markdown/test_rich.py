"""Rich messages of the Bot API: each is well-formed, and no word is lost ([C13])."""

import os
import re
from collections import Counter
from typing import Any

import pytest

from core.markdown import live_view, split, to_rich
from tests.channels_app.telegram import rich

from . import texts

GENERATED = int(os.environ.get("GENERATED_TEXTS", "4000")) // 2
BLANKS = re.compile(r"\s+")


def text_of(source: str, *, is_long: bool = True) -> str | None:
    """Return the text of the rich message, after a check of its form; None without one."""
    blocks = to_rich(source, is_long=is_long)
    return rich.check({"blocks": blocks}) if blocks is not None else None


def types(source: str) -> list[str]:
    return [block["type"] for block in to_rich(source) or ()]


@pytest.mark.unmeasured
@pytest.mark.sampled
def test_c13_generated_texts_are_well_formed_and_lose_no_word() -> None:
    shown = 0
    for seed in range(GENERATED):
        if seed % 4 == 3:
            text_of(texts.noise(seed))
            continue
        generated = texts.well_formed(seed * 2)
        text = text_of(generated.source)
        if text is None:
            continue
        shown += 1
        for word, count in Counter(generated.words).items():
            assert text.count(word) >= count, (word, generated.source)
    assert shown > GENERATED // 3


@pytest.mark.unmeasured
@pytest.mark.sampled
def test_c13_unfinished_texts_are_well_formed() -> None:
    for seed in range(0, GENERATED // 10, 2):
        source = texts.well_formed(seed).source
        for end in range(0, len(source), 7):
            text_of(live_view(source[:end]))


def test_c13_blocks_of_markdown_are_telegrams_own() -> None:
    source = """Title
=====

### Sub *title*

1. one
2. two
   - [x] done
   - [ ] open

> [!NOTE]
> Mind **this**.

| a | b |
|:-:|--:|
| `x` | [y](https://example.org/y) |
| z |

```py
print(10*20)
```
---
<details><summary>More</summary>

Hidden 2**10

</details>
"""
    assert types(source) == [
        "heading", "heading", "list", "blockquote", "table", "pre", "divider", "details"
    ]  # fmt: skip
    blocks: list[dict[str, Any]] = to_rich(source) or []
    assert [blocks[0]["size"], blocks[1]["size"]] == [1, 3]
    assert [item["value"] for item in blocks[2]["items"]] == [1, 2]
    tasks = blocks[2]["items"][1]["blocks"][1]["items"]
    assert [item["is_checked"] for item in tasks] == [True, False]
    assert [cell["align"] for cell in blocks[4]["cells"][0]] == ["center", "right"]
    assert "text" not in blocks[4]["cells"][2][1]
    assert blocks[5] == {"type": "pre", "text": "print(10*20)", "language": "py"}
    assert blocks[7]["summary"] == "More"
    text = text_of(source) or ""
    assert "Hidden 2**10" in text
    assert "Note:\nMind this." in text


@pytest.mark.parametrize(
    "source",
    [
        "",
        "plain",
        "**bold** and `code`",
        "```\ncode\n```",
        "> a quote",
        "a | b",
        "---",
        "- ",
        "|" + "a|" * 21 + "\n|" + "-|" * 21,
        "\n".join("- item" for _ in range(300)),
        "# " + "x" * 33_000,
        "> " * 20 + "- x",
        "- <details>\n\nx\n\n</details>\n\n# y",
        "x " * 5000,
    ],
    ids=lambda source: repr(source[:12]),
)
def test_c13_other_texts_are_none(source: str) -> None:
    """Without structure, over a limit, or with a container that ends in another one."""
    assert to_rich(source, is_long=len(split(source)) > 1) is None


def test_c13_a_long_text_with_markup_is_one_message() -> None:
    source = "\n\n".join(f"**{number}** " + "word " * 100 for number in range(20))
    assert len(split(source)) > 1
    text = text_of(source) or ""
    assert BLANKS.sub("", text) == BLANKS.sub("", source.replace("**", ""))
