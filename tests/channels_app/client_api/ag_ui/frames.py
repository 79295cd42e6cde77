"""Requests of AG-UI, and their answers, checked against the protocol's own types."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
from ag_ui.core import Event, RunAgentInput
from pydantic import TypeAdapter

from core.lib.ids import is_public_id

Json = dict[str, Any]
EVENTS: TypeAdapter[Any] = TypeAdapter(Event)
numbers = itertools.count(1)


def said(text: Any, *, thread: str, run: str = "", **more: Any) -> Json:
    """Return a request as ``HttpAgent`` sends it."""
    number = next(numbers)
    given: Json = {
        "threadId": thread,
        "runId": run or f"run-{number}",
        "messages": [{"id": f"user-{number}", "role": "user", "content": text}],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
        **more,
    }
    RunAgentInput.model_validate_json(json.dumps(given), strict=True)
    return given


def resume(thread: str, *entries: Json, run: str = "", messages: list[Json] | None = None) -> Json:
    """Return a request that answers interrupts."""
    return said("", thread=thread, run=run, messages=messages or [], resume=list(entries))


def verify(events: Sequence[Mapping[str, Any]]) -> None:
    """Check the order of a run's events as the protocol's verifier does, and their types."""
    open_ones: set[tuple[str, str]] = set()
    assert events[0]["type"] in ("RUN_STARTED", "RUN_ERROR")
    for event in events:
        EVENTS.validate_json(json.dumps(event), strict=True)
        head, _, step = str(event["type"]).rpartition("_")
        key = (head, str(event.get("toolCallId") or event.get("messageId") or ""))
        if head in ("RUN", "MESSAGES", "STATE", "ACTIVITY", "") or step == "RESULT":
            continue
        if step == "START":
            assert key not in open_ones, event
            open_ones.add(key)
        else:
            assert key in open_ones, event
        if step == "END":
            open_ones.remove(key)
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    assert not open_ones


class EventId(int):
    """The number of an event; as text the id, with which a client goes on."""

    text = ""

    @classmethod
    def of(cls, text: str) -> "EventId":
        """Read an id."""
        run_id, dot, number = text.rpartition(".")
        assert is_public_id(run_id), text
        assert dot, text
        made = cls(number)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def numbered(answer: httpx.Response) -> Iterator[tuple[EventId, Json]]:
    """Yield the events of a stream, each with its number, as strict types of the protocol."""
    number = EventId()
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            number = EventId.of(value)
        elif name == "data":
            EVENTS.validate_json(value, strict=True)
            yield number, json.loads(value)


def told(client: httpx.Client, body: Json, **headers: str) -> list[Json]:
    """Return the events of an answer."""
    with client.stream("POST", "/ag-ui", json=body, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        events = [event for _, event in numbered(answer)]
    if "Last-Event-ID" not in headers:
        verify(events)
    return events


def connected(client: httpx.Client, thread: str, query: str = "", **headers: str) -> list[Json]:
    """Return the events of a reconnect."""
    with client.stream("GET", f"/ag-ui/{thread}/stream{query}", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        return [event for _, event in numbered(answer)]


def kinds(events: list[Json]) -> list[str]:
    """Return the types of events."""
    return [event["type"] for event in events]


def text_of(events: list[Json]) -> str:
    """Return the text of an answer."""
    return "".join(each["delta"] for each in events if each["type"] == "TEXT_MESSAGE_CONTENT")


def outcome_of(events: list[Json]) -> Json:
    """Return the outcome of a run that did not fail."""
    assert events[-1]["type"] == "RUN_FINISHED", events[-1]
    found: Json = events[-1]["outcome"]
    return found


def interrupts_of(events: list[Json]) -> list[Json]:
    """Return the interrupts with which a run ended."""
    outcome = outcome_of(events)
    assert outcome["type"] == "interrupt", outcome
    found: list[Json] = outcome["interrupts"]
    return found
