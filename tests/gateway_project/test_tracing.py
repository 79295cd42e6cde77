"""OpenTelemetry: the spans of running gateways, as a collector receives them [X87]–[X94]."""

import json
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import people, templates
from tests.channels_app.socket_client import Socket
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import Bots
from tests.conftest import DatabaseMaker
from tests.gateways import Gateway
from tests.models_chaos.owner import signed_in
from tests.otlp import Received, Receiver
from tests.servers import wait_until

pytestmark = pytest.mark.slow
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
ALL_RIGHTS = """
from core.models import User
User.objects.filter(username="owner").update(is_superuser=True)
"""
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

    def of(self, run: str, name: str) -> list[Received]:
        """Return the spans with this name in the trace of a run."""
        return [each for each in self.receiver.of_run(run) if each.name == name]

    def has(self, run: str, name: str) -> bool:
        """Return whether such a span has come."""
        return bool(self.of(run, name))

    def known(self) -> set[str]:
        """Return the traces so far."""
        return {each.trace for each in self.receiver.spans()}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return str(path)


@pytest.fixture(scope="module")
def place(
    new_database: DatabaseMaker, tmp_path_factory: pytest.TempPathFactory, script: str
) -> Iterator[Place]:
    receiver, api = Receiver(), FakeBotApi()
    api.start()
    extra = {
        "LLM_SCRIPT": script,
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=ours",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "RUN_LEASE_SECONDS": "2",
        "SWEEP_SECONDS": "1",
        "DEBOUNCE_IDLE_MILLISECONDS": "1000",
        "GATEWAY_ENCRYPTION_KEYS": "key-of-a-test",
    }
    gateway = Gateway(tmp_path_factory.mktemp("traced"), new_database(), extra)
    templates.collect_static(gateway)
    gateway.start()
    keys = people.make(gateway)
    bots = Bots(gateway, api)
    bots.add("main", people=[{"name": f"{CANARY}-person", "id": 556}])
    yield Place(bots, receiver, keys)
    gateway.stop()
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
    for name in ("receive", "turn", "long_task route_to_plugin"):
        wait_until(partial(place.receiver.spans, trace=spans[0].trace, name=name))
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
    assert [each[0] for each in work] == ["chat scripted", "execute_tool route_to_plugin"]
    [queue, task] = work[1][2:]
    assert queue == ["queue", "long"]
    assert task[:2] == ["long_task route_to_plugin", "long"]
    assert task[2] == ["chat scripted", "long"]
    assert {each.service for each in spans} == {"latchkey"}
    assert place.receiver.headers[-1]["x-tenant"] == "ours"


def test_x87_each_way_in_begins_a_trace(place: Place) -> None:
    """[X87] A request of a program, and a frame of a socket."""
    run = place.ask("time")["run_id"]
    opened = Socket(place.gateway, place.keys["member"])
    opened.connect()
    other, _ = opened.say("time", client_id="one")
    opened.close()
    for each, channel in ((run, "http"), (other, "web")):
        # Each process sends its own spans: the root may come after the turn.
        for name in ("receive", "turn"):
            wait_until(partial(place.has, each, name))
        spans = place.receiver.of_run(each)
        assert len({span.trace for span in spans}) == 1
        [[root, web, *steps]] = tree(spans)
        assert (root, web) == ("receive", "web")
        assert [step[0] for step in steps] == ["queue", "claim", "turn"]
        assert [step[0] for step in steps[-1][2:]] == [
            "chat scripted",
            "execute_tool current_time",
            "chat scripted",
        ]
        assert spans[0].attributes["latchkey.channel"] == channel


def test_x87_calls_of_models_have_the_attributes_of_the_conventions(place: Place) -> None:
    """[X87] Their model, vendor and tokens; a failure is an error with its code."""
    run, broken = place.ask("time")["run_id"], place.ask("break")["run_id"]
    for each in (run, broken):
        wait_until(partial(place.has, each, "turn"))
    [first, *_] = place.of(run, "chat scripted")
    assert first.attributes["gen_ai.operation.name"] == "chat"
    assert first.attributes["gen_ai.request.model"] == "scripted"
    assert first.attributes["gen_ai.provider.name"]
    assert first.attributes["gen_ai.usage.output_tokens"] >= 0
    assert not first.failed
    assert first.began <= first.ended
    [tool] = place.of(run, "execute_tool current_time")
    assert tool.attributes["gen_ai.tool.name"] == "current_time"
    [turn] = place.of(broken, "turn")
    assert turn.failed
    assert turn.attributes["latchkey.state"] == "failed"
    assert place.of(broken, "chat scripted")[0].attributes["error.type"] == "server"


def test_x88_messages_that_become_one_run_are_one_trace(place: Place) -> None:
    """[X88]"""
    known = place.known()
    place.bots.say("one", user=556)
    place.bots.say("two", user=556)
    spans = place.trace_with("deliver", known=known)
    first, second = [each for each in spans if each.name == "receive"]
    assert (first.parent, second.parent) == ("", first.id)
    assert len([each for each in spans if each.name == "claim"]) == 1


def test_x89_a_run_that_is_taken_over_is_claimed_twice_in_one_trace(place: Place) -> None:
    """[X89] After a `kill -9` in the middle of a turn."""
    known = place.known()
    place.bots.say("slow", user=556)
    place.trace_with("claim", known=known)
    place.gateway.kill("runs")
    place.gateway.restart("runs")
    spans = place.trace_with("turn", known=known)
    claims = [each for each in spans if each.name == "claim"]
    assert [each.attributes["latchkey.attempt"] for each in claims] == [1, 2]
    [turn] = [each for each in spans if each.name == "turn"]
    assert turn.attributes["latchkey.attempt"] == 2
    assert {each.parent for each in (*claims, turn)} == {spans[0].id}


def test_x92_a_clients_traceparent_is_a_link(place: Place) -> None:
    """[X92] Its trace is not continued; a malformed header is ignored."""
    for given, links in ((f"00-{CALLER}-01", (CALLER,)), ("00-0-1-zz", ()), (f"00-{'0' * 32}", ())):
        run = place.ask("time", traceparent=given)["run_id"]
        wait_until(partial(place.has, run, "receive"))
        [root] = place.of(run, "receive")
        assert root.links == links
        assert root.trace not in CALLER


def test_x93_the_page_of_a_message_has_its_trace(place: Place) -> None:
    """[X93]"""
    run = place.ask("time")["run_id"]
    wait_until(partial(place.has, run, "turn"))
    [turn] = place.of(run, "turn")
    place.gateway.manage("shell", "-v", "0", "-c", ALL_RIGHTS)
    with signed_in(place.gateway) as owner:
        assert turn.trace in owner.get(f"/admin/message/?kind=run&id={run}")


def test_x91_no_span_has_a_word_of_a_person(place: Place) -> None:
    """[X91] After the turns above: no text, name, address, key or error text in any byte."""
    before = len(place.bots.texts(556))
    place.bots.say(f"break {CANARY}", user=556)
    run = place.ask(f"break {CANARY}")["run_id"]
    wait_until(partial(place.has, run, "turn"))
    wait_until(lambda: len(place.bots.texts(556)) > before)
    wait_until(lambda: "deliver" in {each.name for each in place.receiver.spans()})
    keys = [key for key in place.keys.values() if key.startswith("lk_")]
    secrets = [CANARY, *keys, *place.bots.tokens.values(), "owner", "member", "correct horse"]
    sent = b"\0".join(place.receiver.bodies)
    texts = [text for span in place.receiver.spans() for text in texts_of(span)]
    assert [each for each in secrets if each.encode() in sent] == []
    assert "556" not in texts
    assert len(texts) > 50


def texts_of(span: Received) -> list[str]:
    return [span.name, *(str(each) for each in span.attributes.values())]


def imported(gateway: Gateway, process: str) -> set[str]:
    """Return the modules that a process and its children have imported, with times on stderr."""
    lines = gateway.log(process).splitlines()
    return {each.rpartition("|")[2].strip() for each in lines if each.startswith("import time:")}


@pytest.mark.parametrize("extra", [{}, {"OTEL_SDK_DISABLED": "true"}], ids=["unset", "disabled"])
def test_x90_while_it_is_off_no_process_loads_the_sdk(
    start_gateway: Callable[..., Gateway], script: str, extra: dict[str, str]
) -> None:
    """[X90] Python lists what it imports: web, worker, and a long task."""
    if extra:
        extra = {**extra, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    gateway = start_gateway(LLM_SCRIPT=script, PYTHONPROFILEIMPORTTIME="1", **extra)
    gateway.extra = {**gateway.extra, "PYTHONPROFILEIMPORTTIME": ""}
    keys = people.make(gateway)
    answer = httpx.post(
        f"{gateway.base_url}/inbound",
        json={"text": "sum"},
        headers={"Authorization": f"Bearer {keys['owner']}"},
        timeout=120,
    )
    assert answer.status_code == 200, answer.text
    for process in ("web", "runs"):
        found = imported(gateway, process)
        assert "core.lib.tracing" in found
        # An import that was refused is listed, too.
        found.discard("opentelemetry.sdk.metrics")
        sdk = ("opentelemetry.sdk", "opentelemetry.exporter", "core.lib.tracing_export")
        assert [each for each in found if each.startswith(sdk)] == []


def test_x94_a_receiver_that_is_away_or_hangs_delays_no_answer(
    start_gateway: Callable[..., Gateway], script: str
) -> None:
    """[X94] It takes connections and never answers; later its port is closed. Processes end in
    time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        gateway = start_gateway(
            LLM_SCRIPT=script,
            OTEL_EXPORTER_OTLP_ENDPOINT=url,
            OTEL_BSP_SCHEDULE_DELAY="50",
            OTEL_BSP_MAX_QUEUE_SIZE="8",
            OTEL_BSP_MAX_EXPORT_BATCH_SIZE="4",
        )
        keys = people.make(gateway)
        client = httpx.Client(headers={"Authorization": f"Bearer {keys['owner']}"}, timeout=120)
        with client:
            for text in ("sum", *["time"] * 8):
                answer = client.post(f"{gateway.base_url}/inbound", json={"text": text})
                assert CANARY in answer.json()["text"]
            silent.close()
            answer = client.post(f"{gateway.base_url}/inbound", json={"text": "time"})
            assert CANARY in answer.json()["text"]
    for process in ("web", "runs"):
        gateway.kill(process, signal.SIGTERM)
