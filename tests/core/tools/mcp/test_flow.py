"""OAuth at an MCP server, with an authorization server that answers as real ones do."""

import asyncio
import base64
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from aiohttp import web

from core.lib.text import one_line
from core.tools.mcp.errors import GrantEndedError, McpError, StoppedError
from core.tools.mcp.oauth import flow
from core.tools.mcp.oauth.secret_values import Client, Started, Tokens
from core.tools.mcp.servers import ServerInfo
from tests.core.tools.mcp import malicious_mcp
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
        (500, "invalid_client"),
        (500, "unauthorized_client"),
        (200, "incorrect_client_credentials"),
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
        (400, {"error": "Invalid grant!"}, r"\(HTTP 400\)"),
        (400, {"error": "fehler_ä"}, r"\(HTTP 400\)"),
        (400, {"error": 5}, r"\(HTTP 400\)"),
        (400, {"error": "e" * 40}, f"HTTP 400, {'e' * 40}"),
        (400, {"error": "e" * 41}, r"\(HTTP 400\)"),
        (400, {"error": "two words"}, r"\(HTTP 400\)"),
        (400, {"error": "__"}, r"\(HTTP 400\)"),
        (403, "<html>", r"\(HTTP 403\)"),
        (400, [], r"\(HTTP 400\)"),
        (200, {"access_token": ""}, "no usable token"),
        (200, {}, "no usable token"),
        (200, "<html>", "no usable token"),
    ],
)
def test_v75_a_failure_that_may_pass_ends_no_grant(
    notes: SigningMcp, status: int, body: Any, words: str
) -> None:
    """[V75] No person has to sign in again because a server is busy for a moment."""
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
    for seconds, is_new in (
        (0, False),
        (1, True),
        (time.time() + 60, False),
        (time.time() - 1, True),
    ):
        known = {**orjson.loads(client.registration), "client_secret_expires_at": int(seconds)}
        found = begun(notes, replace(client, registration=orjson.dumps(known).decode()))
        assert (found.registered != "") == is_new


def query(started: Started) -> dict[str, str]:
    """Return the parameters of the address to which the browser is sent."""
    return {key: value[0] for key, value in parse_qs(urlsplit(started.address).query).items()}


def refusal(notes: SigningMcp, client: Client = CLIENT, **more: str) -> str:
    """Return why a sign-in cannot begin."""
    with pytest.raises(McpError) as caught:
        begun(notes, client, **more)
    assert not isinstance(caught.value, GrantEndedError)
    return str(caught.value)


def stopped(
    notes: SigningMcp, code: str, *, client: Client = CLIENT, resource_metadata: str = ""
) -> str:
    """Return why the gateway stops a sign-in for this reason."""
    with pytest.raises(StoppedError) as caught:
        begun(notes, client, resource_metadata=resource_metadata)
    assert caught.value.code == code
    return str(caught.value)


def replies(status: int, body: Any = "", **headers: str) -> Any:
    """Return a reply of the server."""

    async def reply(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        del request, form
        text = body if isinstance(body, str) else orjson.dumps(body).decode()
        return web.Response(
            status=status, text=text, content_type="application/json", headers=headers
        )

    return reply


WELL_KNOWN = "/.well-known/oauth-authorization-server"
PROTECTED = "/.well-known/oauth-protected-resource"


def test_v74_a_sign_in_begins_with_all_that_its_exchange_needs(notes: SigningMcp) -> None:
    """[V74] PKCE, a state that cannot be guessed, the resource, and a new client."""
    started, other = begun(notes, resource_metadata=f"{notes.base}/resource"), begun(notes)
    asked = query(started)
    assert started.address.startswith(f"{notes.base}/authorize?")
    assert {
        **asked,
        "code_challenge": "",
        "state": "",
    } == {
        "response_type": "code",
        "client_id": "client-1",
        "redirect_uri": CALLBACK,
        "state": "",
        "code_challenge": "",
        "code_challenge_method": "S256",
        "resource": notes.url,
        "scope": "notes",
    }
    assert asked["state"] == started.state
    assert len(started.state) >= 43
    assert started.state != other.state
    assert started.kept.keys() == {"metadata", "client", "resource", "redirect_uri", "verifier"}
    assert started.kept["resource"] == notes.url
    assert started.kept["redirect_uri"] == CALLBACK
    assert (started.scope, started.issuer) == ("notes", notes.base)
    known = orjson.loads(started.registered)
    assert known["issuer"] == notes.base
    assert known["redirect_uris"] == [CALLBACK]
    assert None not in known.values()
    assert None not in orjson.loads(started.kept["metadata"]).values()
    assert started.kept["client"] == started.registered
    assert notes.clients["client-1"]["client_name"] == "Latchkey"
    assert notes.clients["client-1"]["application_type"] == "web"
    assert notes.clients["client-1"]["scope"] == "notes"
    assert "token_endpoint_auth_method" not in notes.clients["client-1"]
    begun(notes, replace(CLIENT, redirect_uri=CALLBACK.replace("https", "http")))
    assert notes.clients["client-3"]["application_type"] == "native"


def test_v74_rights_that_a_call_lacked_are_asked_for(notes: SigningMcp) -> None:
    """[V74] Before what the server lists; nothing where neither says."""
    assert query(begun(notes, scope="delete"))["scope"] == "delete"
    assert len(begun(notes, scope="a" * 3_000).scope) == 2_000
    notes.resource = {"scopes_supported": None}
    found = begun(notes, resource_metadata=f"{notes.base}/resource")
    assert ("scope" in query(found), found.scope) == (False, "")
    assert "prompt" not in query(found)
    notes.metadata = {"scopes_supported": ["notes", "offline_access"]}
    found = begun(notes)
    assert query(found)["scope"] == "notes offline_access"
    assert query(found)["prompt"] == "consent"


def test_v74_an_address_keeps_its_own_parameters(notes: SigningMcp) -> None:
    """[V74] But for those that are ours; a fragment is dropped."""
    notes.metadata = {
        "authorization_endpoint": f"{notes.base}/authorize?tenant=a%20b&empty=&state=theirs#x"
    }
    found = begun(notes)
    parts = parse_qs(urlsplit(found.address).query, keep_blank_values=True)
    assert (parts["tenant"], parts["empty"], parts["state"]) == (["a b"], [""], [found.state])
    assert urlsplit(found.address).fragment == ""


def test_v73_the_client_that_signs_in(notes: SigningMcp) -> None:
    """[V73] The owner's; that of the metadata document; the one of last time; a new one."""
    own = replace(CLIENT, client_id="mine", client_secret="s")
    found = begun(notes, own)
    assert (query(found)["client_id"], found.registered, notes.clients) == ("mine", "", {})
    assert orjson.loads(found.kept["client"])["client_secret"] == "s"
    assert query(begun(notes, replace(own, issuer=notes.base)))["client_id"] == "mine"
    words = refusal(notes, replace(own, issuer="https://other.example"))
    assert words.startswith("Its client id and secret belong to another authorization server")
    document = replace(CLIENT, metadata_url="https://gateway.example/client.json")
    assert query(begun(notes, document))["client_id"] == "client-1"
    notes.metadata = {"client_id_metadata_document_supported": True}
    found = begun(notes, document)
    assert query(found)["client_id"] == "https://gateway.example/client.json"
    assert found.registered == ""
    notes.metadata = {}
    known = replace(CLIENT, registration=begun(notes).registered)
    found = begun(notes, known)
    assert (query(found)["client_id"], found.registered) == ("client-2", "")
    moved = replace(known, redirect_uri=CALLBACK.replace("gateway", "moved"))
    assert query(begun(notes, moved))["client_id"] == "client-3"
    elsewhere = {**orjson.loads(known.registration), "issuer": "https://other.example"}
    other = replace(CLIENT, registration=orjson.dumps(elsewhere).decode())
    assert query(begun(notes, other))["client_id"] == "client-4"
    notes.metadata = {"registration_endpoint": None}
    assert "enter a client id and its secret" in refusal(notes)
    assert query(begun(notes, known))["client_id"] == "client-2"


@pytest.mark.parametrize(
    ("status", "body", "client"),
    [
        (400, {"error": "invalid_client"}, "client-2"),
        (401, {"error": "unauthorized_client"}, "client-2"),
        (401, "Unauthorized", "client-2"),
        (400, {"error": "invalid_grant"}, "client-1"),
        (400, {"error": "invalid_request"}, "client-1"),
        (429, "", "client-1"),
        (503, {"error": "invalid_client"}, "client-2"),
        (503, "", "client-1"),
    ],
)
def test_v73_a_client_that_the_server_has_forgotten_is_registered_anew(
    notes: SigningMcp, status: int, body: Any, client: str
) -> None:
    """[V73] Before the person is sent there: its page only says that it does not know the client,
    and sends no one back.
    """
    known = replace(CLIENT, registration=begun(notes).registered)
    notes.replies["/token"] = replies(status, body)
    assert query(begun(notes, replace(known, is_known=True)))["client_id"] == "client-1"
    assert notes.forms("authorization_code") == []
    found = begun(notes, known, scope="notes")
    assert query(found)["client_id"] == client
    assert bool(found.registered) == (client == "client-2")


def test_v73_a_client_is_kept_where_it_cannot_be_found_out_whether_it_is_known(
    notes: SigningMcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V73] The token endpoint is slow, away, or registers no clients."""
    known = replace(CLIENT, registration=begun(notes).registered)

    async def hang(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(flow, "KNOWN_SECONDS", 0.01)
    notes.replies["/token"] = hang
    assert query(begun(notes, known))["client_id"] == "client-1"
    monkeypatch.undo()
    notes.metadata = {"token_endpoint": "http://127.0.0.1:1/token"}
    assert query(begun(notes, known))["client_id"] == "client-1"
    notes.metadata = {"registration_endpoint": None}
    notes.replies["/token"] = replies(400, {"error": "invalid_client"})
    assert query(begun(notes, known))["client_id"] == "client-1"


def test_v74_the_root_of_the_same_server_is_no_other_issuer(notes: SigningMcp) -> None:
    """[V74] Atlassian's server of each client names the one of all."""
    notes.resource = {"authorization_servers": [f"{notes.base}/tenant"]}
    there = "/.well-known/oauth-authorization-server/tenant"
    notes.replies[there] = replies(200, notes.about_server())
    where = f"{notes.base}/resource"
    assert begun(notes, resource_metadata=where).issuer == notes.base
    notes.metadata = {"issuer": f"{notes.base}/tenant/"}
    notes.replies[there] = replies(200, notes.about_server())
    assert begun(notes, resource_metadata=where).issuer == f"{notes.base}/tenant/"


def test_v74_metadata_in_a_folder_of_a_server_do_not_speak_for_the_server(
    notes: SigningMcp,
) -> None:
    """[V74] Anybody may publish a file there, as in a repository: with the name of the root in it,
    and a token endpoint of their own, they would get the owner's secret and people's codes.
    """
    folder, where = f"{notes.base}/evil/files", f"{notes.base}/resource"
    notes.resource = {"authorization_servers": [folder]}
    notes.metadata = {"token_endpoint": "https://evil.example/token"}
    there = "/evil/files/.well-known/openid-configuration"
    notes.replies[there] = replies(200, notes.about_server())
    known = replace(CLIENT, client_id="ours", client_secret="planted", issuer=notes.base)
    assert "that of another one (issuer)" in stopped(
        notes, "issuer", client=known, resource_metadata=where
    )
    notes.metadata = {"issuer": folder}
    notes.replies[there] = replies(200, notes.about_server())
    assert begun(notes, resource_metadata=where).issuer == folder


@pytest.mark.parametrize(
    ("supported", "secret", "method"),
    [
        (None, "s", "client_secret_basic"),
        (["client_secret_post", "client_secret_basic"], "s", "client_secret_basic"),
        (["client_secret_post", "none"], "s", "client_secret_post"),
        (["none"], "s", "none"),
        (["private_key_jwt"], "s", "client_secret_post"),
        (["client_secret_basic"], "", "none"),
    ],
)
def test_v73_the_owners_client_proves_itself_as_the_server_wants(
    notes: SigningMcp, supported: list[str] | None, secret: str, method: str
) -> None:
    """[V73] RFC 8414 names the usual way; without a secret it is a public client."""
    notes.metadata = {"token_endpoint_auth_methods_supported": supported}
    found = begun(notes, replace(CLIENT, client_id="mine", client_secret=secret))
    assert orjson.loads(found.kept["client"])["token_endpoint_auth_method"] == method


@pytest.mark.parametrize(
    ("given", "method"),
    [
        ({"client_secret": "s"}, "client_secret_basic"),
        ({}, "none"),
        (
            {"client_secret": "s", "token_endpoint_auth_method": "client_secret_post"},
            "client_secret_post",
        ),
        ({"token_endpoint_auth_method": "client_secret_basic"}, None),
        ({"client_secret": "s", "token_endpoint_auth_method": "private_key_jwt"}, None),
    ],
)
def test_v74_a_new_client_proves_itself_as_it_was_registered(
    notes: SigningMcp, given: dict[str, str], method: str | None
) -> None:
    """[V74] In a way that the gateway has."""
    notes.replies["/register"] = replies(201, {"client_id": "new", **given})
    if method is None:
        assert "wants clients to prove themselves in another way" in refusal(notes)
    else:
        client = orjson.loads(begun(notes).registered)
        assert client["token_endpoint_auth_method"] == method


def test_v74_a_new_client_asks_for_the_way_that_the_server_has(notes: SigningMcp) -> None:
    """[V74] A server that does not answer with one gets that."""
    notes.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    begun(notes)
    assert notes.clients["client-1"]["token_endpoint_auth_method"] == "client_secret_post"
    notes.replies["/register"] = replies(201, {"client_id": "new", "client_secret": "s"})
    client = orjson.loads(begun(notes).registered)
    assert client["token_endpoint_auth_method"] == "client_secret_post"
    notes.replies["/register"] = replies(400, {"error": "planted-words"})
    assert refusal(notes) == "Its authorization server did not register the gateway."


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_v74_the_secret_is_sent_as_it_was_registered(notes: SigningMcp, method: str) -> None:
    """[V74] In the header, in the form, or not at all; the client's id always."""
    seen: list[str] = []

    async def reply(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        assert request.headers["Accept"] == "application/json"
        seen.append(request.headers.get("Authorization", ""))
        return replies_with_token

    replies_with_token = web.json_response({"access_token": "t", "token_type": "bearer"})
    notes.replies["/token"] = reply
    notes.metadata = {"token_endpoint_auth_methods_supported": [method]}
    started = begun(notes, replace(CLIENT, client_id="m:/e", client_secret="s:/"))
    assert exchanged(notes, started).access_token == "t"
    basic = "Basic " + base64.b64encode(b"m%3A%2Fe:s%3A%2F").decode()
    assert seen == [basic if method == "client_secret_basic" else ""]
    [form] = notes.forms("authorization_code")
    assert form["client_id"] == "m:/e"
    assert form.get("client_secret") == ("s:/" if method == "client_secret_post" else None)


def test_v73_a_code_is_exchanged_and_a_token_renewed(notes: SigningMcp) -> None:
    """[V73] With the resource, the address of the callback and the verifier."""
    tokens = refreshed(notes)
    assert tokens.access_token in notes.tokens
    assert tokens.refresh_token in notes.refresh_tokens
    assert tokens.seconds == 3600
    [form] = notes.forms("authorization_code")
    assert (form["redirect_uri"], form["resource"]) == (CALLBACK, notes.url)
    assert len(form["code_verifier"]) >= 43
    assert notes.forms("refresh_token")[0]["resource"] == notes.url


@pytest.mark.parametrize("issuer", [None, "https://other.example", ""])
def test_v73_a_code_of_another_issuer_is_not_exchanged(
    notes: SigningMcp, issuer: str | None
) -> None:
    """[V73] Nor one without, where the server says that it names it."""
    started = begun(notes)
    work = flow.exchange(info(notes), started.kept, code="c", issuer=issuer)
    with pytest.raises(StoppedError, match="from another authorization server") as caught:
        asyncio.run(work)
    assert caught.value.code == "issuer"
    assert notes.forms("authorization_code") == []


@pytest.mark.parametrize(
    ("token", "is_good"),
    [
        ({}, True),
        ({"access_token": "a" * 16_384}, True),
        ({"access_token": "a" * 16_385}, False),
        ({"access_token": ""}, False),
        ({"access_token": "a b"}, False),
        ({"access_token": "ä"}, False),
        ({"access_token": "a\n"}, False),
        ({"refresh_token": "a b"}, True),
        ({"refresh_token": "ä"}, False),
        ({"refresh_token": "a\n"}, False),
        ({"refresh_token": "a" * 16_385}, False),
        ({"refresh_token": None}, True),
        ({"token_type": "mac"}, False),
        ({"expires_in": "soon"}, False),
    ],
)
def test_v74_a_token_fits_into_a_header(
    notes: SigningMcp, token: dict[str, Any], is_good: bool
) -> None:
    """[V74] Nothing of a bad answer is repeated."""
    answers(
        notes, 200, {"access_token": "t", "refresh_token": "r", "token_type": "Bearer", **token}
    )
    if is_good:
        assert refreshed(notes).scope == ""
        return
    with pytest.raises(McpError, match=r"^The answer of its .* has no usable token\.$") as caught:
        refreshed(notes)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(None, None), (0, 0), (-5, 0), (60, 60), ("60", 60), (10**12, flow.MOST_SECONDS)],
)
def test_v75_the_time_of_a_token_is_bounded(
    notes: SigningMcp, given: Any, seconds: int | None
) -> None:
    """[V75] By ten years; a server need not say it."""
    assert flow.MOST_SECONDS == 3660 * 24 * 60 * 60
    answers(notes, 200, {"access_token": "t", "expires_in": given, "scope": "s" * 3_000})
    found = refreshed(notes)
    assert found.seconds == seconds
    assert (found.refresh_token, len(found.scope)) == ("", 2_000)


def test_v74_the_server_names_where_people_sign_in(notes: SigningMcp) -> None:
    """[V74] Where a refusal says, else at its own address; a server of before that has no such
    document signs in at its origin.
    """
    assert begun(notes, resource_metadata=f"{notes.base}/resource").issuer == notes.base
    assert [path for path, _ in notes.requests][:2] == ["/resource", WELL_KNOWN]
    notes.requests.clear()
    found = begun(notes)
    assert found.kept["resource"] == notes.url
    assert [path for path, _ in notes.requests][:3] == [f"{PROTECTED}/mcp", PROTECTED, WELL_KNOWN]
    notes.replies[PROTECTED] = replies(200, {**notes.about_resource(), "resource": notes.base})
    assert begun(notes).kept["resource"] == notes.base
    for status in (500, 429):
        notes.replies[PROTECTED] = replies(status)
        assert refusal(notes) == f"It fails (HTTP {status})."
    notes.replies[PROTECTED] = replies(400)
    notes.replies[f"{PROTECTED}/mcp"] = replies(503)
    assert refusal(notes) == "It fails (HTTP 503)."
    notes.replies[PROTECTED] = replies(200, notes.about_resource())
    assert begun(notes).kept["resource"] == notes.url


def test_v74_metadata_of_others_is_refused(notes: SigningMcp) -> None:
    """[V74] Of another resource or issuer; addresses without encryption beside a server that has
    it, or with a password.
    """
    where = f"{notes.base}/resource"
    notes.resource = {"resource": "https://other.example/mcp"}
    assert "names another server" in stopped(notes, "resource", resource_metadata=where)
    notes.resource = {"authorization_servers": ["http://u:p@a.example"]}
    assert "name or password" in stopped(notes, "plain", resource_metadata=where)
    notes.resource, notes.metadata = {}, {"issuer": "https://other.example"}
    assert "that of another one (issuer)" in stopped(notes, "issuer", resource_metadata=where)
    assert "that of another one (issuer)" in stopped(notes, "issuer")
    notes.metadata = {"issuer": f"{notes.base}/other"}
    assert "that of another one (issuer)" in stopped(notes, "issuer", resource_metadata=where)
    notes.metadata = {"issuer": f"{notes.base}/"}
    assert begun(notes).issuer == f"{notes.base}/"
    assert begun(notes, resource_metadata=where).issuer == f"{notes.base}/"
    for name in ("authorization", "token", "registration", "revocation"):
        notes.metadata = {f"{name}_endpoint": "http://u:p@127.0.0.1/x"}
        assert "name or password" in stopped(notes, "plain")
    for methods in (None, [], ["plain"]):
        notes.metadata = {"code_challenge_methods_supported": methods}
        assert "does not support PKCE, which is required" in refusal(notes)
    notes.metadata = {"authorization_endpoint": "javascript:alert(1)"}
    refusal(notes)
    assert "name or password" in stopped(
        notes, "plain", resource_metadata=where.replace("//", "//u:p@")
    )


@pytest.mark.parametrize(
    ("url", "private", "there", "is_refused"),
    [
        ("https://a.example/mcp", False, "https://b.example/x", False),
        ("https://a.example/mcp", False, "http://b.example/x", True),
        ("https://a.example/mcp", True, "http://b.example/x", True),
        ("http://a.example/mcp", False, "http://b.example/x", True),
        ("http://a.example/mcp", True, "http://b.example/x", False),
        ("HTTP://a.example/mcp", True, "http://b.example/x", False),
        ("http://a.example/mcp", True, "ftp://b.example/x", True),
        ("http://a.example/mcp", True, "https://b.example/x", False),
        ("https://a.example/mcp", False, "http://name:pass@b.example/x", True),
    ],
)
def test_v74_plain_http_is_for_servers_inside_the_network(
    notes: SigningMcp, url: str, private: bool, there: str, is_refused: bool
) -> None:
    """[V74] That have no encryption themselves. The password of an address is not repeated."""
    server = replace(info(notes), url=url, allow_private=private)
    if not is_refused:
        flow.check_address(server, there)
        return
    with pytest.raises(StoppedError, match=r"without encryption \(b\.example\)") as caught:
        flow.check_address(server, there)
    assert caught.value.code == "plain"


def test_v74_where_metadata_of_the_authorization_server_is_looked_for(notes: SigningMcp) -> None:
    """[V74] An address without it is passed over; one that fails ends the search."""
    where = f"{notes.base}/resource"
    openid = "/.well-known/openid-configuration"
    notes.replies[WELL_KNOWN] = replies(404)
    assert "does not say where people sign in" in refusal(notes, resource_metadata=where)
    notes.replies[openid] = replies(200, notes.about_server())
    assert begun(notes, resource_metadata=where).issuer == notes.base
    notes.replies[WELL_KNOWN] = replies(500)
    words = refusal(notes, resource_metadata=where)
    assert words == "Its authorization server fails (HTTP 500)."


def test_v74_a_server_that_is_slow_or_away_is_named_in_words(
    notes: SigningMcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V74] After 20 s; one that answers something else does not follow the protocol."""
    notes.replies[WELL_KNOWN] = replies(200, "x" * 300_000)
    assert "It sent more than 256 kB" in refusal(notes)
    notes.replies[WELL_KNOWN] = malicious_mcp.silent
    assert flow.SECONDS == 20
    monkeypatch.setattr(flow, "SECONDS", 0.2)
    assert "It did not answer within 0 seconds" in refusal(notes)
    monkeypatch.undo()
    started = begun_elsewhere(notes)
    with pytest.raises(McpError, match="Its authorization server cannot be reached"):
        asyncio.run(flow.refresh(info(notes), {**started, "refresh_token": "r"}))
    server = replace(info(notes), allow_private=False)
    with pytest.raises(StoppedError, match="inside the network"):
        asyncio.run(flow.exchange(server, started, code="c", issuer=notes.base))
    with pytest.raises(StoppedError):
        asyncio.run(flow.begin(replace(server, url=server.url.replace("http", "https")), CLIENT))


def begun_elsewhere(notes: SigningMcp) -> dict[str, str]:
    """Return a sign-in whose token endpoint is not there any more."""
    notes.replies.clear()
    kept = begun(notes).kept
    about = {**orjson.loads(kept["metadata"]), "token_endpoint": "https://127.0.0.1:9/token"}
    return {**kept, "metadata": orjson.dumps(about).decode()}


def revoke(notes: SigningMcp, **kept: str) -> list[dict[str, str]]:
    """Revoke tokens; return the forms that came."""
    started = begun(notes)
    notes.requests.clear()
    asyncio.run(flow.revoke({**started.kept, **kept}, allow_private=True))
    return [form for path, form in notes.requests if path == "/revoke"]


def test_v73_an_answer_with_201_has_tokens_too(notes: SigningMcp) -> None:
    """[V73] As some servers send it."""
    answers(notes, 201, {"access_token": "t", "token_type": "Bearer"})
    assert refreshed(notes).access_token == "t"


def test_v77_a_revocation_proves_its_client(notes: SigningMcp) -> None:
    """[V77] As the exchange of a code does."""
    seen: list[str] = []

    async def reply(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        del form
        seen.append(request.headers.get("Authorization", ""))
        return web.Response()

    notes.replies["/revoke"] = reply
    revoke(notes, access_token="a")
    assert seen[0].startswith("Basic ")


def test_v74_a_long_host_is_cut_in_an_error(notes: SigningMcp) -> None:
    """[V74] The page shows it."""
    host = "h" * 100
    with pytest.raises(StoppedError) as caught:
        flow.check_address(replace(info(notes), allow_private=False), f"http://{host}/")
    assert f"({one_line(host, 80)})" in str(caught.value)


def test_v77_both_tokens_are_revoked(notes: SigningMcp) -> None:
    """[V77] The refresh token first; where the server can, and does not fail."""
    forms = revoke(notes, access_token="a", refresh_token="r")
    assert [(form["token"], form["token_type_hint"]) for form in forms] == [
        ("r", "refresh_token"),
        ("a", "access_token"),
    ]
    assert forms[0]["client_id"] == "client-1"
    assert len(revoke(notes, access_token="a", refresh_token="")) == 1
    notes.replies["/revoke"] = replies(400)
    assert len(revoke(notes, access_token="a", refresh_token="r")) == 2
    for status in (429, 500):
        notes.replies["/revoke"] = replies(status)
        with pytest.raises(McpError, match=rf"It fails \(HTTP {status}\)"):
            revoke(notes, access_token="a")
    with pytest.raises(StoppedError, match="inside the network"):
        asyncio.run(flow.revoke({**begun(notes).kept, "access_token": "a"}, allow_private=False))
    notes.metadata = {"revocation_endpoint": None}
    assert revoke(notes, access_token="a") == []
