"""The bridge plugin: one signed POST to the address that the owner registered."""

import hashlib
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
from django.conf import settings

from channels_app.base import (
    Account,
    Block,
    Capability,
    ChannelError,
    Field,
    Health,
    Pace,
    Target,
    WholeAnswer,
)
from channels_app.bridge import adapter, signing
from core.lib.safe_fetch import Fetcher, RefusedAddressError, is_public, is_public_or_private
from core.lib.text import clean, is_number
from core.markdown import markdown_to_channel

CALL_SECONDS = 30.0
MOST_RETRY_AFTER = 3600.0
KINDS = ("im", "email", "phone")


def shown(text: str) -> str:
    """Convert Markdown to the text that the bridge's platform shows."""
    return markdown_to_channel(text, settings.OUTBOUND_MARKDOWN_FORMAT)


class BridgeConfig:
    """The fields of an account for callbacks; without them, it serves ``/inbound`` and ``/ws``."""

    fields: Sequence[Field] = (
        Field(
            "callback_url", "Callback", "Your bridge's …/get_response; answers are POSTed there."
        ),
        Field(
            "signing_secret",
            "Signing secret",
            f"At least {signing.MIN_SECRET} characters; signs requests and callbacks.",
            secret=True,
        ),
        Field(
            "allow_private",
            "Private address",
            "true: the callback may be on this machine or in your own network.",
            choices=("", "true"),
        ),
        Field(
            "kind",
            "Kind of sender",
            "The list of identities to check.",
            default="im",
            choices=KINDS,
        ),
    )

    def problems(self, account: Account) -> list[str]:
        """Return messages about missing or invalid settings."""
        found = []
        url = str(account.config.get("callback_url") or "")
        if url and not is_address(url):
            found.append("callback_url is an http(s) address without a password in it.")
        if url and len(account.secrets.get("signing_secret", "")) < signing.MIN_SECRET:
            found.append(f"A callback needs a signing_secret of {signing.MIN_SECRET} characters.")
        if account.config.get("kind", "im") not in KINDS:
            found.append(f"kind is one of {', '.join(KINDS)}.")
        return found


def is_address(url: str) -> bool:
    """Return whether ``url`` can be called; its IP address is checked at every call."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    bare = parts.username is None and parts.password is None and port != 0
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and bare


class BridgeGateway:
    """Messages come in at ``POST /process``."""

    async def prepare(self, account: Account, *, base_url: str) -> str:
        """Do nothing: the owner gives the address to the bridge's author."""
        return f"takes requests at {base_url}/process"

    async def retire(self, account: Account) -> None:
        """Do nothing: no platform has to know."""

    async def check(self, account: Account) -> Health:
        """Check the settings; an unreachable bridge shows in its deliveries."""
        return Health(problem=" ".join(BridgeConfig().problems(account)))

    async def test(self, account: Account) -> str:
        """Send the callback a message that answers nothing. Raises ChannelError."""
        block = {"text": "Latchkey: this is a test."}
        await post(account, Target(chat=""), block, "test")
        return "the callback answered"

    async def close(self) -> None:
        """Do nothing: every call has a connection of its own."""


@dataclass(slots=True)
class BridgeOutbound:
    def render(self, text: str) -> list[Block]:
        """Return the blocks of results and notices."""
        return adapter.unasked(shown(text))

    def render_answer(self, answer: WholeAnswer) -> Block | None:
        """Return the only callback of a request; None for requests of other endpoints."""
        if not answer.request:
            return None
        return adapter.answer(answer, text=shown(answer.text))

    def can_push(self, account: Account) -> bool:
        """Return whether the account has a callback."""
        return bool(account.config.get("callback_url") and account.secrets.get("signing_secret"))

    async def send_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Send a callback. Raises ChannelError."""
        return await post(account, target, block, key)

    reply_text = send_text  # the block has the id of its request


async def post(account: Account, target: Target, block: Block, key: str) -> str:
    """Send one signed POST; return the bridge's message id, else our key. Raises ChannelError."""
    url = str(account.config.get("callback_url") or "")
    secret = account.secrets.get("signing_secret", "")
    if not url or not secret:
        raise ChannelError("the account has no callback", permanent=True, trouble="auth")
    body = adapter.body(block, target=target, key=key)
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": key if key.isprintable() else hashlib.sha256(key.encode()).hexdigest(),
        **signing.headers(secret=secret, now=time.time(), body=body),
    }
    try:
        found = await fetcher(account.config).post(url, body=body, headers=headers)
    except RefusedAddressError as error:
        raise ChannelError(f"the callback's {error}", permanent=True) from error
    except (aiohttp.ClientConnectorError, socket.gaierror) as error:
        raise ChannelError("the callback cannot be reached") from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ChannelError("the callback did not answer in time", unsure=True) from error
    if 200 <= found.status < 300:
        return message_id(found.body) or key
    raise refusal(found.status, found.headers)


def fetcher(config: Mapping[str, Any]) -> Fetcher:
    """Return the guarded fetcher of an account: private addresses only if the account says so."""
    private = str(config.get("allow_private") or "").lower() == "true"
    return Fetcher(
        allowed=is_public_or_private if private else is_public,
        ports=None,
        local_names=private,
        max_seconds=CALL_SECONDS,
    )


def message_id(body: bytes) -> str:
    """Return ``message_id`` of a bridge's JSON answer, if there is one."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    found = value.get("message_id", "") if isinstance(value, dict) else ""
    return clean(found)[:200] if isinstance(found, str) else ""


def refusal(status: int, headers: Mapping[str, str]) -> ChannelError:
    """Return the error for a status other than 2xx: only 5xx and 429 are retried."""
    if 300 <= status < 400:
        return ChannelError(f"the callback redirects ({status}): not followed", permanent=True)
    if status == 429 or status >= 500:
        after = next((headers[name] for name in headers if name.lower() == "retry-after"), "")
        seconds = min(float(after), MOST_RETRY_AFTER) if is_number(after, 6) else None
        return ChannelError(f"the callback answered {status}", retry_after=seconds)
    return ChannelError(f"the callback answered {status}", permanent=True)


class BridgeChannel:
    """The plugin. A bridge drops a second callback with the same ``delivery_id``."""

    id = "bridge"
    name = "Bridge"
    description = "Any other platform, through a small program of yours."
    idempotent = True
    pace = Pace()
    capabilities: frozenset[Capability] = frozenset({Capability.WHOLE})
    config = BridgeConfig()
    gateway = BridgeGateway()
    outbound = BridgeOutbound()

    def is_group(self, chat: str) -> bool:
        """Return False: bridges do not report groups."""
        return False


CHANNEL = BridgeChannel()
