"""The contract of a plugin: its input and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from core.messages import Message

SourceKind = Literal["topic", "text", "document", "conversation"]


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that a plugin can do. ``parameters`` is a JSON schema (an object)."""

    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the work: a topic, a text, documents that were read, or the conversation.

    ``parts`` are (reference, text) pairs in reading order: "page 3", "section Costs". ``note``
    names omissions and their reason ("" for none); the gateway tells the user, a plugin need not.
    ``documents`` are the names of the documents; with several, each reference begins with its name.
    """

    title: str
    parts: Sequence[tuple[str, str]]
    kind: SourceKind = "text"
    note: str = ""
    documents: Sequence[str] = ()

    @property
    def text(self) -> str:
        """Return the whole text, parts apart by a blank line."""
        return "\n\n".join(text for _reference, text in self.parts)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A finished file: its path (in the host's ``folder``), its display name, its type."""

    path: Path
    name: str
    mime: str


@dataclass(frozen=True, slots=True)
class PluginResult:
    """The text for the model (``text``), and the files for the user.

    ``note``: omissions, in a sentence for the user; the gateway adds its own omissions of the
    source.
    """

    text: str
    files: Sequence[Artifact] = ()
    note: str = ""


class PluginError(Exception):
    """The work cannot be done; the text is for the user, in plain words."""


class PluginHost(Protocol):
    """The gateway's services for a running plugin."""

    folder: Path
    """A folder of its own, empty at the start, removed afterwards."""
    context_tokens: int
    """How many tokens the model takes in and gives out together."""

    async def ask(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
    ) -> str:
        """Return the model's answer; JSON text with a ``schema`` (a JSON schema).

        Raises PluginError when the model cannot be reached or violates the schema.
        """
        ...

    async def progress(self, message: str, percent: float | None = None) -> None:
        """Report progress to the user (0-100 %). Raises Cancelled when the job has ended."""
        ...

    async def send(self, message: Message) -> None:
        """Show the user a message of the protocol (``core.messages``) now, in the order of sending.

        Whole messages of any type but event, user_input and tool_call, at most 200 of 256 KB each.
        Raises MessageError for any other, Cancelled when the job has ended.
        """
        ...


class Cancelled(Exception):
    """The job was cancelled or taken over: stop immediately."""


class Plugin(Protocol):
    """One plugin, found by the entry point group ``latchkey.plugins``."""

    id: str
    name: str
    capabilities: Mapping[str, Capability]

    async def run(
        self, capability_id: str, parameters: Mapping[str, Any], source: Source, host: PluginHost
    ) -> PluginResult:
        """Do the work. Raises PluginError with a text for the user."""
        ...
