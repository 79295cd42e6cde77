"""Services that search the web: SearXNG, Brave Search and Tavily.

One small request, to allowed addresses only, without redirects, bounded in bytes and seconds.
Replies are foreign: whatever their form, the outcome is results or a SearchError. Sources:
docs.searxng.org/dev/search_api, api-dashboard.search.brave.com/api-reference/web/search/get and
docs.tavily.com/documentation/api-reference/endpoint/search.
"""

import asyncio
import base64
import json
import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
import orjson

from core.lib.encryption import DecryptError, decrypt
from core.lib.safe_fetch import AGENT, RefusedAddressError, Resolve, body_within, by_system
from core.lib.text import one_line
from core.models import SearchProvider
from core.providers import addresses
from core.providers.catalogue import SearchInfo
from core.providers.redaction import hide
from core.providers.vendors import problem_of_form

Kind = SearchProvider.Kind
SECONDS = 10.0  # of one service
MOST_BYTES = 2 * 1024 * 1024
MOST_WORDS = 400  # characters of a query, as Brave and Tavily take them
MOST_RESULTS = 10
TITLE, SNIPPET, ADDRESS, DAY = 200, 600, 2000, 40  # characters
VENDORS = {
    Kind.BRAVE: "https://api.search.brave.com",
    Kind.TAVILY: "https://api.tavily.com",
}
KEY_PAGES = {
    Kind.BRAVE: "api-dashboard.search.brave.com",
    Kind.TAVILY: "app.tavily.com",
}
FRESH = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
STRICTNESS = {"off": "0", "moderate": "1", "strict": "2"}
# Brave's codes where they are not those of ISO 639.
BRAVE_LANGUAGES = {"ja": "jp", "zh": "zh-hans", "zh-cn": "zh-hans", "zh-tw": "zh-hant",
                   "pt": "pt-pt", "pt-br": "pt-br", "en-gb": "en-gb"}  # fmt: skip
# Of HTML only: some services answer plain text, where List<String> and a < b are words.
TAG = re.compile(
    r"</?(?:abbr|[abipu]|br|code|div|em|font|h[1-6]|img|li|mark|small|span|strong|su[bp])"
    r"(?:\s[^<>]{0,100})?/?>",
    re.IGNORECASE,
)


class SearchError(Exception):
    """The service did not search; the text is a sentence without the key."""


@dataclass(frozen=True, slots=True)
class Query:
    """The words of a search; ``since``: day, week, month, year, or empty for any time."""

    words: str
    most: int = 5
    since: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One result, as plain text of bounded length; ``url`` is an http(s) address."""

    title: str
    url: str
    snippet: str
    published: str = ""


@dataclass(frozen=True, slots=True)
class Hits:
    """The results of a service. ``silent``: its engines that did not answer."""

    hits: list[Hit]
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a service: a POST where it has a ``body``."""

    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A service's response."""

    status: int
    body: bytes
    is_packed: bool


def label(kind: str) -> str:
    """Return the name of a kind, for people."""
    return dict(Kind.choices).get(kind, kind)


async def search(info: SearchInfo, query: Query, *, resolve: Resolve = by_system) -> Hits:
    """Return what a service finds. Takes at most SECONDS. Raises SearchError."""
    try:
        key = decrypt(info.secrets).get("key", "")
    except DecryptError:
        raise SearchError(
            "The key cannot be opened: the gateway's own key was changed. Enter it again."
        ) from None
    if wrong := problem_of_key(info.kind, key) or problem_of_address(info):
        raise SearchError(wrong)
    request = request_of(info, key, query)
    try:
        reply = await exchanged(info, request, resolve)
        return hits_of(info, reply, query.most)
    except SearchError as error:
        raise SearchError(hide(str(error), key)) from None


def problem_of_key(kind: str, key: str) -> str:
    """Return what is wrong with a key, as a sentence without it; empty for nothing."""
    if not key:
        return f"{label(kind)} wants a key." if kind in VENDORS else ""
    return problem_of_form(key)


def problem_of_address(info: SearchInfo) -> str:
    """Return what is wrong with the form of a service's address, as a sentence."""
    if not info.base_url and info.kind not in VENDORS:
        return "An address is needed, for example http://192.168.1.5:8080"
    return addresses.problem_of_form(address_of(info))


def address_of(info: SearchInfo) -> str:
    """Return the address that requests are built on: the row's, else the vendor's."""
    given = info.base_url.strip().rstrip("/")
    return given.removesuffix("/search").rstrip("/") or VENDORS.get(Kind(info.kind), "")


def request_of(info: SearchInfo, key: str, query: Query) -> Request:
    base = address_of(info)
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": AGENT}
    if info.kind == Kind.TAVILY:
        asked: dict[str, Any] = {"query": query.words, "max_results": query.most}
        if query.since:
            asked["time_range"] = query.since
        headers |= {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        return Request(f"{base}/search", headers, orjson.dumps(asked))
    if info.kind == Kind.BRAVE:
        headers["X-Subscription-Token"] = key
        return Request(f"{base}/res/v1/web/search?{filled(for_brave(info, query))}", headers)
    if key:
        headers["Authorization"] = authorization(key)
    return Request(f"{base}/search?{filled(for_searxng(info, query))}", headers)


def filled(fields: dict[str, str]) -> str:
    """Return the parameters of a request that have a value, for an address."""
    return urlencode({name: value for name, value in fields.items() if value})


def for_brave(info: SearchInfo, query: Query) -> dict[str, str]:
    short = info.language.lower()
    return {
        "q": query.words,
        "count": str(query.most),
        "text_decorations": "false",
        "freshness": FRESH.get(query.since, ""),
        "search_lang": BRAVE_LANGUAGES.get(short, short.partition("-")[0]),
        "safesearch": info.safe_search,
    }


def for_searxng(info: SearchInfo, query: Query) -> dict[str, str]:
    return {
        "q": query.words,
        "format": "json",
        "time_range": query.since,
        "language": info.language,
        "safesearch": STRICTNESS.get(info.safe_search, ""),
    }


def authorization(key: str) -> str:
    """Return the header for a server of one's own: ``name:password``, else a token."""
    if ":" in key:
        return f"Basic {base64.b64encode(key.encode()).decode()}"
    return f"Bearer {key}"


async def exchanged(info: SearchInfo, request: Request, resolve: Resolve) -> Reply:
    """Return the response to a request. Raises SearchError for a connection that failed."""
    parts = urlsplit(request.url)
    host = one_line(parts.netloc, 100)
    allowed = addresses.allowed_of(private=info.allow_private)
    try:
        async with (
            asyncio.timeout(SECONDS),
            addresses.session(allowed, resolve=resolve) as client,
            client.request(
                "GET" if request.body is None else "POST",
                request.url,
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
            ) as response,
        ):
            is_packed = response.headers.get("Content-Encoding", "identity") != "identity"
            body = b"" if is_packed else await body_within(response, MOST_BYTES)
            if body is None:
                raise SearchError("The response is too long for search results. Check the address.")
            return Reply(response.status, body, is_packed)
    except RefusedAddressError:
        words = "The address is inside the network. Allow that in its settings, if it is yours."
    except TimeoutError:
        words = f"{host} did not answer within {SECONDS:.0f} seconds."
    except aiohttp.ClientConnectorDNSError:
        words = f"There is no server of the name {host}. Check the address."
    except aiohttp.ClientSSLError:
        words = f"The certificate of {host} is not valid, or it speaks no TLS there."
    except aiohttp.ClientConnectorError:
        words = f"Nothing listens at {host}. Is the server running, and is the port right?"
    except (aiohttp.ClientError, OSError, ValueError):
        words = f"The connection to {host} broke off, or it does not speak HTTP."
    raise SearchError(words)


def hits_of(info: SearchInfo, reply: Reply, most: int) -> Hits:
    """Return the results in a response. Raises SearchError for any other response."""
    if reply.status != 200:
        raise SearchError(refusal(info.kind, reply.status))
    if reply.is_packed:
        raise SearchError("The response is compressed, though that was not asked for.")
    try:
        # Not orjson: it refuses halves of surrogates, which cut texts of web pages end in.
        found = json.loads(reply.body)
    except (ValueError, RecursionError):
        found = None
    body = found if isinstance(found, dict) else {}
    listed = listed_of(info.kind, body)
    if listed is None:
        raise SearchError(
            f"The response is not what {label(info.kind)} answers. Check the address."
        )
    named = (hit_of(each) for each in listed if isinstance(each, dict))
    unique = {hit.url: hit for hit in reversed([hit for hit in named if hit is not None])}
    return Hits([*reversed(unique.values())][:most], silent_of(body))


def listed_of(kind: str, body: dict[str, Any]) -> list[Any] | None:
    """Return the entries of a service's results; None where there is no list of them."""
    if kind != Kind.BRAVE:
        listed = body.get("results")
    elif body.get("type") == "search" and "web" not in body:
        return []  # as Brave answers when nothing was found
    else:
        web = body.get("web")
        listed = web.get("results") if isinstance(web, dict) else None
    return listed if isinstance(listed, list) else None


def hit_of(entry: dict[str, Any]) -> Hit | None:
    """Return an entry as a result; None for one without a usable address."""
    url = entry.get("url")
    if not isinstance(url, str) or not is_page(url):
        return None
    snippet = plain(entry.get("content") or entry.get("description"), SNIPPET)
    published = entry.get("publishedDate") or entry.get("published_date") or entry.get("page_age")
    title = plain(entry.get("title"), TITLE) or one_line(urlsplit(url).hostname or url, TITLE)
    return Hit(title, url, snippet, plain(published, DAY))


def is_page(url: str) -> bool:
    """Return whether this is an http(s) address without a password, of bounded length."""
    if len(url) > ADDRESS or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False


def plain(value: object, most: int) -> str:
    """Return a text without tags and entities, on one line; empty for anything but a text."""
    if not isinstance(value, str):
        return ""
    return one_line(unescape(TAG.sub("", value[: 4 * most])), most)


def silent_of(body: dict[str, Any]) -> tuple[str, ...]:
    """Return the engines of a SearXNG that did not answer, each with its reason."""
    listed = body.get("unresponsive_engines")
    found = []
    for each in listed[:5] if isinstance(listed, list) else ():
        words = [each] if isinstance(each, str) else each if isinstance(each, list) else []
        found.append(": ".join(plain(word, 60) for word in words[:2] if isinstance(word, str)))
    return tuple(each for each in found if each)


def refusal(kind: str, status: int) -> str:
    """Return what an error's status means, as a sentence."""
    name, page = label(kind), KEY_PAGES.get(Kind(kind), "")
    if 300 <= status < 400:
        return f"{name} redirects elsewhere. Enter the address to which it leads."
    if kind == Kind.SEARXNG:
        return {
            401: "The server in front of SearXNG wants a key, or refuses the one that is set.",
            403: "SearXNG refuses to answer in JSON. Add json to search.formats in its "
            "settings.yml, and restart it.",
            404: "There is no SearXNG at this address: enter it without /search.",
            429: "SearXNG's limiter refuses the gateway. Switch it off, or let the gateway's "
            "address pass in its limiter.toml.",
        }.get(status, f"SearXNG answered with the error {status}.")
    # 422: Brave for an unknown token. 432 and 433: Tavily for the limits of a plan.
    if status in {401, 403} or (kind == Kind.BRAVE and status == 422):
        return f"{name} refuses the key. Copy it again from {page}."
    if status in {402, 432, 433}:
        return f"The plan of this key is used up. See {page}."
    if status == 429:
        return f"{name} wants fewer requests, or the plan of this key is used up. See {page}."
    return f"{name} answered with the error {status}."
