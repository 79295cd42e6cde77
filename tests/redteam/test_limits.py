"""The table of limits in ``docs/security.md`` is what the settings say; each is documented."""

import ast
import asyncio
import re
from typing import Any

import pytest

from channels_app.asgi import chat_messages
from channels_app.asgi.http import RefusedError
from core.lib.safe_fetch import Fetched
from gateway_project.home import BASE_DIR
from tests.core.lib.test_small_functions import PIXEL

SECURITY = BASE_DIR / "docs" / "security.md"
SETTINGS = BASE_DIR / "docs" / "settings.md"
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20}
LIMIT = re.compile(r"`([A-Z_]+)` ([\d,]+)(?: (KiB|MiB))?")
SECTION = "# Limits of the endpoints."


def numbers() -> dict[str, int]:
    """Return every number that the environment may set, and its default."""
    tree = ast.parse((BASE_DIR / "gateway_project" / "settings.py").read_text())
    return {
        str(ast.literal_eval(call.args[0])): value_of(call.args[1])
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "number"
    }


def value_of(node: ast.expr) -> int:
    """Return a number, a product of numbers, or the first of two alternatives."""
    if isinstance(node, ast.IfExp):
        return value_of(node.body)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return value_of(node.left) * value_of(node.right)
    value = ast.literal_eval(node)
    assert isinstance(value, int)
    return value


def rows() -> list[list[str]]:
    """Return the cells of the table of limits."""
    text = SECURITY.read_text().split("\n## Limits")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_row_names_a_setting_and_its_default() -> None:
    """A limit that is no setting, or whose default has moved, fails here."""
    known = numbers()
    assert len(rows()) > 25
    for endpoint, what, limit, then in rows():
        found = LIMIT.findall(limit)
        assert found, (endpoint, what, then)
        assert len(found) == limit.count("`") // 2, limit
        for name, number, unit in found:
            assert known.get(name) == int(number.replace(",", "")) * UNITS[unit], name


def test_every_limit_of_an_endpoint_has_a_row() -> None:
    """A new setting beside the others is a new row. The heartbeat interval is not a limit."""
    source = (BASE_DIR / "gateway_project" / "settings.py").read_text()
    section = source.split(SECTION)[1].split("\n\n")[0]
    named = set(re.findall(r'env\.number\(\s*"([A-Z_]+)"', section)) - {"HEARTBEAT_SECONDS"}
    in_table = {name for row in rows() for name, _, _ in LIMIT.findall(row[2])}
    assert named - in_table == set()
    assert len(named) > 20


def test_every_number_that_can_be_set_is_documented() -> None:
    """In ``docs/settings.md``."""
    text = SETTINGS.read_text()
    assert [name for name in numbers() if f"`{name}`" not in text] == []


def with_pictures(count: int) -> list[dict[str, Any]]:
    """Return a message that names pictures elsewhere."""
    part = {"type": "image_url", "image_url": {"url": "https://pictures.example/a.png"}}
    return [{"role": "user", "content": [{"type": "text", "text": "look"}, *[part] * count]}]


async def test_ro5_named_pictures_are_no_more_than_sent_ones(settings: Any) -> None:
    """[RO5] A short request must not make us hold sixteen large pictures."""
    settings.MAX_BODY_BYTES = 5_000
    asked: list[str] = []

    async def get(url: str) -> Fetched:
        asked.append(url)
        return Fetched(url=url, content_type="image/png", body=PIXEL + b"x" * 2_000)

    with pytest.raises(RefusedError) as caught:
        await chat_messages.fetch_pictures(chat_messages.checked(with_pictures(16)), get=get)
    assert caught.value.status == 413
    assert len(asked) == 2
    with pytest.raises(RefusedError) as caught:
        chat_messages.checked(with_pictures(settings.MAX_ATTACHMENTS + 1))
    assert caught.value.status == 413


async def test_ro5_pictures_that_do_not_come_are_not_waited_for(settings: Any) -> None:
    """[RO5]"""
    settings.BODY_SECONDS = 0.05

    async def get(url: str) -> Fetched:
        await asyncio.Event().wait()
        raise AssertionError(url)

    with pytest.raises(RefusedError) as caught:
        await chat_messages.fetch_pictures(chat_messages.checked(with_pictures(1)), get=get)
    assert caught.value.status == 400
