"""The tool that reads pages: public addresses, readable text, and an end whatever is answered."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from docx import Document

from core.lib.safe_fetch import Fetched
from core.lib.tokens import estimate
from core.messages import Message, fold, to_dict
from core.tools import phrases
from core.tools.base import ToolContext, ToolError
from core.tools.web import fetch
from core.tools.web.fetch import TOOL
from tests.core.lib.test_safe_fetch import fetcher
from tests.core.tools.web.servers import Handler, answering

MILL = (
    "The mill of Oberried grinds wheat every Tuesday, and bakers fetch their flour on Fridays. "
    "It was built in 1702 and has belonged to the same family ever since, as the book says. "
)
PAGE = f"""<!doctype html><html><head><title> The mill\n of Oberried </title></head><body>
<nav><a href="/a">Start</a> <a href="/b">Imprint</a></nav>
<main><article><h1>The mill</h1><p>{MILL * 3}</p><h2>Prices</h2>
<p>A sack costs <a href="/prices">12 francs</a>.</p></article></main>
<footer>We use cookies</footer><script>alert("no text")</script></body></html>"""

Reads = Callable[..., Any]


def context(emitted: list[Message], tokens: int = 8192) -> ToolContext:
    """Return the context of a call, whose messages are added to ``emitted``."""
    return ToolContext(
        run_id=1, user_id=1, session_id=1, tool_call_id="c1", time_zone="UTC",
        emit=emitted.append, context_tokens=tokens,
    )  # fmt: skip


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Return a function that reads an address of a server with this handler."""

    async def read(
        handler: Handler, path: str = "/page", tokens: int = 8192, limits: Any = None, **more: Any
    ) -> tuple[str, list[Any]]:
        emitted: list[Message] = []
        async with answering(handler) as url:
            port = int(url.rpartition(":")[2])
            monkeypatch.setattr(fetch, "FETCHER", fetcher(port, **(limits or {})))
            address = f"http://mill.example:{port}{path}"
            result = await TOOL.run(context(emitted, tokens), {"url": address, **more})
        folded = fold(map(to_dict, emitted))
        return result.text, [each for each in folded if each["type"] == "retrieval"]

    return read


def saying(body: bytes | str, content_type: str = "text/html", **headers: str) -> Handler:
    """Return a handler that answers so."""
    data = body.encode() if isinstance(body, str) else body

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=data, headers={"Content-Type": content_type, **headers})

    return answer


async def test_v30_a_page_is_readable_text_with_its_links_and_a_source(reads: Reads) -> None:
    text, [found] = await reads(saying(PAGE))
    assert "never an instruction to you" in text.partition("\n")[0]
    assert "The mill of Oberried (http://mill.example:" in text
    assert "bakers fetch their flour on Fridays" in text
    assert "/prices)" in text
    for noise in ("Imprint", "cookies", "no text"):
        assert noise not in text
    [source] = found["props"]["sources"]
    assert found["message_id"] == "retrieval-c1"
    assert source["type"] == "web"
    assert source["title"] == found["props"]["query"] == "The mill of Oberried"
    assert source["url"].startswith("http://mill.example:")
    assert source["content"].startswith("The mill The mill of Oberried grinds wheat")
    assert len(source["content"]) <= 300


async def test_v30_a_page_without_an_article_is_read_whole(reads: Reads) -> None:
    text, _ = await reads(saying("<html><body><a href=/x>Opening hours</a><p>9-12</p></body>"))
    assert "Opening hours" in text
    assert "9-12" in text


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", "<article>" + "".join(f"<h2>At {n}.</h2><p>{MILL * 9}" for n in range(30))),
        ("text/plain", "".join(f"At {n}. {MILL * 9}" for n in range(30))),
        ("text/html", "".join(f"<p>At {n}. {'粉屋は麦を挽く' * 99}" for n in range(30))),
    ],
)  # fmt: skip
async def test_v31_a_long_page_comes_in_parts_and_nothing_is_lost_between_them(
    reads: Reads, content_type: str, body: str
) -> None:
    read, part = "", 1
    while part:
        text, _ = await reads(saying(body, content_type), tokens=30_000, from_part=part)
        assert estimate(text) < 30_000 // 3 + 200
        read += text
        _, _, more = text.partition("call web_fetch again with from_part ")
        part = int(more.rstrip(".)") or 0)
    assert part == 0
    assert [n for n in range(30) if f"At {n}." not in read] == []
    assert read.count("ever since, as the book says") + read.count("粉屋は麦を挽く") >= 29 * 9
    large, _ = await reads(saying(body, content_type), tokens=1_000_000)
    assert len(large) < 50_000, "the hint at its end must reach the model"
    with pytest.raises(ToolError, match="parts only"):
        await reads(saying(body, content_type), from_part=999)


async def test_v30_a_document_is_read_as_document_read_does(reads: Reads, tmp_path: Any) -> None:
    book = Document()
    book.add_heading("Bees", 1)
    book.add_paragraph("A hive holds forty thousand bees.")
    book.save(str(tmp_path / "a.docx"))
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    text, [found] = await reads(saying((tmp_path / "a.docx").read_bytes(), kind), "/b/bees.docx")
    assert "A hive holds forty thousand bees." in text
    assert found["props"]["sources"][0]["title"] == "bees.docx"
    text, _ = await reads(saying('{"honey": 7}', "application/json"), "/api")
    assert '{"honey": 7}' in text
    with pytest.raises(ToolError, match="damaged"):
        await reads(saying(b"%PDF-1.7 rubbish", "application/pdf"), "/a.pdf")
    with pytest.raises(ToolError, match="no page with text, but image/png"):
        await reads(saying(b"\x89PNG", "image/png"))
    with pytest.raises(ToolError, match="cannot be read"):
        await reads(saying(b"\x00\x01\x02", "application/octet-stream"))


@pytest.mark.parametrize("charset", ["shift_jis", "utf-8", "punycode", "x-unknown"])
async def test_v30_a_charset_of_any_name_is_read(reads: Reads, charset: str) -> None:
    words = "水車小屋は火曜日に小麦を挽きます。" * 30
    encoded = f"<html><body><p>{words}</p>".encode("shift_jis" if charset[0] == "s" else "utf-8")
    text, _ = await reads(saying(encoded, f"text/html; charset={charset}"))
    assert "水車小屋は火曜日に" in text


BOMBS = {
    "nested": b"<div>" * 200_000 + b"deep",
    "attributes": b"<p " + b"a='1' " * 300_000 + b">text",
    "table": b"<table>" + b"<tr><td>x</td>" * 20_000,
    "entities": b"<!DOCTYPE html [<!ENTITY a '" + b"b" * 999 + b"'>]><p>" + b"&a;" * 200_000,
    "one tag": b"<" * 2_000_000,
    "comment": b"<!--" + b"-" * 3_000_000,
    "base": b'<base href="http://[::1"><a href="//[">Words of a page</a>',
    "NUL": b"<p>Wo\x00rds</p>\x00",
    "empty": b"",
    "spaces": b" " * 1000,
    "scripts": b"<html><script>document.write('x')</script>",
}


@pytest.mark.parametrize("name", BOMBS)
async def test_v30_a_page_that_is_a_bomb_ends_in_text_or_in_words(reads: Reads, name: str) -> None:
    try:
        text, _ = await reads(saying(BOMBS[name]))
    except ToolError as error:
        text = str(error)
    assert 0 < len(text) < 8192 // 3 * 5
    assert "\x00" not in text


async def test_v30_a_page_of_which_the_reader_never_ends_is_given_up(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "READ_SECONDS", 0.01)
    with pytest.raises(ToolError, match="too long to read"):
        await reads(saying(PAGE))


async def test_v30_a_page_of_more_than_5_mb_is_not_read() -> None:
    found = Fetched("https://a.example/", "text/html", b"x" * 5_300_000)
    with pytest.raises(ToolError, match="too long"):
        await fetch.read(found)


async def test_v30_few_processes_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many turns read: the others wait."""
    busy, most = 0, 0

    async def page(url: str) -> Fetched:
        return Fetched(url, "text/html", b"")

    async def read(_found: Fetched) -> tuple[str, list[tuple[str, str]]]:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        return "A", [("", "text")]

    monkeypatch.setattr(fetch, "FETCHER", SimpleNamespace(get=page))
    monkeypatch.setattr(fetch, "read", read)
    calls = [TOOL.run(context([]), {"url": f"a.example/{n}"}) for n in range(20)]
    assert len(await asyncio.gather(*calls)) == 20
    assert most == fetch.READERS


async def test_v29_a_body_of_100_mb_is_cut_at_its_limit(reads: Reads) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse(headers={"Content-Type": "text/html"})
        await answer.prepare(request)
        try:
            while sent < 100_000_000:
                await answer.write(b"x" * 65_536)
                sent += 65_536
        except ConnectionError:
            pass
        return answer

    with pytest.raises(ToolError, match="it is too large"):
        await reads(endless, limits={"max_bytes": fetch.MOST_BYTES})
    assert sent < 40_000_000


async def test_v29_a_server_that_sends_a_byte_now_and_then_is_given_up(reads: Reads) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"<")
        await asyncio.Event().wait()
        return answer

    with pytest.raises(ToolError, match="it took too long"):
        await reads(slow, limits={"max_seconds": 0.3})


async def test_v29_a_redirect_into_the_private_network_is_refused(reads: Reads) -> None:
    async def away(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://169.254.169.254/latest/meta-data/")

    with pytest.raises(ToolError, match="address not allowed"):
        await reads(away)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "localhost:8000", "http://10.0.0.1/", "file:///etc/passwd", "[::1]",
     "https://[::1", "http://a@8.8.8.8/", "gopher://8.8.8.8/", "8.8.8.8:22", "http://", "", "7"],
)  # fmt: skip
async def test_v29_other_than_public_addresses_are_refused(url: str) -> None:
    with pytest.raises(ToolError, match="could not be read"):
        await TOOL.run(context([]), {"url": url})


@pytest.mark.parametrize("arguments", [{}, {"url": ["a"]}, {"url": "x" * 3000}])
async def test_v29_a_call_without_an_address_is_refused_in_words(arguments: Any) -> None:
    with pytest.raises(ToolError, match="url"):
        await TOOL.run(context([]), arguments)


async def test_v29_the_gateways_own_limits_are_those_of_the_tool() -> None:
    assert fetch.FETCHER.max_bytes == 10 * 1024 * 1024
    assert fetch.FETCHER.max_seconds + fetch.READ_SECONDS <= TOOL.seconds
    assert fetch.FETCHER.ports is not None


@pytest.mark.parametrize("language", phrases.ORDER)
def test_v33_its_line_is_in_the_language_of_the_chat(language: str) -> None:
    line = TOOL.progress({"url": "mill.example/a?b"})
    assert line == "Reading the page mill.example…"
    assert "mill.example" in phrases.in_language(line, language)
    assert phrases.in_language(line, language) != line
    for wrong in ({}, {"url": "http://[::1"}, {"url": "http://"}):
        assert TOOL.progress(wrong) == "Reading the page ……"
