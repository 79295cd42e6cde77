"""The contract of a plugin: what it is given, what it gives back."""

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
    """What the work is about: a topic, a text, documents that were read, or the conversation.

    ``parts`` are (reference, text) pairs in reading order: "page 3", "section Costs". ``note`` says
    what was left out and why ("" for nothing); the gateway tells the user, a plugin need not.
    ``documents`` are the names of what was read; of several, each reference begins with its name.
    """

    title: str
    parts: Sequence[tuple[str, str]]
    kind: SourceKind = "text"
    note: str = ""
    documents: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The whole text, parts apart by a blank line."""
        return "\n\n".join(text for _reference, text in self.parts)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A finished file: where it lies (in the host's ``folder``), its name for people, its type."""

    path: Path
    name: str
    mime: str


@dataclass(frozen=True, slots=True)
class PluginResult:
    """What the model is told (``text``), and the files that the user gets.

    ``note``: what was left out, in a sentence for the user; the gateway adds what it left out of
    the source itself.
    """

    text: str
    files: Sequence[Artifact] = ()
    note: str = ""


class PluginError(Exception):
    """The work can't be done; the text is for the user, in plain words."""


class PluginHost(Protocol):
    """What a plugin may use of the gateway while it works."""

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
        """The model's answer; JSON text after ``schema`` (a JSON schema) where one is given.

        Raises PluginError where the model can't be reached or does not keep to the schema.
        """
        ...

    async def progress(self, message: str, percent: float | None = None) -> None:
        """Tell the user how far it is (0-100 %). Raises Cancelled where the job is over."""
        ...

    async def send(self, message: Message) -> None:
        """Show the user a message of the protocol (``core.messages``) now, in the order of sending.

        Whole messages of any type but event, user_input and tool_call, at most 200 of 256 KB each.
        Raises MessageError for any other, Cancelled where the job is over.
        """
        ...


class Cancelled(Exception):
    """The job was cancelled or taken over: stop at once, leave nothing."""


class Plugin(Protocol):
    """One plugin, found by the entry point group ``latchkey.plugins``."""

    id: str
    name: str
    capabilities: Mapping[str, Capability]

    async def run(
        self, capability_id: str, parameters: Mapping[str, Any], source: Source, host: PluginHost
    ) -> PluginResult:
        """Do it. Raises PluginError with a text for the user."""
        ...
