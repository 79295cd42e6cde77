"""The contract of a channel plugin: what a channel can do, and how it says what failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class ChannelError(Exception):
    """The platform did not take a message.

    ``permanent``: trying again is useless. ``retry_after``: seconds the platform asked for.
    ``unsure``: the request went out and nobody knows its outcome (read time-out, connection lost).
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        retry_after: float | None = None,
        unsure: bool = False,
    ) -> None:
        """The text is the platform's words, without secrets."""
        super().__init__(message)
        self.permanent = permanent
        self.retry_after = retry_after
        self.unsure = unsure


@dataclass(frozen=True, slots=True)
class Account:
    """An account as a plugin sees it: settings and decrypted secrets."""

    id: int
    channel: str
    name: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a message goes; ids are the platform's."""

    chat: str
    thread: str = ""
    reply_to: str = ""


class Channel(Protocol):
    """A channel that answers on a platform of its own.

    ``text_limit``: characters of one message. ``idempotent``: the platform drops a second message
    with the same ``key``, so that sending again after a crash is safe.
    """

    id: str
    name: str
    text_limit: int
    idempotent: bool

    async def send_text(self, *, account: Account, target: Target, text: str, key: str) -> str:
        """Send ``text``; the platform's message id. Raises ChannelError."""
        ...
