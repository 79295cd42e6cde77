"""kill -9 of the web server and the workers under AG-UI: mid-stream, and before an answer."""

from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from tests.channels_app.client_api.ag_ui.frames import (
    Json,
    connected,
    interrupts_of,
    numbered,
    outcome_of,
    resume,
    said,
    text_of,
    told,
)
from tests.channels_app.client_api.asking_tools import client_of, effects
from tests.gateways import Gateway

pytestmark = pytest.mark.slow


@pytest.fixture
def member(asking: Gateway, keys: dict[str, str]) -> Iterator[httpx.Client]:
    """Yield a client of the member, after the processes were started."""
    with client_of(asking, keys["member"]) as made:
        yield made


def test_w43_a_killed_web_process_loses_nothing_of_a_stream(
    member: httpx.Client, asking: Gateway
) -> None:
    parts: list[tuple[int, Json]] = []
    with (
        suppress(httpx.TransportError),
        member.stream("POST", "/ag-ui", json=said("slow", thread="web")) as answer,
    ):
        for part in numbered(answer):
            parts.append(part)
            if part[1]["type"] == "TEXT_MESSAGE_CONTENT":
                asking.kill("web")
    assert parts[-1][1]["type"] == "TEXT_MESSAGE_CONTENT"
    asking.restart("web")
    rest = connected(member, "web", **{"Last-Event-ID": str(parts[-1][0])})
    assert text_of([event for _, event in parts]) + text_of(rest) == "one two three four"
    assert outcome_of(rest) == {"type": "success"}


def test_w43_a_killed_worker_is_followed_by_another(member: httpx.Client, asking: Gateway) -> None:
    """The second attempt repeats what the client has; it gets the rest."""
    events: list[Json] = []
    with member.stream("POST", "/ag-ui", json=said("slow", thread="worker")) as answer:
        for _, event in numbered(answer):
            events.append(event)
            if event["type"] == "TEXT_MESSAGE_CONTENT" and len(text_of(events)) == len("one "):
                asking.kill("runs")
                asking.restart("runs")
    assert text_of(events) == "one two three four"
    assert outcome_of(events) == {"type": "success"}


def test_w48_a_kill_between_question_and_answer_changes_nothing(
    member: httpx.Client, asking: Gateway
) -> None:
    before = effects(asking)
    [question] = interrupts_of(told(member, said("diary", thread="kill")))
    for name in ("web", "runs"):
        asking.kill(name)
        asking.restart(name)
    entry = {"interruptId": question["id"], "status": "resolved", "payload": {"approved": True}}
    body = resume("kill", entry)
    with suppress(httpx.TransportError), member.stream("POST", "/ag-ui", json=body) as answer:
        for number, _ in numbered(answer):
            if number == 1:
                asking.kill("web")
    asking.restart("web")
    assert text_of(told(member, body)) == "The diary: done."
    assert effects(asking) == [*before, "read_diary Ada"]
