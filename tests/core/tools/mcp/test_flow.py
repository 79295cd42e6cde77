"""OAuth at an MCP server, with an authorization server that answers as real ones do."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from aiohttp import web

from core.tools.mcp.errors import GrantEndedError, McpError
from core.tools.mcp.oauth import flow
from core.tools.mcp.oauth.secret_values import Client, Started, Tokens
from core.tools.mcp.servers import ServerInfo
from tests.core.tools.mcp.authorization_server import SigningMcp, running

CALLBACK = "https://gateway.example/mcp/oauth/callback/notes"
CLIENT = Client(redirect_uri=CALLBACK)


@pytest.fixture
def notes() -> Iterator[SigningMcp]:
    with running(SigningMcp()) as made:
        yield made


def info(notes: SigningMcp) -> ServerInfo:
    """Return the row of the server."""
    return ServerInfo(
        id=1,
        name="Notes",
        url=notes.url,
        secrets="",
        key_header="",
        allow_private=True,
        seconds=5,
        protocol="",
        authentication="person",
    )


def begun(notes: SigningMcp, client: Client = CLIENT, **more: str) -> Started:
    return asyncio.run(flow.begin(info(notes), client, **more))


def exchanged(notes: SigningMcp, started: Started) -> Tokens:
    """Consent as a person does; return the tokens."""
    back = parse_qs(urlsplit(notes.authorize(started.address, "ann")).query)
    work = flow.exchange(info(notes), started.kept, code=back["code"][0], issuer=back["iss"][0])
    return asyncio.run(work)


def refreshed(notes: SigningMcp, **kept: str) -> Tokens:
    """Return the tokens for a refresh token."""
    started = begun(notes)
    tokens = exchanged(notes, started)
    held = {**started.kept, "refresh_token": tokens.refresh_token, **kept}
    return asyncio.run(flow.refresh(info(notes), held))


def answers(notes: SigningMcp, status: int, body: Any) -> None:
    """Let the token endpoint answer a refresh so."""
    usual = notes.give_token

    async def reply(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        if form["grant_type"] != "refresh_token":
            return usual(form, request.headers.get("Authorization", ""))
        text = body if isinstance(body, str) else orjson.dumps(body).decode()
        return web.Response(status=status, text=text, content_type="application/json")

    notes.replies["/token"] = reply


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_grant"),
        (500, "invalid_grant"),
        (401, "invalid_client"),
        (400, "unauthorized_client"),
        (400, "invalid_request"),
        (403, "access_denied"),
        (400, "unsupported_grant_type"),
        (400, "token_revoked"),
        (200, "bad_refresh_token"),
        (200, "invalid_refresh_token"),
    ],
)
def test_v75_a_refused_refresh_token_ends_the_grant(
    notes: SigningMcp, status: int, code: str
) -> None:
    """[V75] Also where the server answers 200, or has a code of its own, as some large ones do: the
    person signs in again, where each call failed for ever.
    """
    answers(notes, status, {"ok": False, "error": code, "error_description": "planted-words"})
    with pytest.raises(GrantEndedError) as caught:
        refreshed(notes)
    assert caught.value.code == code
    assert str(caught.value) == f"Its authorization server refuses the sign-in ({code})."


def test_v75_a_refusal_without_a_code_has_its_status(notes: SigningMcp) -> None:
    """[V75] 401 alone says that the client or its token is not accepted."""
    answers(notes, 401, "")
    with pytest.raises(GrantEndedError, match=r"refuses the sign-in \(HTTP 401\)") as caught:
        refreshed(notes)
    assert caught.value.code == ""


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, {"error": "temporarily_unavailable"}, "HTTP 400, temporarily_unavailable"),
        (400, {"error": "slow_down"}, "HTTP 400, slow_down"),
        (200, {"error": "internal_error"}, "HTTP 200, internal_error"),
        (429, {"error": "invalid_request"}, "HTTP 429, invalid_request"),
        (500, {"error": "invalid_request"}, "HTTP 500, invalid_request"),
        (400, {"error": "Invalid grant!"}, "HTTP 400"),
        (403, "<html>", "HTTP 403"),
        (400, [], "HTTP 400"),
        (200, {"access_token": ""}, "no usable token"),
        (200, {}, "no usable token"),
        (200, "<html>", "no usable token"),
    ],
)
def test_v75_a_failure_that_may_pass_ends_no_grant(
    notes: SigningMcp, status: int, body: Any, words: str
) -> None:
    """[V75] Nobody has to sign in again because a server is busy for a moment."""
    answers(notes, status, body)
    with pytest.raises(McpError, match=words) as caught:
        refreshed(notes)
    assert not isinstance(caught.value, GrantEndedError)


def test_v74_a_registered_client_whose_secret_is_over_is_registered_anew(
    notes: SigningMcp,
) -> None:
    """[V74] RFC 7591: ``client_secret_expires_at``, 0 for never."""
    client = replace(CLIENT, registration=begun(notes).registered)
    assert begun(notes, client).registered == ""
    for seconds, is_new in ((0, False), (time.time() + 60, False), (time.time() - 1, True)):
        known = {**orjson.loads(client.registration), "client_secret_expires_at": int(seconds)}
        found = begun(notes, replace(client, registration=orjson.dumps(known).decode()))
        assert (found.registered != "") == is_new
