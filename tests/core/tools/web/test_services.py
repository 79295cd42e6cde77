"""Services that search: their requests, and that any response ends in results or a sentence."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from core.lib import encryption
from core.tools.web import services
from core.tools.web.services import Hit, Query, SearchError
from tests.core.tools.web.servers import answering, entry, service

KEY = "tvly-planted-0123456789"
WORDS = Query("mill prices", 3, "week")


def with_key(kind: str, **changed: Any) -> Any:
    """Return a service of a kind with a key."""
    return service(kind=kind, secrets=encryption.encrypt({"key": KEY}), **changed)


async def asked(info: Any, body: Any, query: Query = WORDS) -> tuple[web.Request, Any, list[Hit]]:
    """Search with a server that answers ``body``; return the request, its JSON and the results."""
    seen: list[tuple[web.Request, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request, await request.json() if request.can_read_body else None))
        return web.json_response(body)

    async with answering(answer) as url:
        found = await services.search(replace(info, base_url=url), query)
    [(request, sent)] = seen
    return request, sent, found.hits


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("List<String> if a < b and c > d", "List<String> if a < b and c > d"),
        ("<em class='x'>Mill</em><br/>&lt;div&gt; &amp; co", "Mill<div> & co"),
    ],
)
def test_only_tags_of_html_are_left_out(given: str, shown: str) -> None:
    assert services.plain(given, 200) == shown


async def test_v27_searxng_is_asked_for_json_with_the_filters_of_its_row() -> None:
    info = service(language="de", safe_search="strict")
    request, _, hits = await asked(info, {"results": [entry(1, publishedDate="2026-11-01")]})
    assert request.path == "/search"
    assert dict(request.query) == {
        "q": "mill prices", "format": "json", "time_range": "week", "language": "de",
        "safesearch": "2",
    }  # fmt: skip
    assert "Authorization" not in request.headers
    assert hits == [Hit("Page 1", "https://pages.example/1", "The words of page 1.", "2026-11-01")]


@pytest.mark.parametrize(
    ("key", "header"), [("token-1", "Bearer token-1"), ("ann:word", "Basic YW5uOndvcmQ=")]
)
async def test_v27_a_key_of_searxng_is_for_the_server_in_front_of_it(key: str, header: str) -> None:
    info = service(secrets=encryption.encrypt({"key": key}))
    request, _, _ = await asked(info, {"results": []}, Query("x"))
    assert request.headers["Authorization"] == header
    assert dict(request.query) == {"q": "x", "format": "json"}


async def test_v27_brave_gets_its_token_and_codes_of_languages_of_its_own() -> None:
    body = {"type": "search", "web": {"results": [
        {"url": "https://a.example/", "title": "A &amp; B", "description": "<strong>Mill</strong>"}
    ]}}  # fmt: skip
    info = with_key("brave", language="pt-BR", safe_search="moderate")
    request, _, hits = await asked(info, body)
    assert request.path == "/res/v1/web/search"
    assert request.headers["X-Subscription-Token"] == KEY
    assert dict(request.query) == {
        "q": "mill prices", "count": "3", "text_decorations": "false", "freshness": "pw",
        "search_lang": "pt-br", "safesearch": "moderate",
    }  # fmt: skip
    assert hits == [Hit("A & B", "https://a.example/", "Mill")]
    _, _, hits = await asked(with_key("brave"), {"type": "search", "query": {}})
    assert hits == [], "Brave leaves the list out when it found nothing"


async def test_v27_tavily_is_asked_by_post_with_its_key_in_the_header_alone() -> None:
    body = {"query": "x", "results": [{**entry(7), "score": 0.9}]}
    request, sent, hits = await asked(with_key("tavily"), body)
    assert (request.method, request.path) == ("POST", "/search")
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert sent == {"query": "mill prices", "max_results": 3, "time_range": "week"}
    assert hits[0].url == "https://pages.example/7"


async def test_v26_results_are_plain_bounded_text_with_addresses_that_can_be_opened() -> None:
    bad = [
        "javascript:alert(1)", "ftp://a.example", "https://", "https://u:p@a.example/", "/x", 7,
        "https://a.example/ b", "https://a.example/\u202e", "http://[::1", "https://" + "a" * 2100,
    ]  # fmt: skip
    listed: list[Any] = [
        *[entry(url=url) for url in bad],
        *[None, 1, "x", [], {}],
        entry(1, title="<b>One</b>\x00 \ud800" + "x" * 5000, content=["a"]),
        entry(1, title="Again"),
        entry(2, title=None, content="a\nb&lt;c" + "y" * 9000),
        entry(3), entry(4), entry(5),
    ]  # fmt: skip
    _, _, hits = await asked(service(), json.loads(json.dumps({"results": listed})))
    assert [hit.url[-1] for hit in hits] == ["1", "2", "3"], "each once, at most as many as asked"
    assert hits[0].title.startswith("One ")
    assert len(hits[0].title) == services.TITLE
    assert (hits[1].title, hits[0].snippet) == ("pages.example", "")
    assert hits[1].snippet.startswith("a b<c")
    assert len(hits[1].snippet) == services.SNIPPET


@pytest.mark.parametrize("kind", ["searxng", "brave", "tavily"])
@pytest.mark.parametrize(
    "body",
    [b"null", b"0", b'"x"', b"[]", b"{}", b'{"results": {}}', b'{"results": null, "web": []}',
     b'{"web": {"results": 3}, "results": "x"}', b"<html>", b"", b"{", b"\xff\xfe\x00", b"NaN",
     b"[" * 100_000, b'{"results":' * 20_000],
)  # fmt: skip
async def test_v26_rubbish_of_any_type_is_a_sentence(kind: str, body: bytes) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    async with answering(answer) as url:
        with pytest.raises(SearchError, match=r"The response is not what .* answers"):
            await services.search(with_key(kind, base_url=url), WORDS)


async def test_v26_a_response_is_read_up_to_a_limit_and_never_unpacked() -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b" " * 65_536)
                sent += 65_536
        except ConnectionError:
            return answer

    async def packed(request: web.Request) -> web.Response:
        return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    async with answering(endless) as url:
        with pytest.raises(SearchError, match="too long"):
            await services.search(service(base_url=url), WORDS)
    assert sent < 30_000_000
    async with answering(packed) as url:
        with pytest.raises(SearchError, match="compressed"):
            await services.search(service(base_url=url), WORDS)


async def test_v26_a_service_that_sends_a_byte_now_and_then_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "SECONDS", 0.3)

    async def slow(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"{")
        await asyncio.Event().wait()
        return answer

    async with answering(slow) as url:
        with pytest.raises(SearchError, match="did not answer within"):
            await services.search(service(base_url=url), WORDS)


async def test_v27_a_key_follows_no_redirect() -> None:
    seen = []

    async def away(request: web.Request) -> web.Response:
        seen.append(request.path)
        raise web.HTTPFound("/elsewhere")

    async with answering(away) as url:
        with pytest.raises(SearchError, match="redirects elsewhere"):
            await services.search(with_key("tavily", base_url=url), WORDS)
    assert seen == ["/search"]


REFUSED = [
    ("searxng", 403, "Add json to search.formats in its settings.yml"),
    ("searxng", 404, "enter it without /search"),
    ("searxng", 429, "limiter"),
    ("searxng", 401, "wants a key"),
    ("searxng", 500, "SearXNG answered with the error 500."),
    ("brave", 401, "Brave Search refuses the key"),
    ("brave", 422, "Brave Search refuses the key"),
    ("brave", 429, "fewer requests"),
    ("tavily", 401, "Tavily refuses the key. Copy it again from app.tavily.com."),
    ("tavily", 432, "The plan of this key is used up"),
    ("tavily", 503, "Tavily answered with the error 503."),
]


@pytest.mark.parametrize(("kind", "status", "words"), REFUSED)
async def test_v28_a_status_is_said_in_plain_words(kind: str, status: int, words: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, text=f"{KEY} is wrong")

    async with answering(answer) as url:
        with pytest.raises(SearchError) as caught:
            await services.search(with_key(kind, base_url=url), WORDS)
    assert words in str(caught.value)
    assert KEY not in str(caught.value)


async def test_v28_a_connection_that_fails_is_said_in_plain_words() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    async def nowhere(host: str, port: int) -> list[str]:
        raise OSError(f"{host} {port}")

    async with answering(answer) as url:
        port = url.rpartition(":")[2]
        tls = service(base_url=url.replace("http:", "https:"))
        with pytest.raises(SearchError, match="speaks no TLS"):
            await services.search(tls, WORDS)
        with pytest.raises(SearchError, match="inside the network"):
            await services.search(service(base_url=url, allow_private=False), WORDS)
    for base_url, words in (
        (f"http://127.0.0.1:{port}", "Nothing listens at"),
        ("http://searx.example", "There is no server of the name searx.example"),
        ("http://169.254.169.254", "inside the network"),
        ("", "An address is needed"),
        ("searx.example", "An address begins with http"),
    ):
        with pytest.raises(SearchError, match=words):
            await services.search(service(base_url=base_url), WORDS, resolve=nowhere)


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        ({}, "Tavily wants a key"),
        ({"key": "a b"}, "space"),
        ({"key": "a\nb"}, "line break"),
        ({"key": "schlüssel"}, "character"),
        ({"key": "k" * 5000}, "too long"),
    ],
)
async def test_v28_a_key_that_cannot_be_sent_is_refused_before(
    secrets: dict[str, str], words: str
) -> None:
    info = service(kind="tavily", secrets=encryption.encrypt(secrets))
    with pytest.raises(SearchError, match=words):
        await services.search(info, WORDS)


async def test_v28_a_key_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(SearchError, match="cannot be opened"):
        await services.search(service(kind="brave", secrets="rubbish"), WORDS)


async def test_v28_engines_that_are_silent_are_named() -> None:
    silent = [["google", "CAPTCHA"], "bing", 7, ["<b>x</b>"], [None]]

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"results": [], "unresponsive_engines": silent})

    async with answering(answer) as url:
        found = await services.search(service(base_url=url), WORDS)
    assert found.silent == ("google: CAPTCHA", "bing", "x")
