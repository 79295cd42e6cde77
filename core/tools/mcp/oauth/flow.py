"""OAuth 2.1 at an MCP server, over the functions and types of the official SDK.

:func:`begin` finds the authorization server and returns the address for the person's browser;
:func:`exchange` gets the tokens for the code that comes back, in any process. Addresses, sizes and
times are bounded by the guarded transport. Loading it takes a second.
"""

import asyncio
import base64
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import httpx2
import orjson
from mcp.client.auth import OAuthFlowError, PKCEParameters, utils
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyUrl, ValidationError

from core.lib.text import one_line
from core.providers import addresses
from core.tools.mcp.errors import GrantEndedError, McpError, StoppedError
from core.tools.mcp.oauth.registrations import UNKNOWN
from core.tools.mcp.oauth.secret_values import Client, Started, Tokens
from core.tools.mcp.servers import ServerInfo
from core.tools.mcp.transport import Guard

SECONDS = 20.0
KNOWN_SECONDS = 5.0  # of these, to find out whether a client is still known
MOST_BYTES = 256 * 1024  # of one response: metadata, a registration, tokens
MOST_TOKEN = 16_384
MOST_SCOPE = 2_000
MOST_SECONDS = 10 * 366 * 86_400
BASIC, POST, NONE = "client_secret_basic", "client_secret_post", "none"
OTHER_ISSUER = (
    "Its client id and secret belong to another authorization server than the one that it names "
    "now: enter the secret again, or another client id, if that is right."
)
ENDED = {"invalid_grant", "invalid_client", "unauthorized_client"}
# Beginnings of other codes that will be the same next time; some servers send them with 200.
REFUSALS = ("invalid_", "bad_", "unsupported_", "incorrect_", "token_", "access_denied")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """The metadata of a server, and where people sign in."""

    resource: str
    protected: ProtectedResourceMetadata | None
    metadata: OAuthMetadata


async def begin(
    server: ServerInfo, client: Client, *, scope: str = "", resource_metadata: str = ""
) -> Started:
    """Find where people sign in at a server, and return the address for the browser.

    ``scope``, ``resource_metadata``: as the server has demanded them, if it has. Raises McpError.
    """

    async def work(http: httpx2.AsyncClient) -> Started:
        found = await discover(server, http, resource_metadata)
        return await prepared(server, http, client, found, wanted=scope)

    return await bounded(work, allow_private=server.allow_private)


async def exchange(
    server: ServerInfo, kept: dict[str, str], *, code: str, issuer: str | None
) -> Tokens:
    """Return the tokens for a code. ``kept``: as :func:`begin` returned them; ``issuer``: the
    parameter ``iss`` of the response (RFC 9207). Raises McpError.
    """
    check_issuer(kept, issuer)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": kept["redirect_uri"],
        "code_verifier": kept["verifier"],
        "resource": kept["resource"],
    }
    return await tokens_for(server, kept, form)


def check_issuer(kept: dict[str, str], issuer: str | None) -> None:
    """Raise StoppedError for a response of another authorization server (RFC 9207)."""
    metadata = OAuthMetadata.model_validate_json(kept["metadata"])
    try:
        utils.validate_authorization_response_iss(issuer, metadata)
    except OAuthFlowError:
        words = "The sign-in came back from another authorization server than the one it went to."
        raise StoppedError("issuer", words) from None


async def refresh(server: ServerInfo, kept: dict[str, str]) -> Tokens:
    """Return new tokens. Raises GrantEndedError, or McpError for temporary failures."""
    form = {
        "grant_type": "refresh_token",
        "refresh_token": kept["refresh_token"],
        "resource": kept["resource"],
    }
    return await tokens_for(server, kept, form)


async def tokens_for(server: ServerInfo, kept: dict[str, str], form: dict[str, str]) -> Tokens:
    """Return what the token endpoint gives for a form. Raises as :func:`ask_for_tokens` does."""

    async def work(http: httpx2.AsyncClient) -> Tokens:
        return await ask_for_tokens(server, http, kept, form)

    return await bounded(work, allow_private=server.allow_private)


async def revoke(kept: dict[str, str], *, allow_private: bool) -> None:
    """Revoke tokens at their server (RFC 7009), if it can. Raises McpError."""
    endpoint = OAuthMetadata.model_validate_json(kept["metadata"]).revocation_endpoint
    if endpoint is None:
        return
    info = OAuthClientInformationFull.model_validate_json(kept["client"])

    async def work(http: httpx2.AsyncClient) -> None:
        for kind in ("refresh_token", "access_token"):
            if not kept.get(kind):
                continue
            form, headers = authenticated({"token": kept[kind], "token_type_hint": kind}, info)
            answer = await http.post(str(endpoint), data=form, headers=headers)
            if answer.status_code >= 500 or answer.status_code == 429:
                raise McpError(f"It fails (HTTP {answer.status_code}).")

    await bounded(work, allow_private=allow_private)


async def discover(server: ServerInfo, http: httpx2.AsyncClient, resource_metadata: str) -> Found:
    """Return the metadata of the resource and of its authorization server. Raises McpError."""
    protected = await protected_metadata(server, http, resource_metadata)
    resource = resource_url_from_server_url(server.url)
    issuer: str | None = None
    if protected is not None:
        named = str(protected.resource)
        if not check_resource_allowed(requested_resource=resource, configured_resource=named):
            raise StoppedError("resource", "It names another server as the one to sign in to.")
        resource, issuer = named, str(protected.authorization_servers[0])
        check_address(server, issuer)
    for url in utils.build_oauth_authorization_server_metadata_discovery_urls(issuer, server.url):
        answer = await http.send(utils.create_oauth_metadata_request(url))
        goes_on, metadata = await utils.handle_auth_metadata_response(answer)
        if metadata is not None:
            check_metadata(server, metadata, issuer, at=url)
            return Found(resource, protected, metadata)
        if not goes_on:
            raise McpError(f"Its authorization server fails (HTTP {answer.status_code}).")
    raise McpError("It does not say where people sign in (no metadata of OAuth).")


async def protected_metadata(
    server: ServerInfo, http: httpx2.AsyncClient, resource_metadata: str
) -> ProtectedResourceMetadata | None:
    """Return what the server publishes by RFC 9728; None for a server that publishes nothing."""
    failed = 0
    given = resource_metadata or None
    for url in utils.build_protected_resource_metadata_discovery_urls(given, server.url):
        check_address(server, url)
        answer = await http.send(utils.create_oauth_metadata_request(url))
        if answer.status_code >= 500 or answer.status_code == 429:
            failed = answer.status_code
        found = await utils.handle_protected_resource_response(answer)
        if found is not None:
            return found
    if failed:
        raise McpError(f"It fails (HTTP {failed}).")
    return None


def check_metadata(
    server: ServerInfo, metadata: OAuthMetadata, issuer: str | None, *, at: str
) -> None:
    """Raise McpError for incomplete metadata, or that of another server than ``at``."""
    expected = issuer or origin_of(server.url)
    named = str(metadata.issuer)
    same = {expected.removesuffix("/")}
    # The root of the same server is no other one: Atlassian names it, and slashes come and go. In
    # other folders somebody else may publish what they like, as in a repository.
    if urlsplit(at).path.startswith("/.well-known/"):
        same.add(origin_of(expected))
    if named.removesuffix("/") not in same:
        words = "The metadata of its authorization server is that of another one (issuer)."
        raise StoppedError("issuer", words)
    for url in (
        metadata.authorization_endpoint,
        metadata.token_endpoint,
        metadata.registration_endpoint,
        metadata.revocation_endpoint,
    ):
        if url is not None:
            check_address(server, str(url))
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise McpError("Its authorization server does not support PKCE, which is required.")


def check_address(server: ServerInfo, url: str) -> None:
    """Raise StoppedError for an address that is not HTTPS, unless the server itself is inside the
    network and has none, and for one with a name and password in it.
    """
    parts = urlsplit(url)
    is_plain = parts.scheme == "http"
    may_be_plain = server.allow_private and server.url.lower().startswith("http://")
    if parts.scheme != "https" and not (is_plain and may_be_plain):
        host = one_line(parts.netloc.rpartition("@")[2], 80)
        raise StoppedError("plain", f"It wants people to sign in without encryption ({host}).")
    if "@" in parts.netloc:
        raise StoppedError("plain", "An address for the sign-in has a name or password in it.")


async def prepared(
    server: ServerInfo, http: httpx2.AsyncClient, client: Client, found: Found, *, wanted: str
) -> Started:
    """Return what is needed to go on with a sign-in: the client is registered here."""
    metadata = found.metadata
    demanded = utils.get_client_metadata_scopes(
        wanted or None, found.protected, metadata, ["authorization_code", "refresh_token"]
    )
    scope = (demanded or "")[:MOST_SCOPE]
    info, is_new = await client_for(server, http, client, found, scope)
    pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
    query = {
        "response_type": "code",
        "client_id": info.client_id,
        "redirect_uri": client.redirect_uri,
        "state": state,
        "code_challenge": pkce.code_challenge,
        "code_challenge_method": "S256",
        "resource": found.resource,
        **({"scope": scope} if scope else {}),
        # OpenID Connect Core 11: without it no refresh token is given.
        **({"prompt": "consent"} if "offline_access" in scope.split() else {}),
    }
    return Started(
        address=with_query(str(metadata.authorization_endpoint), query),
        state=state,
        scope=scope,
        kept={
            "metadata": metadata.model_dump_json(exclude_none=True),
            "client": info.model_dump_json(exclude_none=True),
            "resource": found.resource,
            "redirect_uri": client.redirect_uri,
            "verifier": pkce.code_verifier,
        },
        issuer=str(metadata.issuer),
        registered=info.model_dump_json(exclude_none=True) if is_new else "",
    )


async def client_for(
    server: ServerInfo,
    http: httpx2.AsyncClient,
    client: Client,
    found: Found,
    scope: str,
) -> tuple[OAuthClientInformationFull, bool]:
    """Return the client to sign in with, and whether it was registered just now: the owner's, that
    of a metadata document, the one of last time, or a new one.
    """
    metadata = found.metadata
    methods = metadata.token_endpoint_auth_methods_supported
    if client.client_id:
        if client.issuer and client.issuer != str(metadata.issuer):
            raise StoppedError("client", OTHER_ISSUER)
        method = method_of(methods, has_secret=bool(client.client_secret))
        given = {
            "client_id": client.client_id,
            "client_secret": client.client_secret,
            "token_endpoint_auth_method": method,
        }
        return OAuthClientInformationFull.model_validate(given), False
    if utils.should_use_client_metadata_url(metadata, client.metadata_url or None):
        return utils.create_client_info_from_metadata_url(client.metadata_url), False
    known = registered_before(client, str(metadata.issuer))
    can_register = metadata.registration_endpoint is not None
    asks = can_register and not client.is_known
    if known is not None and not (asks and await is_forgotten(server, http, known, found)):
        return known, False
    if not can_register:
        words = "Its authorization server registers no clients: enter a client id and its secret."
        raise McpError(words)
    return await register(http, client, metadata, scope), True


def registered_before(client: Client, issuer: str) -> OAuthClientInformationFull | None:
    """Return the client registered with this server and return address, unless expired."""
    if not client.registration:
        return None
    known = OAuthClientInformationFull.model_validate_json(client.registration)
    if 0 < (known.client_secret_expires_at or 0) <= time.time():
        return None
    has_address = client.redirect_uri in [str(each) for each in known.redirect_uris or ()]
    return known if has_address and known.issuer == issuer else None


async def is_forgotten(
    server: ServerInfo, http: httpx2.AsyncClient, known: OAuthClientInformationFull, found: Found
) -> bool:
    """Return whether an authorization server does not know a client any more: its page would only
    tell the person so. Asked for the tokens of a code that it never gave, it then refuses the
    client, and not the code (RFC 6749, 5.2).
    """
    form = {
        "grant_type": "authorization_code",
        "code": secrets.token_urlsafe(32),
        "redirect_uri": str(next(iter(known.redirect_uris or ()), "")),
        "code_verifier": PKCEParameters.generate().code_verifier,
        "resource": found.resource,
    }
    kept = {
        "metadata": found.metadata.model_dump_json(exclude_none=True),
        "client": known.model_dump_json(exclude_none=True),
    }
    try:
        async with asyncio.timeout(KNOWN_SECONDS):
            await ask_for_tokens(server, http, kept, form)
    except GrantEndedError as refused:
        return refused.code in {*UNKNOWN, ""}
    except (McpError, TimeoutError, httpx2.TransportError):
        return False  # it may pass
    return False


async def register(
    http: httpx2.AsyncClient, client: Client, metadata: OAuthMetadata, scope: str
) -> OAuthClientInformationFull:
    """Register a client (RFC 7591). Raises McpError."""
    methods = metadata.token_endpoint_auth_methods_supported
    wanted = method_of(methods, has_secret=True) if methods else None
    is_web = client.redirect_uri.startswith("https://")
    about = OAuthClientMetadata.model_validate(
        {
            "client_name": client.name,
            "redirect_uris": [AnyUrl(client.redirect_uri)],
            "token_endpoint_auth_method": wanted,
            "application_type": "web" if is_web else "native",
            "scope": scope or None,
        }
    )
    request = utils.create_client_registration_request(metadata, about, "")
    try:
        info = await utils.handle_registration_response(await http.send(request))
    except OAuthFlowError:
        raise McpError("Its authorization server did not register the gateway.") from None
    default = BASIC if info.client_secret else NONE
    info.token_endpoint_auth_method = info.token_endpoint_auth_method or wanted or default
    if info.token_endpoint_auth_method not in {BASIC, POST, NONE} or (
        info.token_endpoint_auth_method != NONE and not info.client_secret
    ):
        raise McpError("Its authorization server wants clients to prove themselves in another way.")
    info.issuer = str(metadata.issuer)
    info.redirect_uris = about.redirect_uris
    return info


def method_of(supported: list[str] | None, *, has_secret: bool) -> str:
    """Return how the client proves itself at the token endpoint; RFC 8414 names the default."""
    if not has_secret:
        return NONE
    among = supported or [BASIC]
    return next((each for each in (BASIC, POST, NONE) if each in among), POST)


def authenticated(
    form: dict[str, str], info: OAuthClientInformationFull
) -> tuple[dict[str, str], dict[str, str]]:
    """Return a form with the client's id and, as it is registered, its secret; and the headers."""
    secret, method = info.client_secret, info.token_endpoint_auth_method
    if secret and method == BASIC:
        pair = f"{quote(info.client_id, safe='')}:{quote(secret, safe='')}"
        token = base64.b64encode(pair.encode()).decode()
        return {**form, "client_id": info.client_id}, {"Authorization": f"Basic {token}"}
    if secret and method == POST:
        return {**form, "client_id": info.client_id, "client_secret": secret}, {}
    return {**form, "client_id": info.client_id}, {}


async def ask_for_tokens(
    server: ServerInfo, http: httpx2.AsyncClient, kept: dict[str, str], form: dict[str, str]
) -> Tokens:
    """Ask the token endpoint. Raises GrantEndedError, McpError."""
    metadata = OAuthMetadata.model_validate_json(kept["metadata"])
    check_address(server, str(metadata.token_endpoint))
    info = OAuthClientInformationFull.model_validate_json(kept["client"])
    data, headers = authenticated(form, info)
    headers = {**headers, "Accept": "application/json"}
    answer = await http.post(str(metadata.token_endpoint), data=data, headers=headers)
    status, code = answer.status_code, error_code(answer)
    if status in {200, 201} and not code:
        return tokens_of(answer)
    if is_final(status, code):
        words = f"Its authorization server refuses the sign-in ({code or f'HTTP {status}'})."
        raise GrantEndedError(code, words)
    about = f"HTTP {status}, {code}" if code else f"HTTP {status}"
    raise McpError(f"Its authorization server gives no token ({about}).")


def is_final(status: int, code: str) -> bool:
    """Return whether a refusal of the token endpoint will be the same next time."""
    if not code:
        return status == 401
    return code in ENDED or (status < 500 and status != 429 and code.startswith(REFUSALS))


def error_code(answer: httpx2.Response) -> str:
    """Return the code of an error of RFC 6749; empty for anything else, which may hold secrets."""
    try:
        code = orjson.loads(answer.content)["error"]
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
        return ""
    is_code = isinstance(code, str) and len(code) <= 40 and code.replace("_", "").isalpha()
    return code if is_code and code.isascii() else ""


def tokens_of(answer: httpx2.Response) -> Tokens:
    """Return the tokens of a response. Raises McpError."""
    bad = "The answer of its authorization server has no usable token."
    try:
        found = OAuthToken.model_validate_json(answer.content)
    except ValidationError:
        raise McpError(bad) from None  # the cause repeats the answer
    for token in (found.access_token, found.refresh_token or "x"):
        if not token or len(token) > MOST_TOKEN or not token.isascii() or not token.isprintable():
            raise McpError(bad)
    if " " in found.access_token:
        raise McpError(bad)
    seconds = found.expires_in
    return Tokens(
        access_token=found.access_token,
        refresh_token=found.refresh_token or "",
        seconds=max(0, min(seconds, MOST_SECONDS)) if seconds is not None else None,
        scope=(found.scope or "")[:MOST_SCOPE],
    )


def with_query(url: str, query: dict[str, str]) -> str:
    """Return an address with parameters added to those that it has; ours count."""
    parts = urlsplit(url)
    own = [each for each in parse_qsl(parts.query, keep_blank_values=True) if each[0] not in query]
    return urlunsplit(parts._replace(query=urlencode([*own, *query.items()]), fragment=""))


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


async def bounded(work: Callable[[httpx2.AsyncClient], Awaitable[T]], *, allow_private: bool) -> T:
    """Return the result of ``work`` with a guarded client, within SECONDS. Raises McpError, whose
    text and cause have no words of a server: they may repeat secrets.
    """
    guard = Guard(addresses.allowed_of(private=allow_private), most_bytes=MOST_BYTES)
    client = httpx2.AsyncClient(
        transport=guard, timeout=None, follow_redirects=False, trust_env=False
    )
    try:
        async with client, asyncio.timeout(SECONDS):
            result = await work(client)
    except McpError:
        raise
    except TimeoutError as error:
        raise McpError(f"It did not answer within {SECONDS:.0f} seconds.") from error
    except httpx2.TransportError as error:
        raise guard.stopped or McpError("Its authorization server cannot be reached.") from error
    except (OAuthFlowError, httpx2.InvalidURL, ValueError):
        words = "Its answers about the sign-in do not follow the protocol."
        raise McpError(words) from None
    return result
