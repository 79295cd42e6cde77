"""The head of a request as it is read, and answers as they are sent."""

import asyncio
import json
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from django.http import HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

from channels_app.asgi import http, middleware
from channels_app.asgi.authentication import token_of
from channels_app.asgi.http import Headers, RefusedError, Request
from tests.gateway_project.processes.connections import Clock, settle

PIECE_BYTES, STALL_SECONDS = 4, 20
MOMENT = 0.01


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    """Set limits that no default has."""
    settings.STREAM_PIECE_BYTES, settings.STREAM_STALL_SECONDS = PIECE_BYTES, STALL_SECONDS
    settings.MAX_JSON_DEPTH = 3
    settings.SECURE_HSTS_SECONDS = 0


def request(*fields: tuple[str, str], query: str = "", client: Any = ("10.1.1.1", 5)) -> Request:
    """Return the head of a request."""
    return Request(
        {
            "method": "POST",
            "path": "/x",
            "query_string": query.encode(),
            "client": client,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in fields],
        }
    )


# The head of a request ---------------------------------------------------------------------------


def test_a_header_is_found_by_its_lower_case_name_and_is_latin_1() -> None:
    head = request(("X-One", "é"), ("x-two", "b"))
    assert (head.header("x-one"), head.header("x-two"), head.header("x-three")) == ("é", "b", "")
    assert (head.method, head.path) == ("POST", "/x")


def test_a_query_has_the_values_that_are_not_empty() -> None:
    head = request(query="a=1&a=2&b=&c=%C3%A9+x&d")
    assert (head.query("a"), head.queries("a")) == ("1", ["1", "2"])
    assert head.query("c") == "é x"
    for none in ("b", "d", "e"):
        assert (head.query(none), head.queries(none)) == ("", [])


def test_a_long_query_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 64 KiB takes 20 ms of the event loop, before any key is looked at."""
    parsed: list[str] = []

    def parse(query: str) -> dict[str, list[str]]:
        parsed.append(query)
        return {}

    monkeypatch.setattr(http, "parse_qs", parse)
    token_of(request(query="a=1"))
    assert parsed == ["a=1"]


@pytest.mark.parametrize(
    ("client", "forwarded", "proxies", "address"),
    [
        (("10.1.1.1", 5), "1.2.3.4", [], "10.1.1.1"),
        (("10.1.1.1", 5), "1.2.3.4", ["10.1.1.2"], "10.1.1.1"),
        (("10.1.1.1", 5), "6.6.6.6,5.5.5.5 , ::ffff:1.2.3.4 ", ["10.1.1.1"], "1.2.3.4"),
        (("10.1.1.1", 5), "", ["10.1.1.1"], "10.1.1.1"),
        (("10.1.1.1", 5), "1.2.3.4,", ["10.1.1.1"], "10.1.1.1"),
        (None, "1.2.3.4", ["10.1.1.1"], "1.2.3.4"),
        (None, "1.2.3.4", [], ""),
        (None, "", ["10.1.1.1"], ""),
        (("::FFFF:10.1.1.1", 5), "", [], "10.1.1.1"),
        (("2001:DB8::1", 5), "", [], "2001:db8::1"),
        (("unix:", 5), "", [], "unix:"),
    ],
)
def test_an_address_is_taken_from_a_header_only_behind_our_proxy(
    client: Any, forwarded: str, proxies: list[str], address: str, settings: Settings
) -> None:
    settings.GATEWAY_TRUSTED_PROXIES = proxies
    assert request(("X-Forwarded-For", forwarded), client=client).address == address


def test_a_request_without_a_client_nor_a_proxy_has_no_address(settings: Settings) -> None:
    settings.GATEWAY_TRUSTED_PROXIES = []
    head = Request({"method": "GET", "path": "/", "headers": []})
    assert head.address == ""


@pytest.mark.parametrize(
    ("declared", "length"),
    [
        ("", 0),
        ("0", 0),
        ("7", 7),
        ("-7", 0),
        ("7a", 0),
        ("٧", 0),
        ("9" * 18, 10**18 - 1),
        ("9" * 5000, 10**18 - 1),
        ("1" + "0" * 18, 10**17),
    ],
)
def test_a_declared_length_is_read_as_far_as_numbers_go(declared: str, length: int) -> None:
    """Beyond 18 digits it is too large in any case."""
    head = Request({"method": "POST", "path": "/", "headers": []})
    assert head.declared_length == 0
    head._headers["content-length"] = declared
    assert head.declared_length == length


@pytest.mark.parametrize(
    ("kind", "fine"),
    [
        ("application/json", True),
        (" Application/JSON ; Charset=UTF-8", True),
        ('application/json;charset="utf8"; ', True),
        ("application/json; charset = utf-8 ;", True),
        ("application/json;", True),
        ("application/json ; ;", True),
        ("application/vnd.api+json", True),
        ("application/+json", False),
        ("application/json; charset=latin-1", False),
        ("application/json; charset=utf-8; x=y", False),
        ("application/json; boundary=x", False),
        ("application/jsonp", False),
        ("text/json", False),
        ("text/plain", False),
        ("text/plain; application/json", False),
        ("", False),
    ],
)
def test_a_body_is_declared_as_json(kind: str, fine: bool) -> None:
    head = request(("content-type", kind))
    if fine:
        head.require_json()
        return
    with pytest.raises(RefusedError) as caught:
        head.require_json()
    assert (caught.value.status, caught.value.field) == (415, "Content-Type")
    assert "send Content-Type: application/json" in str(caught.value)


def test_a_body_without_a_type_is_refused() -> None:
    with pytest.raises(RefusedError):
        request().require_json()


@pytest.mark.parametrize("before", ["", "charset", "charset=", "charset=utf-8", "charset=utf-8;"])
def test_a_type_of_spaces_is_refused_at_once(before: str) -> None:
    """2,000 of them stopped the process for five seconds, and 60,000 for more than a day."""
    head = request(("content-type", f"application/json;{before}{' ' * 60_000}x"))
    with pytest.raises(RefusedError):
        head.require_json()


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", ""),
        ("de-AT", "de-AT"),
        (" pl ;q=0.8,en", "pl"),
        ("fr, en;q=0.5", "fr"),
        (";q=1", ""),
        ("en,de,fr", "en"),
        ("de;q=1;x=y", "de"),
    ],
)
def test_the_first_language_is_the_preferred_one(header: str, language: str) -> None:
    assert request(("accept-language", header)).language() == language


def test_an_idempotency_key_has_a_length() -> None:
    assert request().idempotency_key() == ""
    assert request(("idempotency-key", "k" * 128)).idempotency_key() == "k" * 128
    with pytest.raises(RefusedError) as caught:
        request(("idempotency-key", "k" * 129)).idempotency_key()
    assert (caught.value.status, caught.value.field) == (400, "Idempotency-Key")
    assert str(caught.value) == "Idempotency-Key is longer than 128 characters."


# Bodies and refusals -----------------------------------------------------------------------------


def test_a_body_is_an_object_of_strict_json() -> None:
    assert http.parse_object(b'{"a": [[1]]}') == {"a": [[1]]}
    for data, field in (
        (b"[]", "body"),
        (b"{", "body"),
        (b'{"a": [[[]]]}', "body"),
        (b'{"a": ["\\u0000"]}', "a[0]"),
    ):
        with pytest.raises(RefusedError) as caught:
            http.parse_object(data)
        assert (caught.value.status, caught.value.field) == (400, field)
    with pytest.raises(RefusedError, match=r"^a\[0\] holds characters that are not text\.$"):
        http.parse_object(b'{"a": ["\\u0000"]}')


def test_an_unexpected_error_tells_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    own = RefusedError(418, "No.")
    assert http.refusal_of(own) is own
    assert not caplog.records
    found = http.refusal_of(LookupError("secret"))
    assert (found.status, str(found), found.headers) == (500, "Something went wrong.", {})
    for away in (OperationalError("secret"), InterfaceError("secret")):
        found = http.refusal_of(away)
        assert (found.status, str(found)) == (503, "Try again in a moment.")
        assert found.headers == {"Retry-After": "2"}
    assert [type(each.exc_info[1]) for each in caplog.records if each.exc_info] == [
        LookupError,
        OperationalError,
        InterfaceError,
    ]


def test_a_refusal_names_its_field_and_has_its_details() -> None:
    error = RefusedError(400, "No.", field="a.b", headers={"X": "y"})
    plain = {"ok": False, "status": 400, "error": "No.", "text": "", "format": "plain"}
    assert http.refused_body(error) == {**plain, "field": "a.b"}
    error = RefusedError(400, "No.")
    error.details = {"code": "busy", "status": 503}
    assert http.refused_body(error) == {**plain, "code": "busy", "status": 503}
    assert (error.field, error.headers) == ("", {})


@pytest.mark.parametrize(
    ("given", "same"), [("a", True), ("b", False), ("", False), ("aa", False), ("é", False)]
)
def test_secrets_are_compared(given: str, same: bool) -> None:
    assert http.same_secret(given, "a") is same
    assert http.same_secret("é", "é")


# Answers -----------------------------------------------------------------------------------------


def test_every_answer_has_the_headers_of_security() -> None:
    assert http.every_header({}) == {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
        "cache-control": "no-store",
    }


def test_an_answer_may_have_its_own_and_none_begins_a_second_line() -> None:
    found = http.every_header(
        {"CACHE-control": "no-cache", "X-A": "a\r\nSet-Cookie: b\x00\x7f\x1f"}
    )
    assert found["cache-control"] == "no-cache"
    assert found["x-a"] == "a  Set-Cookie: b   "
    assert len(found) == 8


@pytest.mark.parametrize(
    ("subdomains", "preload", "value"),
    [
        (False, False, "max-age=60"),
        (True, False, "max-age=60; includeSubDomains"),
        (False, True, "max-age=60; preload"),
        (True, True, "max-age=60; includeSubDomains; preload"),
    ],
)
def test_https_is_asked_for_as_configured(
    subdomains: bool, preload: bool, value: str, settings: Settings
) -> None:
    settings.SECURE_HSTS_SECONDS = 60
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS, settings.SECURE_HSTS_PRELOAD = subdomains, preload
    assert http.every_header({})["strict-transport-security"] == value


def test_headers_are_bytes_of_latin_1() -> None:
    found = dict(http.encoded({"X-Name": "é€"}))
    assert found[b"x-name"] == b"\xe9?"


class Reader:
    """A client; after ``takes`` messages it takes none."""

    def __init__(self, takes: int = 100) -> None:
        self.takes = takes
        self.sent: list[dict[str, Any]] = []

    async def send(self, message: Any) -> None:
        """Take a message, or wait for ever."""
        if len(self.sent) >= self.takes:
            await asyncio.Event().wait()
        self.sent.append(dict(message))

    @property
    def headers(self) -> dict[bytes, bytes]:
        """Return the headers of the answer."""
        return dict(self.sent[0]["headers"])

    @property
    def pieces(self) -> list[tuple[bytes, bool]]:
        """Return the pieces of the body, and whether more follow."""
        for each in self.sent:
            assert each["type"] in {"http.response.start", "http.response.body"}
        return [(each["body"], each["more_body"]) for each in self.sent if "body" in each]


async def test_an_answer_is_json_with_its_length() -> None:
    reader = Reader()
    await http.answer(reader.send, 201, {"a": "é"}, {"X-B": "c"})
    start = reader.sent[0]
    assert (start["type"], start["status"]) == ("http.response.start", 201)
    assert reader.headers[b"content-type"] == b"application/json"
    assert (reader.headers[b"content-length"], reader.headers[b"x-b"]) == (b"10", b"c")
    assert b"retry-after" not in reader.headers
    assert json.loads(b"".join(data for data, _ in reader.pieces)) == {"a": "é"}
    assert [more for _, more in reader.pieces] == [True, True, False]


@pytest.mark.parametrize(("own", "wait"), [(None, b"5"), ({"Retry-After": "60"}, b"60")])
async def test_too_many_requests_always_says_when_to_try_again(
    own: Headers | None, wait: bytes
) -> None:
    reader = Reader()
    await http.answer_bytes(reader.send, 429, b"abc", "text/plain", own)
    assert reader.headers[b"retry-after"] == wait
    assert reader.headers[b"content-type"] == b"text/plain"
    assert reader.pieces == [(b"abc", False)]


@pytest.mark.parametrize(
    ("data", "pieces"),
    [
        (b"", [b""]),
        (b"abcd", [b"abcd"]),
        (b"abcde", [b"abcd", b"e"]),
        (b"abcdefgh", [b"abcd", b"efgh"]),
    ],
)
@pytest.mark.parametrize("more", [True, False])
async def test_data_is_sent_in_pieces(data: bytes, pieces: list[bytes], more: bool) -> None:
    reader = Reader()
    assert await http.write(reader.send, data, more=more)
    assert [piece for piece, _ in reader.pieces] == pieces
    assert [follows for _, follows in reader.pieces] == [True] * (len(pieces) - 1) + [more]


async def test_each_piece_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock.time)
    reader = Reader(takes=1)
    writing = asyncio.create_task(http.write(reader.send, b"abcdefgh", more=False))
    await settle()
    clock.now += STALL_SECONDS - MOMENT
    await settle()
    assert not writing.done()
    clock.now += MOMENT
    await settle()
    assert await writing is False
    assert reader.pieces == [(b"abcd", True)]


def test_a_page_that_finds_no_database_is_a_page_and_a_call_gets_json(rf: RequestFactory) -> None:
    answered = middleware.DatabaseAwayMiddleware(lambda _: HttpResponse()).process_exception
    page = rf.get("/reminders", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    found = answered(page, OperationalError("secret"))
    assert isinstance(found, HttpResponse)
    assert (found.status_code, found["Content-Type"][:9]) == (503, "text/html")
    assert "Try again in a moment." in found.content.decode()
    call = rf.get("/chat/sessions", headers={"Accept": "application/json"})
    found = answered(call, OperationalError("secret"))
    assert isinstance(found, HttpResponse)
    assert json.loads(found.content)["error"] == "Try again in a moment."
    assert answered(call, KeyError("x")) is None
