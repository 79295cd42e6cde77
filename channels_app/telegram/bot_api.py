"""The client of the Bot API, and the meaning of its errors for the outbox (docs/decisions/182).

The bot token is part of every URL. So nothing here logs or repeats an address, errors contain only
Telegram's description, without the token.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from http import HTTPStatus
from operator import methodcaller
from typing import IO, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from channels_app.base import Account, ChannelError, Trouble
from core.lib import leases
from core.lib.per_loop import per_loop

BASE = "https://api.telegram.org"
CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
MOST_DOWNLOAD_BYTES = 20 * 1024 * 1024
TOO_LARGE = "the file is larger than 20 MB"
MOST_UPLOAD_BYTES = 50 * 1024 * 1024  # at Telegram's own server

# Objects of python-telegram-bot are written as the API has them; the web process loads none.
to_json = partial(json.dumps, default=methodcaller("to_dict"))
Upload = tuple[str, bytes | IO[bytes], str]  # file name, content, media type

# Telegram's description -> the chat's or the file's problem. All of them are permanent.
TROUBLES: dict[str, Trouble] = {
    "bot was blocked by the user": "blocked",
    "user is deactivated": "blocked",
    "bot can't initiate conversation": "blocked",
    "bot was kicked": "kicked",
    "bot is not a member": "kicked",
    # A group may forbid some kinds: a photo may still come as a file, a file as its link.
    "not enough rights to send photos": "",
    "not enough rights to send documents": "too_large",
    "not enough rights to send audios": "too_large",
    "not enough rights": "kicked",
    "chat not found": "chat_not_found",
    "group chat was deleted": "chat_not_found",
    "message to edit not found": "gone",
    "message can't be edited": "gone",
    "message to delete not found": "gone",
    "message_id_invalid": "gone",
}

# "wrong file_id or the file is temporarily unavailable"
PASSING = "temporarily unavailable"
NOT_ACCEPTED = (
    "Telegram does not accept the bot token ({words}). Was it revoked in @BotFather? Paste the "
    "current one into the account."
)


@per_loop
def session() -> aiohttp.ClientSession:
    """Return the connections of the running event loop."""
    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS
    )
    return aiohttp.ClientSession(timeout=timeout, request_class=leases.LeasedRequest)


def proxy_of(address: str) -> str | None:
    """Return the proxy that the environment names for requests to ``address``."""
    parts = urlsplit(address)
    return proxy_to(parts.scheme, parts.netloc)


@cache
def proxy_to(scheme: str, place: str) -> str | None:
    """Return the same from a cache: aiohttp would read the environment before each request."""
    return None if proxy_bypass(place) else getproxies().get(scheme)


def request(
    method: str, url: str, **more: Any
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    """Start a request to the Bot API: without redirects, through the environment's proxy."""
    return session().request(method, url, allow_redirects=False, proxy=proxy_of(url), **more)


async def close() -> None:
    found = session.pop()
    if found is not None:
        await found.close()


def base_of(account: Account) -> str:
    """Return the address of the Bot API server."""
    return str(account.config.get("api_base") or BASE).rstrip("/")


async def call(
    account: Account,
    method: str,
    *,
    seconds: float = 0.0,
    files: Mapping[str, Upload] | None = None,
    **values: Any,
) -> Any:
    """Call a method; return its ``result`` as Telegram sent it.

    Raises ChannelError, and LeaseOverError instead of a call past the end of a lease.
    ``seconds``: how much longer than usual the answer may take. ``files``: the uploads, by
    parameter. ``values``: the other parameters; those that are None are left out.
    """
    token = account.secrets.get("token", "")
    if not token:
        raise ChannelError("the account has no bot token", permanent=True, trouble="auth")
    leases.check()
    given = {name: value for name, value in values.items() if value is not None}
    timeout = aiohttp.ClientTimeout(
        total=None if files else READ_SECONDS + seconds,  # a large file may take its time
        sock_connect=CONNECT_SECONDS,
        sock_read=READ_SECONDS + seconds,
    )
    try:
        url = f"{base_of(account)}/bot{token}/{method}"
        async with request("POST", url, timeout=timeout, data=form(given, files or {})) as answer:
            status, payload = answer.status, await answer.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise not_answered(error) from None
    if status != HTTPStatus.OK:
        raise refusal(status, payload, token=token)
    try:
        return json.loads(payload)["result"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ChannelError("the platform's answer was not understood", unsure=True) from None


def form(values: Mapping[str, Any], files: Mapping[str, Upload]) -> aiohttp.FormData:
    """Return a form, multipart with ``files``; a value that is no text is JSON in it."""
    made = aiohttp.FormData(quote_fields=False)  # else people see report%20May.pdf
    for name, value in values.items():
        made.add_field(name, value if isinstance(value, str) else to_json(value))
    for name, (filename, content, content_type) in files.items():
        made.add_field(name, content, filename=filename, content_type=content_type)
    return made


async def fetch(account: Account, path: str) -> bytes:
    """Download a file from Telegram, at most MOST_DOWNLOAD_BYTES. Raises ChannelError."""
    token = account.secrets.get("token", "")
    url = f"{base_of(account)}/file/bot{token}/{path.lstrip('/')}"
    content = b""
    try:
        async with request("GET", url) as answer:
            if answer.status != HTTPStatus.OK:
                raise ChannelError(f"the file could not be fetched (status {answer.status})")
            async for part in answer.content.iter_chunked(65_536):
                content += part
                if len(content) > MOST_DOWNLOAD_BYTES:
                    raise ChannelError(TOO_LARGE, permanent=True)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ChannelError(f"the file could not be fetched ({type(error).__name__})") from None
    return content


def not_answered(error: Exception) -> ChannelError:
    """Return the error for a missing answer: surely not sent without a connection, else unknown."""
    if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)):
        return ChannelError(f"no connection ({type(error).__name__})")
    return ChannelError(f"no answer ({type(error).__name__})", unsure=True)


def refusal(status: int, payload: bytes, *, token: str) -> ChannelError:
    """Return the error for an answer other than 200: permanent, retry later, or unknown."""
    description, parameters = said_in(payload)
    words = description.replace(token, "[token]")[:400] if token else description[:400]
    words = words or f"status {status}"
    if "migrate_to_chat_id" in parameters:
        moved = str(parameters["migrate_to_chat_id"])
        return ChannelError(words, trouble="migrated", moved_to=moved)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        asked = parameters.get("retry_after")
        asked = asked if isinstance(asked, int | float) and asked > 0 else 1
        return ChannelError(words, retry_after=asked)
    if status == HTTPStatus.NOT_FOUND and "method" in words.lower():  # not the token's fault
        return ChannelError(words, permanent=True)
    if status in {401, 404}:
        return ChannelError(NOT_ACCEPTED.format(words=words), permanent=True, trouble="auth")
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return ChannelError(words, permanent=True, trouble="too_large")
    if status == 409:
        return ChannelError(words, trouble="conflict")
    if status == HTTPStatus.NOT_IMPLEMENTED:  # a server of one's own may not know every method
        return ChannelError(words, permanent=True)
    if status >= 500:
        # A proxy of Telegram may fail after the message was accepted.
        return ChannelError(words, unsure=status in {502, 504})
    low = words.lower()
    trouble: Trouble = next((state for text, state in TROUBLES.items() if text in low), "")
    return ChannelError(words, permanent=PASSING not in low, trouble=trouble)


def said_in(payload: bytes) -> tuple[str, dict[str, Any]]:
    """Return description and parameters of an error; empty ones when it has another form."""
    try:
        said = json.loads(payload)
        parameters = said.get("parameters")
        description = str(said.get("description") or "")
        return description, parameters if isinstance(parameters, dict) else {}
    except (ValueError, AttributeError, RecursionError):
        return "", {}
