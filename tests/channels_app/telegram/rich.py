"""Rich messages as the Bot API 10.2 takes them: the form of each block, the limits, the text.

Source: https://core.telegram.org/bots/api#inputrichblock
"""

from collections.abc import Callable, Iterator
from typing import Any

Params = dict[str, Any]
STYLES = {"bold", "italic", "underline", "strikethrough", "spoiler", "code"}
CHARACTERS, BLOCKS, LEVELS, COLUMNS = 32_768, 500, 16, 20


class InvalidError(Exception):
    """Telegram would refuse the message."""


def require(condition: object, words: str) -> None:
    if not condition:
        raise InvalidError(words)


def check(message: Params) -> str:
    """Return the text of an ``InputRichMessage``, a block in each line. Raises InvalidError."""
    require(set(message) == {"blocks"}, f"exactly one form: {set(message)}")
    blocks = message["blocks"]
    require(isinstance(blocks, list) and blocks, "RICH_MESSAGE_CONTENT_REQUIRED")
    counted = sum(1 for _ in nested(blocks))
    require(counted <= BLOCKS, f"{counted} blocks")
    lines = [line for block in blocks for line in lines_of(block, 1)]
    text = "\n".join(line for line in lines if line)
    require(text.strip(), "RICH_MESSAGE_CONTENT_REQUIRED")
    require(sum(map(len, lines)) <= CHARACTERS, "too long")
    return text


def nested(blocks: list[Params]) -> Iterator[Params]:
    """Yield the blocks as they are counted: with items and rows."""
    for block in blocks:
        yield block
        yield from nested(block.get("blocks", []))
        for item in block.get("items", []):
            yield item
            yield from nested(item["blocks"])
        for row in block.get("cells", []):
            yield {"row": row}


def fields(block: Params, required: set[str], optional: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    given = set(block) - {"type"}
    require(required <= given, f"Can't find field {required - given}")
    require(given <= required | optional, f"unknown field {given - required - optional}")


def lines_of(block: Params, level: int) -> list[str]:
    """Return the lines of a block after a check of its form."""
    require(level <= LEVELS, f"{level} levels")
    require(block.get("type") in FORMS, f"block type {block.get('type')}")
    return FORMS[block["type"]](block, level)


def text_of(given: Any, level: int) -> str:
    """Return a RichText's letters: a string, a list, or a style around another text."""
    require(level <= LEVELS, f"{level} levels")
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        require(given, "empty list of texts")
        return "".join(text_of(each, level) for each in given)
    require(isinstance(given, dict), f"Unsupported rich text {given!r}")
    if given.get("type") == "url":
        fields(given, {"text", "url"})
        require(str(given["url"]).partition(":")[0] in {"http", "https", "tg"}, given["url"])
    else:
        require(given.get("type") in STYLES, f"Unsupported rich text type {given.get('type')}")
        fields(given, {"text"})
    inner = text_of(given["text"], level + 1)
    require(inner, "a style of nothing")
    return inner


def paragraph(block: Params, level: int) -> list[str]:
    fields(block, {"text"})
    return [text_of(block["text"], level)]


def heading(block: Params, level: int) -> list[str]:
    fields(block, {"text", "size"})
    require(block["size"] in range(1, 7), "size")
    return [text_of(block["text"], level)]


def pre(block: Params, level: int) -> list[str]:
    fields(block, {"text"}, {"language"})
    return [text_of(block["text"], level)]


def divider(block: Params, level: int) -> list[str]:
    del level
    fields(block, set())
    return ["———"]


def quote(block: Params, level: int) -> list[str]:
    fields(block, {"blocks"})
    return inside(block, level)


def details(block: Params, level: int) -> list[str]:
    fields(block, {"blocks", "summary"})
    return [text_of(block["summary"], level), *inside(block, level)]


def inside(block: Params, level: int) -> list[str]:
    require(block["blocks"], "RICH_MESSAGE_CONTENT_REQUIRED")
    return [line for each in block["blocks"] for line in lines_of(each, level + 1)]


def items(block: Params, level: int) -> list[str]:
    fields(block, {"items"})
    require(block["items"], "a list without items")
    found: list[str] = []
    for item in block["items"]:
        require("blocks" in item, "Can't find field blocks")
        known = {"blocks", "has_checkbox", "is_checked", "value", "type"}
        require(set(item) <= known, f"unknown field {set(item) - known}")
        require(item.get("type", "1") == "1", "type of a number")
        head = f"{item['value']}. " if "value" in item else "• "
        if item.get("has_checkbox"):
            head += "☑ " if item["is_checked"] else "☐ "
        first, *rest = inside(item, level + 1)
        found += [head + first, *rest]
    return found


def table(block: Params, level: int) -> list[str]:
    fields(block, {"cells"}, {"is_bordered", "is_striped", "caption"})
    found = []
    for row in block["cells"]:
        require(0 < len(row) <= COLUMNS, f"{len(row)} columns")
        for cell in row:
            require({"align", "valign"} <= set(cell), "Can't find field align")
            require(set(cell) <= {"align", "valign", "text", "is_header"}, "unknown field")
            require(cell["align"] in {"left", "center", "right"}, cell["align"])
            require(cell["valign"] in {"top", "middle", "bottom"}, cell["valign"])
        found.append(" | ".join(text_of(cell.get("text", ""), level) for cell in row))
    return found


FORMS: dict[str, Callable[[Params, int], list[str]]] = {
    "paragraph": paragraph,
    "heading": heading,
    "pre": pre,
    "divider": divider,
    "blockquote": quote,
    "details": details,
    "list": items,
    "table": table,
}
