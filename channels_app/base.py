"""The contract of a channel plugin ([C1]): its capabilities and its errors.

A plugin is one object with five parts:

* ``config``   the settings and secrets of an account, and the check that they suffice
* ``gateway``  how messages come in: by polling or by the platform's calls; checks of the account
* ``outbound`` how answers go out: ``render``, ``send_text``, ``reply_text`` and what it declares
* ``pace``     how many messages the platform takes
* ``capabilities`` what else it can do; undeclared means absent, not stubbed

This module imports no Django: a plugin is tested without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable
from urllib.parse import quote

# One message as the platform shows it, kept in the outbox as JSON: ``text``, and values of the
# channel's own adapter (Telegram: ``entities``); ``buttons`` is a list of rows.
Block = dict[str, Any]

FileKind = Literal["photo", "document", "audio"]
Trouble = Literal[
    "",
    "blocked",
    "kicked",
    "migrated",
    "chat_not_found",
    "gone",
    "conflict",
    "auth",
    "form",
    "too_large",
]

# Seconds. A platform or a plugin that asks for more is wrong.
MOST_RETRY_AFTER = 86_400.0


class Capability(StrEnum):
    """Optional abilities of a channel besides sending and replying; each has a protocol."""

    EDIT = "edit"  # Edits
    DELETE = "delete"  # Deletes
    FIND = "find"  # FindsSent; only with EDIT
    TYPING = "typing"  # Types
    REACTIONS = "reactions"  # Reacts
    FILES = "files"  # SendsFiles
    BUTTONS = "buttons"  # AnswersButtons
    DOWNLOAD = "download"  # Downloads
    POLLING = "polling"  # Polls
    TOPICS = "topics"  # OpensTopics
    ONE_MESSAGE = "one_message"  # RendersOne
    WHOLE = "whole"  # AnswersWhole


class ChannelError(Exception):
    """The platform did not accept a request.

    ``permanent``: retrying is useless. ``retry_after``: the seconds that the platform asks to wait,
    at most a day; 0 or less counts as none. ``unsure``: the outcome is unknown (read time-out,
    connection lost). ``trouble``: a state of the chat or the account to report to its owner; or
    ``form``: a rich form was refused (:class:`RendersRich`); or ``too_large``: the link is sent in
    place of the file. ``moved_to``: the new id of a chat that was ``migrated``.
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        retry_after: float | None = None,
        unsure: bool = False,
        trouble: Trouble = "",
        moved_to: str = "",
    ) -> None:
        """Take the platform's description, without secrets."""
        super().__init__(message)
        self.permanent = permanent
        seconds = retry_after if retry_after and retry_after > 0 else None  # NaN is not above 0
        self.retry_after = seconds and min(seconds, MOST_RETRY_AFTER)
        self.unsure = unsure
        self.trouble: Trouble = trouble
        # Neither the chat's nor the account's: another message may be accepted.
        self.is_of_message = trouble in {"form", "too_large"}
        self.moved_to = moved_to


class ForgedCallError(Exception):
    """A call does not come from the platform: its secret or its signature is missing or wrong."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account as a plugin gets it: settings and decrypted secrets (never in its ``repr``)."""

    id: int
    channel: str
    name: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a message; ids are the platform's."""

    chat: str
    thread: str = ""
    reply_to: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate limits of a platform; edits count. 0 means no limit. Seconds, or a number."""

    per_second: int = 0
    chat_seconds: float = 0.0
    group_per_minute: int = 0
    edit_seconds: float = 1.2
    group_edit_seconds: float = 3.0
    find_seconds: float = 0.25


@dataclass(frozen=True, slots=True)
class Field:
    """One setting or secret of an account; ``secret`` ones are stored encrypted and never shown.

    ``made``: when left empty, the gateway generates a random value. ``single``: no two enabled
    accounts of the channel may have the same value.
    """

    name: str
    label: str
    help: str = ""
    secret: bool = False
    required: bool = False
    default: str = ""
    choices: Sequence[str] = ()
    made: bool = False
    single: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """The state of an account: ``problem`` in the platform's words (empty: healthy) and facts;
    those whose names end in ``_at`` are seconds since 1970.
    """

    problem: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """A platform's POST to the webhook of an account. ``headers`` finds a name in any case."""

    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file stored on the platform; ``size`` is the declared size in bytes, 0 if undeclared."""

    id: str
    name: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file to send."""

    kind: FileKind
    name: str
    content: bytes = field(repr=False)
    content_type: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """The end of a run as a channel with capability WHOLE gets it.

    ``request`` is the id of the answered message; ``images`` are data URLs; ``options`` are those
    stored with the request; ``code`` is the kind of a failure, as at ``/inbound``.
    """

    request: str
    session: str
    text: str
    error: str
    images: Sequence[str]
    options: Mapping[str, Any]
    code: str = ""


class Config(Protocol):
    """The settings that an account of this channel needs."""

    fields: Sequence[Field]

    def problems(self, account: Account) -> list[str]:
        """Return messages about missing or invalid settings: with any, an account is not
        enabled.
        """
        ...


@runtime_checkable
class TellsIdentity(Protocol):
    """A config by which accounts of the platform are told apart. The ids of messages are those of
    one: another one is no change of the settings.
    """

    def identity(self, account: Account) -> str:
        """Return the platform's id of an account; empty where the settings do not have it. Pure."""
        ...


class Gateway(Protocol):
    """The inbound side of an account."""

    async def prepare(self, account: Account, *, base_url: str) -> str:
        """Register the gateway at the platform; called when an enabled account was saved.

        Returns a short description of the result. Raises ChannelError.
        """
        ...

    async def retire(self, account: Account) -> None:
        """Unregister; called when an account was disabled. Raises ChannelError."""
        ...

    async def check(self, account: Account) -> Health:
        """Query the platform for the account's state. Raises ChannelError."""
        ...

    async def test(self, account: Account) -> str:
        """Return the account's own name (``@name``), for "test connection". Raises ChannelError."""
        ...

    async def close(self) -> None:
        """Close the connections of the running event loop, which ends."""
        ...


class Outbound(Protocol):
    """The outbound side of an account."""

    def render(self, text: str) -> list[Block]:
        """Convert Markdown into platform messages. Pure; every block is within the limits."""
        ...

    async def send_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Send ``block``; return the platform's message id. Raises ChannelError."""
        ...

    async def reply_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Send ``block`` as a reply to ``target.reply_to``, or plainly when that was deleted."""
        ...


class Channel(Protocol):
    """A plugin. ``idempotent``: the platform drops a second message with the same ``key``, so that
    sending again after a crash is safe.
    """

    id: str
    name: str
    description: str
    idempotent: bool
    pace: Pace
    capabilities: frozenset[Capability]

    @property
    def config(self) -> Config: ...

    @property
    def gateway(self) -> Gateway: ...

    @property
    def outbound(self) -> Outbound:
        """Return the outbound side; a heavy library may be loaded on first use."""
        ...

    def is_group(self, chat: str) -> bool:
        """Return whether the chat has several members."""
        ...


@runtime_checkable
class Edits(Protocol):
    """Capability EDIT."""

    async def edit_text(
        self, *, account: Account, target: Target, message_id: str, block: Block
    ) -> None:
        """Replace a message; the same content is a success. Raises ChannelError, with
        ``trouble="gone"`` for a message that is not there.
        """
        ...


@runtime_checkable
class Deletes(Protocol):
    """Capability DELETE."""

    async def delete_message(self, *, account: Account, target: Target, message_id: str) -> None:
        """Delete a message; a deleted one is a success. Raises ChannelError."""
        ...


@runtime_checkable
class FindsSent(Protocol):
    """Capability FIND: find a sent message whose id was lost.

    Message ids are numbers that grow within a sequence, and an account recognises its own messages.
    """

    def sequence(self, chat: str) -> str:
        """Return the name of the sequence that numbers the messages of ``chat``. Pure."""
        ...

    async def is_ours(
        self, *, account: Account, target: Target, message_id: str, block: Block
    ) -> bool:
        """Return whether a message is the account's own, at ``target`` and of the kind of
        ``block``.

        Such a message shows ``block`` afterwards; no other is changed. ``block`` is a text or
        ``{"kind": …, "caption": …}``. Raises ChannelError when it cannot be determined now.
        """
        ...


@runtime_checkable
class Types(Protocol):
    """Capability TYPING."""

    async def send_typing(self, *, account: Account, target: Target) -> None:
        """Show a typing indicator for a few seconds. Raises ChannelError."""
        ...


@runtime_checkable
class Reacts(Protocol):
    """Capability REACTIONS."""

    async def add_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        """Add the acknowledgement reaction to a message. Raises ChannelError."""
        ...

    async def remove_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        """Remove it; a missing reaction is a success. Raises ChannelError."""
        ...


@runtime_checkable
class SendsFiles(Protocol):
    """Capability FILES."""

    async def send_file(
        self, *, account: Account, target: Target, file: OutgoingFile, key: str
    ) -> str:
        """Send a photo, an audio file or a document; return its message id. Raises ChannelError."""
        ...


@runtime_checkable
class AnswersButtons(Protocol):
    """Capability BUTTONS: blocks may carry ``buttons``; a press expects a response."""

    async def answer_button(self, *, account: Account, press: str, text: str) -> None:
        """Show ``text`` to the user who pressed; too late is a success. Raises ChannelError."""
        ...


@runtime_checkable
class Downloads(Protocol):
    """Capability DOWNLOAD."""

    max_download_bytes: int

    async def download_media(self, *, account: Account, file: RemoteFile) -> bytes:
        """Return the bytes of a file, at most ``max_download_bytes``. Raises ChannelError."""
        ...


@runtime_checkable
class Polls(Protocol):
    """Capability POLLING, of a gateway."""

    def wants_polling(self, account: Account) -> bool:
        """Return whether this account polls (otherwise it uses a webhook)."""
        ...

    async def poll(self, account: Account) -> None:
        """Fetch updates and store them in the inbox until cancelled. Raises ChannelError;
        ``trouble="conflict"`` when another client fetches them.
        """
        ...


@runtime_checkable
class TakesCalls(Protocol):
    """A gateway that the platform calls at :func:`webhook_url`."""

    def take_call(self, account: Account, call: Call) -> bytes:
        """Store the messages of a call in the inbox; return the body of the 200: JSON, or empty.

        Runs in a thread with a database connection, for enabled accounts only. Raises
        ForgedCallError, answered with 403. Any other error is logged and answered with 500: the
        platform sends the call again.
        """
        ...


def webhook_url(account: Account, *, base_url: str) -> str:
    """Return the address at which the platform calls a gateway that :class:`TakesCalls`."""
    return f"{base_url}/channels/{account.channel}/{quote(account.name, safe='')}/webhook"


@runtime_checkable
class OpensTopics(Protocol):
    """Capability TOPICS: a chat may be divided into topics."""

    async def open_topic(self, *, account: Account, chat: str, title: str) -> str:
        """Open a topic; return its id, empty when the chat has no topics. Raises ChannelError."""
        ...

    async def close_topic(self, *, account: Account, chat: str, thread: str) -> None:
        """Close a topic; a closed or deleted one is a success. Raises ChannelError."""
        ...


@runtime_checkable
class RendersOne(Protocol):
    """Capability ONE_MESSAGE: a text of any length as one message with a mark where it is cut."""

    def render_one(self, text: str) -> Block | None:
        """Render Markdown as one message, cut with ``… (truncated)``; None when it is empty."""
        ...


@runtime_checkable
class RendersGrowing(Protocol):
    """An outbound side that shows a growing answer in several messages."""

    def render_growing(self, text: str) -> list[Block]:
        """Render an unfinished text; messages that are full do not change any more."""
        ...


@runtime_checkable
class ShowsDrafts(Protocol):
    """An outbound side that can show a growing text which is no message yet."""

    def takes_drafts(self, account: Account, chat: str) -> bool:
        """Return whether drafts are shown there, as far as is known."""
        ...

    async def show_draft(
        self, *, account: Account, target: Target, number: int, block: Block
    ) -> bool:
        """Show ``block`` in place of the draft with the same ``number`` (1 to 2^31 - 1) until a
        message is sent, or for half a minute. Return False when the account has no drafts. Raises
        ChannelError.
        """
        ...


@runtime_checkable
class RendersRich(Protocol):
    """An outbound side with a rich form of a text, which not every account shows."""

    def takes_rich(self, account: Account) -> bool:
        """Return whether the account, here without its secrets, shows it, as far as is known."""
        ...

    def render_rich(self, text: str, *, growing: bool = False) -> list[Block]:
        """Render Markdown as one message: the first of its ordinary ones, with ``more`` (a list of
        those after it) and ``rich`` (the channel's own form).

        The ordinary messages for a text that they show as well, or that does not fit. Where the
        platform refuses the form, sending raises ChannelError with ``trouble="form"``; the
        ordinary ones are sent then.
        """
        ...


@runtime_checkable
class MayNotPush(Protocol):
    """An outbound side with accounts that cannot start a conversation."""

    def can_push(self, account: Account) -> bool:
        """Return whether a message can be sent that is not a reply."""
        ...


@runtime_checkable
class AnswersWhole(Protocol):
    """Capability WHOLE: an answer is one block with its images, sent to its requester. The first
    block of an answer to no request has ``images`` too, if any.
    """

    def render_answer(self, answer: WholeAnswer) -> Block | None:
        """Render the block; None when the channel does not answer such a request."""
        ...


@runtime_checkable
class ReadsAgain(Protocol):
    """A gateway that stores updates it could not parse, and can parse them again."""

    def read_again(self, account: Account, *, raw: bytes) -> str:
        """Store the update ``raw`` in the inbox; return the result as one word."""
        ...
