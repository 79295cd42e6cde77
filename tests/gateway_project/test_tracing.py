"""OpenTelemetry: the spans of running gateways, as a collector receives them [X87]–[X94]."""

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import people
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import Bots
from tests.gateways import Gateway
from tests.otlp import Receiver, Received
from tests.servers import wait_until

CANARY = "zorvillex"
SUMMARY = {
    "plugin_id": "summarize",
    "capability_id": "summarize_text",
    "parameters": {"text": f"A long text with {CANARY}. " * 50},
}
SCRIPT: list[dict[str, Any]] = [
    {"match": "", "after_tool": True, "steps": [{"text": f"Done, {CANARY}."}]},
    {"match": "^sum", "steps": [{"tool": "route_to_plugin", "arguments": SUMMARY}]},
    {"match": "^time", "steps": [{"tool": "current_time", "arguments": {"zone": CANARY}}]},
    {"match": "^break", "steps": [{"text": "a"}, {"error": "server", "message": f"No {CANARY}"}]},
    {"match": "^slow", "steps": [{"text": "one two three four five", "tokens_per_second": 1}]},
    {"match": "", "steps": [{"text": f"You said {CANARY}."}]},
]
CALLER = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"


@dataclass
class Place:
    """A gateway whose spans go to ``receiver``, with a bot on Telegram and people with keys."""

    bots: Bots
    receiver: Receiver
    keys: dict[str, str]

    @property
    def gateway(self) -> Gateway:
        return self.bots.gateway

    def ask(self, text: str, **headers: str) -> dict[str, Any]:
        """Return the whole answer of ``/inbound``."""
        answer = httpx.post(
            f"{self.gateway.base_url}/inbound",
            json={"text": text},
            headers={"Authorization": f"Bearer {self.keys['owner']}", **headers},
            timeout=120,
        )
        assert answer.status_code in {200, 502, 503}, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def trace_with(self, name: str, *, known: set[str]) -> list[Received]:
        """Return the spans of the one new trace that has a span called ``name``."""
        wait_until(lambda: [s for s in self.receiver.spans(name=name) if s.trace not in known])
        [trace] = {each.trace for each in self.receiver.spans(name=name)} - known
        return self.receiver.spans(trace=trace)

    def known(self) -> set[str]:
        """Return the traces so far."""
        return {each.trace for each in self.receiver.spans()}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return str(path)


@pytest.fixture(scope="module")
def place(module_gateways: Callable[..., Gateway], script: str) -> Iterator[Place]:
    receiver, api = Receiver(), FakeBotApi()
    api.start()
    gateway = module_gateways(
        LLM_SCRIPT=script,
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
        OTEL_EXPORTER_OTLP_HEADERS="x-tenant=ours",
        OTEL_BSP_SCHEDULE_DELAY="100",
        RUN_LEASE_SECONDS="2",
        SWEEP_SECONDS="1",
        DEBOUNCE_IDLE_MILLISECONDS="1000",
        GATEWAY_ENCRYPTION_KEYS="key-of-a-test",
    )
    keys = people.make(gateway)
    bots = Bots(gateway, api)
    bots.add("main", people=[{"name": f"{CANARY}-person", "id": 556}])
    yield Place(bots, receiver, keys)
    receiver.close()
    api.stop()


def tree(spans: list[Received], parent: str = "") -> list[Any]:
    """Return the names of the children of ``parent``, by their beginning, each with its own."""
    return [
        [each.name, each.process, *tree(spans, each.id)] for each in spans if each.parent == parent
    ]


def test_x87_a_message_is_one_trace_from_the_webhook_to_the_delivery(place: Place) -> None:
    """[X87]"""
    known = place.known()
    place.bots.say(f"sum this up, {CANARY}", user=556)
    spans = place.trace_with("deliver", known=known)
    wait_until(lambda: place.receiver.spans(trace=spans[0].trace, name="turn"))
    spans = place.receiver.spans(trace=spans[0].trace)
    [[root, web, *steps]] = tree(spans)
    assert (root, web) == ("receive", "web")
    assert [each[:2] for each in steps if each[0] != "deliver"] == [
        ["queue", "runs"],
        ["claim", "runs"],
        ["turn", "runs"],
    ]
    assert ["deliver", "runs"] in steps
    [work] = [each[2:] for each in steps if each[0] == "turn"]
    assert [each[0] for each in work] == ["chat default", "execute_tool route_to_plugin"]
    [queue, task] = work[1][2:]
    assert queue == ["queue", "long"]
    assert task[:2] == ["long_task route_to_plugin", "long"]
    assert task[2] == ["chat default", "long"]
    assert {each.service for each in spans} == {"latchkey"}
    assert place.receiver.headers[-1]["x-tenant"] == "ours"
