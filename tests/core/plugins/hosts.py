"""Hosts for plugins under test: a script in place of the model."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.messages import Message
from core.plugins.base import Cancelled, PluginError, Source

Answer = Callable[[str, Mapping[str, Any] | None], str]


@dataclass
class ScriptedHost:
    """Answers each question with ``answer(prompt, schema)``; keeps questions and progress."""

    folder: Path
    answer: Answer
    context_tokens: int = 3072
    cancel_after: int = 1000
    asked: list[tuple[str, Mapping[str, Any] | None, str]] = field(default_factory=list)
    told: list[tuple[str, float | None]] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)

    async def ask(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
    ) -> str:
        """See ``PluginHost.ask``."""
        self.asked.append((prompt, schema, system))
        assert len(prompt) / 2 + max_tokens < 12 * self.context_tokens
        return self.answer(prompt, schema)

    async def send(self, message: Message) -> None:
        """See ``PluginHost.send``."""
        self.sent.append(message)

    async def progress(self, message: str, percent: float | None = None) -> None:
        """See ``PluginHost.progress``."""
        self.told.append((message, percent))
        if len(self.told) > self.cancel_after:
            raise Cancelled


def kind_of(schema: Mapping[str, Any] | None) -> str:
    """Return the kind of question a schema belongs to."""
    if schema is None:
        return "plain"
    names = set(schema["properties"])
    if "sections" in names:
        return "outline"
    if "layout" in names:
        return "slide"
    return "figure" if "title" in names else "closing"


def good(prompt: str, schema: Mapping[str, Any] | None) -> str:
    """Answer by the schema, with a new text each time."""
    name = prompt.split("Slide: ")[-1].splitlines()[0]
    match kind_of(schema):
        case "outline":
            sections = [
                {
                    "title": "Where we stand",
                    "slides": ["Sun on every roof", "Wind parks far offshore"],
                },
                {
                    "title": "Money",
                    "slides": ["Falling module prices worldwide", "Who pays for power lines"],
                },
                {
                    "title": "Ahead",
                    "slides": [
                        "Electricians wanted across Europe",
                        "Storage inside old salt mines",
                    ],
                },
            ]
            return json.dumps({"title": "Clean power", "subtitle": "A tour", "sections": sections})
        case "slide":
            points = [
                {"label": "Cost", "text": f"Money is saved by {name}."},
                {"label": "Speed", "text": f"Neighbours learn quickly: {name}."},
                {"label": "Trust", "text": f"Nobody believes promises, {name} convinces."},
            ]
            answer = {"points": points, "notes": f"Explain {name} slowly."}
            return json.dumps({**answer, "layout": "list", "left": "", "right": ""})
        case "figure":
            return json.dumps({"title": "What the numbers say", "points": ["Growth every year."]})
        case "closing":
            return json.dumps({"points": ["Sun is cheap.", "Grids are slow.", "People decide."]})
    return "The sun shines. The wind blows. Water flows."


def unreachable(_prompt: str, _schema: Mapping[str, Any] | None) -> str:
    """Raise the error of a model that can't be reached."""
    raise PluginError("The model can't be reached.")


def topic(text: str) -> Source:
    """Return a source that is only a topic."""
    return Source(text, [("", text)], kind="topic")


def document(text: str, title: str = "Report") -> Source:
    """Return a source that is a document."""
    return Source(title, [("page 1", text)], kind="document")
