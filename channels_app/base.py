"""The contract of a channel plugin ([C1]): what a channel can do, and how it says what failed.

A plugin is one object with four parts:

* ``config``   which settings and secrets an account has, and whether they suffice
* ``gateway``  how messages come in: prepared when an account is enabled, looked after, or polled
* ``outbound`` how answers go out: ``render``, ``send_text``, ``reply_text`` and what it declares
* ``capabilities`` what else they can do; undeclared means absent, not stubbed

Nothing here knows Django: a plugin is tested without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

# One message as the platform will show it, kept in the outbox as JSON: ``text``, and what else the
# channel's own adapter put there (Telegram: ``entities``); ``buttons`` is a list of rows.
Block = dict[str, Any]

FileKind = Literal["photo", "document", "audio"]
Trouble = Literal["", "blocked", "kicked", "migrated", "chat_not_found", "gone", "conflict", "auth"]


class Capability(StrEnum):
    """What a channel can do besides sending and replying; the protocol that goes with it."""

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
    """The platform did not take a message.

    ``permanent``: trying again is useless. ``retry_after``: seconds the platform asked for.
    ``unsure``: the request went out and nobody knows its outcome (read time-out, connection lost).
    ``trouble``: a state of the chat or the account that its owner should know; ``moved_to`` is the
    new id of a chat that was ``migrated``.
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
        """The text is the platform's words, without secrets."""
        super().__init__(message)
        self.permanent = permanent
        self.retry_after = retry_after
        self.unsure = unsure
        self.trouble: Trouble = trouble
        self.moved_to = moved_to


@dataclass(frozen=True, slots=True)
class Account:
    """An account as a plugin sees it: settings and decrypted secrets (never in its ``repr``)."""

    id: int
    channel: str
    name: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a message goes; ids are the platform's."""

    chat: str
    thread: str = ""
    reply_to: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a platform lets us speak; edits count. 0 means no limit. Seconds, or a number."""

    per_second: int = 0
    chat_seconds: float = 0.0
    group_per_minute: int = 0
    edit_seconds: float = 1.2
    group_edit_seconds: float = 3.0
    find_seconds: float = 0.25


@dataclass(frozen=True, slots=True)
class Field:
    """One thing the owner fills in for an account; ``secret`` ones are encrypted, never shown.

    ``made``: left empty, the gateway makes up a random one (a secret that no person needs to know).
    ``single``: no two enabled accounts of the channel may have the same value.
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
    """How an account is: ``problem`` in the platform's words (empty: well) and some numbers."""

    problem: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that waits on the platform; ``size`` is what it declared, 0 when it did not."""

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

    ``request`` is the id of the message that was answered; ``images`` are data URLs; ``options``
    are what the door kept with the request.
    """

    request: str
    session: str
    text: str
    error: str
    images: Sequence[str]
    options: Mapping[str, Any]


class Config(Protocol):
    """What an account of this channel needs."""

    fields: Sequence[Field]

    def problems(self, account: Account) -> list[str]:
        """What is missing or wrong, in words; an account with problems cannot be enabled."""
        ...


class Gateway(Protocol):
    """How messages of an account come in."""

    async def prepare(self, account: Account, *, base_url: str) -> str:
        """Called when an account was saved and is enabled: tell the platform where we are.

        Returns what is running now, in a few words. Raises ChannelError.
        """
        ...

    async def retire(self, account: Account) -> None:
        """Called when an account was disabled. Raises ChannelError."""
        ...

    async def check(self, account: Account) -> Health:
        """Ask the platform how the account is. Raises ChannelError."""
        ...

    async def test(self, account: Account) -> str:
        """Who we are there (``@name``), for the button "test connection". Raises ChannelError."""
        ...

    async def close(self) -> None:
        """The running event loop ends: let go of its connections."""
        ...


class Outbound(Protocol):
    """How answers of an account go out."""

    def render(self, text: str) -> list[Block]:
        """Markdown as the messages that the channel shows. Pure; every block is within limits."""
        ...

    async def send_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Send ``block``; the platform's message id. Raises ChannelError."""
        ...

    async def reply_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Send ``block`` as a reply to ``target.reply_to``, or plainly when that is gone."""
        ...


class Channel(Protocol):
    """A plugin. ``idempotent``: the platform drops a second message with the same ``key``, so that
    sending again after a crash is safe."""

    id: str
    name: str
    description: str
    idempotent: bool
    pace: Pace
    capabilities: frozenset[Capability]

    @property
    def config(self) -> Config:
        """The accounts' settings."""
        ...

    @property
    def gateway(self) -> Gateway:
        """The way in."""
        ...

    @property
    def outbound(self) -> Outbound:
        """The way out; a heavy library may be loaded when it is first asked for."""
        ...

    def is_group(self, chat: str) -> bool:
        """Whether many people read this chat."""
        ...


@runtime_checkable
class Edits(Protocol):
    """Capability EDIT."""

    async def edit_text(
        self, *, account: Account, target: Target, message_id: str, block: Block
    ) -> None:
        """Replace a message; the same again is a success. Raises ChannelError, ``trouble="gone"``
        when the message is not there any more."""
        ...


@runtime_checkable
class Deletes(Protocol):
    """Capability DELETE."""

    async def delete_message(self, *, account: Account, target: Target, message_id: str) -> None:
        """Remove a message; one that is gone is a success. Raises ChannelError."""
        ...


@runtime_checkable
class FindsSent(Protocol):
    """Capability FIND: a message whose id was lost can be found again.

    Message ids are numbers that grow within a sequence, and an account can tell its own messages.
    """

    def sequence(self, chat: str) -> str:
        """The name of the sequence that numbers the messages of ``chat``. Pure."""
        ...

    async def is_ours(
        self, *, account: Account, target: Target, message_id: str, block: Block
    ) -> bool:
        """Whether a message is one of ours in the place ``target`` and of the kind of ``block``.

        Such a message shows ``block`` afterwards; no other one is changed. ``block`` is a text or
        ``{"kind": …, "caption": …}``. Raises ChannelError when that cannot be told now.
        """
        ...


@runtime_checkable
class Types(Protocol):
    """Capability TYPING."""

    async def send_typing(self, *, account: Account, target: Target) -> None:
        """Show for a few seconds that an answer is being written. Raises ChannelError."""
        ...


@runtime_checkable
class Reacts(Protocol):
    """Capability REACTIONS."""

    async def add_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        """Put our acknowledgement on a message. Raises ChannelError."""
        ...

    async def remove_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        """Take it away; none there is a success. Raises ChannelError."""
        ...


@runtime_checkable
class SendsFiles(Protocol):
    """Capability FILES."""

    async def send_file(
        self, *, account: Account, target: Target, file: OutgoingFile, key: str
    ) -> str:
        """Send a photo, an audio or a document; the platform's message id. Raises ChannelError."""
        ...


@runtime_checkable
class AnswersButtons(Protocol):
    """Capability BUTTONS: blocks may carry ``buttons``, and a press wants an answer."""

    async def answer_button(self, *, account: Account, press: str, text: str) -> None:
        """Show ``text`` to whoever pressed; too late is a success. Raises ChannelError."""
        ...


@runtime_checkable
class Downloads(Protocol):
    """Capability DOWNLOAD."""

    max_download_bytes: int

    async def download_media(self, *, account: Account, file: RemoteFile) -> bytes:
        """The bytes of a file, at most ``max_download_bytes``. Raises ChannelError."""
        ...


@runtime_checkable
class Polls(Protocol):
    """Capability POLLING, of a gateway."""

    def wants_polling(self, account: Account) -> bool:
        """Whether this account is to be polled (the other way is a webhook)."""
        ...

    async def poll(self, account: Account) -> None:
        """Fetch updates and put them into the inbox until cancelled. Raises ChannelError;
        ``trouble="conflict"`` when somebody else fetches them."""
        ...


@runtime_checkable
class OpensTopics(Protocol):
    """Capability TOPICS: a chat may be divided into topics."""

    async def open_topic(self, *, account: Account, chat: str, title: str) -> str:
        """A new topic; its id, empty when this chat has no topics. Raises ChannelError."""
        ...

    async def close_topic(self, *, account: Account, chat: str, thread: str) -> None:
        """Close a topic; one that is closed or gone is a success. Raises ChannelError."""
        ...


@runtime_checkable
class RendersOne(Protocol):
    """Capability ONE_MESSAGE: a text of any length as one message that says where it was cut."""

    def render_one(self, text: str) -> Block | None:
        """Markdown as one message, cut with ``… (truncated)``; None when it shows nothing."""
        ...


@runtime_checkable
class RendersGrowing(Protocol):
    """Of an outbound side that shows an answer in several messages while it is written."""

    def render_growing(self, text: str) -> list[Block]:
        """As ``render``, of a text that goes on: messages that are full stay as they are."""
        ...


@runtime_checkable
class MayNotPush(Protocol):
    """Of an outbound side whose accounts cannot all be written to first."""

    def can_push(self, account: Account) -> bool:
        """Whether a message that answers nothing can be sent."""
        ...


@runtime_checkable
class AnswersWhole(Protocol):
    """Capability WHOLE: an answer is one block with its images, and goes to who asked for it."""

    def render_answer(self, answer: WholeAnswer) -> Block | None:
        """The block; None when this channel gives no answer to such a request."""
        ...


@runtime_checkable
class ReadsAgain(Protocol):
    """A gateway that keeps what it could not read, and may be told to try once more."""

    def read_again(self, account: Account, *, raw: bytes) -> str:
        """Put the update ``raw`` into the inbox; what became of it, in a word."""
        ...


@dataclass(frozen=True, slots=True)
class Chosen:
    """Somebody pressed a button: which, where, and who."""

    press: str
    sender: str
    data: str
    chat: str
    message_id: str
    at: datetime
