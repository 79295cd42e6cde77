"""An MCP server that wants people to sign in, with its own authorization server (OAuth 2.1).

It behaves, until a test changes its metadata, its answers or its memory.
"""

import base64
import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import orjson
from aiohttp import web

from tests.core.tools.mcp import malicious_mcp
from tests.core.tools.mcp.malicious_mcp import MaliciousMcp

SCOPE = "notes"


@dataclass
class Grant:
    """The account and the rights of a token."""

    account: str
    scope: set[str]
    client: str


@dataclass
class SigningMcp(MaliciousMcp):
    """``tokens``, ``refresh_tokens``: those that are valid; ``codes``: by code, the request that
    got it. ``needs``: scopes that a call of a tool needs. ``seconds``: how long tokens last.

    ``requests``: path and form of those that came; ``accounts_of_calls``: of each call.
    ``metadata`` and ``resource``: fields that replace those of its documents (None leaves one
    out). ``replies``: by path, a response in place of the usual.
    """

    tokens: dict[str, Grant] = field(default_factory=dict)
    refresh_tokens: dict[str, Grant] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    needs: dict[str, set[str]] = field(default_factory=dict)
    seconds: int | None = 3600
    rotates: bool = True
    gives_refresh_tokens: bool = True
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    accounts_of_calls: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    resource: dict[str, Any] = field(default_factory=dict)
    replies: dict[str, malicious_mcp.Reply] = field(default_factory=dict)
    secrets_seen: set[str] = field(default_factory=set)

    @property
    def base(self) -> str:
        """Return its origin."""
        return self.url.removesuffix("/mcp")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request for the MCP endpoint: with a valid token only."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        grant = self.tokens.get(token)
        if grant is None:
            return challenge(401, f'resource_metadata="{self.base}/resource", scope="{SCOPE}"')
        message = orjson.loads(await request.read() or b"{}")
        if message.get("method") == "tools/call":
            missing = self.needs.get(message["params"]["name"], set()) - grant.scope
            if missing:
                scope = " ".join(sorted(missing))
                return challenge(403, f'error="insufficient_scope", scope="{scope}"')
            self.accounts_of_calls.append(grant.account)
        return await super().answer(request)

    async def other(self, request: web.Request) -> web.StreamResponse:
        """Answer any other request."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append((request.path, form))
        if request.path in self.replies:
            return await self.replies[request.path](request, dict(form))
        match request.path:
            case "/resource":
                return web.json_response(self.about_resource())
            case "/.well-known/oauth-authorization-server":
                return web.json_response(self.about_server())
            case "/register":
                return self.register(orjson.loads(await request.read()))
            case "/token":
                return self.give_token(form, request.headers.get("Authorization", ""))
            case "/revoke":
                self.tokens.pop(form["token"], None)
                self.refresh_tokens.pop(form["token"], None)
                return web.Response()
        return web.Response(status=404)

    def about_resource(self) -> dict[str, Any]:
        """Return its metadata by RFC 9728."""
        found = {
            "resource": self.url,
            "authorization_servers": [self.base],
            "scopes_supported": [SCOPE],
            **self.resource,
        }
        return {name: value for name, value in found.items() if value is not None}

    def about_server(self) -> dict[str, Any]:
        """Return its metadata by RFC 8414."""
        found = {
            "issuer": self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "registration_endpoint": f"{self.base}/register",
            "revocation_endpoint": f"{self.base}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }
        return {name: value for name, value in found.items() if value is not None}

    def register(self, about: dict[str, Any]) -> web.Response:
        """Register a client (RFC 7591)."""
        secret = self.secret()
        made = {**about, "client_id": f"client-{len(self.clients) + 1}", "client_secret": secret}
        self.clients[made["client_id"]] = made
        return web.json_response(made, status=201)

    def secret(self) -> str:
        """Return a new secret, which must not be seen anywhere."""
        made = f"planted-{secrets.token_urlsafe(24)}"
        self.secrets_seen.add(made)
        return made

    def authorize(self, address: str, account: str) -> str:
        """Return where the browser of a person is sent who signs in as ``account`` and consents."""
        query = dict(parse_qsl(urlsplit(address).query))
        assert query["code_challenge_method"] == "S256"
        assert query["resource"] == self.url
        code = self.secret()
        self.codes[code] = {**query, "account": account}
        back = {"code": code, "state": query["state"], "iss": self.about_server()["issuer"]}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def give_token(self, form: dict[str, str], authorization: str) -> web.Response:
        """Answer the token endpoint."""
        client = form.get("client_id", "")
        if authorization.startswith("Basic "):
            pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            client, _, secret = pair.partition(":")
            if unquote(secret) != self.clients.get(client, {}).get("client_secret"):
                return error("invalid_client")
        if form["resource"] != self.url:
            return error("invalid_target")
        if form["grant_type"] == "refresh_token":
            old = form["refresh_token"]
            grant = self.refresh_tokens.get(old)
            if grant is None or grant.client != client:
                return error("invalid_grant")
            if self.rotates:
                del self.refresh_tokens[old]
            return self.answer_with(grant)
        asked = self.codes.pop(form["code"], None)
        if asked is None or asked["client_id"] != client:
            return error("invalid_grant")
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(hashed).decode().rstrip("=") != asked["code_challenge"]:
            return error("invalid_grant")
        if asked["redirect_uri"] != form["redirect_uri"]:
            return error("invalid_grant")
        scope = set(asked.get("scope", "").split())
        return self.answer_with(Grant(asked["account"], scope, client))

    def answer_with(self, grant: Grant) -> web.Response:
        """Return new tokens."""
        access, refresh = self.secret(), self.secret()
        self.tokens[access] = self.refresh_tokens[refresh] = grant
        found: dict[str, Any] = {
            "access_token": access,
            "refresh_token": refresh if self.gives_refresh_tokens else None,
            "token_type": "Bearer",
            "expires_in": self.seconds,
            "scope": " ".join(sorted(grant.scope)),
        }
        return web.json_response({k: v for k, v in found.items() if v is not None})

    def forms(self, kind: str) -> list[dict[str, str]]:
        """Return the requests for tokens of a kind."""
        return [
            form for path, form in self.requests
            if path == "/token" and form.get("grant_type") == kind
        ]  # fmt: skip


def challenge(status: int, parameters: str) -> web.Response:
    """Return a refusal."""
    headers = {"WWW-Authenticate": f"Bearer {parameters}"}
    return web.json_response({"error": "refused"}, status=status, headers=headers)


def error(code: str) -> web.Response:
    """Return an error of RFC 6749, with words that must not be repeated."""
    return web.json_response({"error": code, "error_description": "planted-words"}, status=400)


def query_of(address: str) -> dict[str, str]:
    """Return the parameters of an address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


@contextmanager
def running(server: SigningMcp) -> Iterator[SigningMcp]:
    """Let a server listen on a free port of this machine, in a thread of its own."""
    with malicious_mcp.running(server, server.other):
        yield server
