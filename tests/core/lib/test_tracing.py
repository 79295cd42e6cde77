"""Spans of this process, as a collector receives them [X87] [X90] [X91] [X92] [X94]."""

import logging
from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from core import VERSION
from core.lib import tracing, tracing_export
from core.lib.tracing import SpanIds
from tests.otlp import Received, Receiver

CALLER = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Return a collector; tracing is on until the test ends."""
    made, logger = Receiver(), logging.getLogger(OTLPSpanExporter.__module__)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
    monkeypatch.setattr(tracing, "CLOSE_SECONDS", 60.0)
    monkeypatch.setattr(tracing, "process_name", "manage")
    monkeypatch.setattr(logger, "filters", list(logger.filters))
    tracing.is_on.cache_clear()
    yield made
    tracing.close()
    tracing.is_on.cache_clear()
    made.close()


def sent(receiver: Receiver) -> dict[str, Received]:
    """Return the spans so far by name; a process that ends sends them all."""
    tracing.close()
    found = receiver.spans()
    assert len({each.name for each in found}) == len(found)
    return {each.name: each for each in found}


def test_x87_steps_are_children_of_the_step_around_them(receiver: Receiver) -> None:
    """[X87] In one process and in another one, which knows the names of the message alone."""
    tracing.load("web")
    root, began = tracing.root_of(tracing.trace_id("message", 7)), tracing.now()
    with tracing.step("turn", under=root, key="attempt 1", attributes=lambda: {"latchkey.n": 1}):
        with tracing.step("model", kind="client"):
            tracing.note("gen_ai.request.model", "scripted")
        tracing.record("deliver", began=began, attributes={"latchkey.sent": True})
    tracing.record("receive", began=began, under=root, make_root=True, kind="server")
    again = tracing.child(tracing.root_of(tracing.trace_id("message", 7)), "attempt 1")
    tracing.record("tool", began=began, under=again)
    spans = sent(receiver)
    assert {each.trace for each in spans.values()} == {f"{root.trace:032x}"}
    assert spans["receive"].parent == ""
    assert spans["receive"].id == f"{root.span:016x}"
    parents = {name: each.parent for name, each in spans.items() if each.parent}
    turn = spans["turn"].id
    assert parents == {
        "turn": spans["receive"].id,
        "model": turn,
        "deliver": turn,
        "tool": turn,
    }
    assert spans["turn"].attributes == {"latchkey.n": 1}
    assert spans["model"].attributes == {"gen_ai.request.model": "scripted"}
    assert spans["deliver"].attributes == {"latchkey.sent": True}
    assert (spans["receive"].kind, spans["model"].kind) == (2, 3)  # SERVER, CLIENT
    assert all(each.began <= each.ended for each in spans.values())
    assert {each.process for each in spans.values()} == {"web"}
    assert {each.service for each in spans.values()} == {"latchkey"}


def test_x87_a_step_of_no_message_is_not_recorded(receiver: Receiver) -> None:
    """[X87]"""
    with tracing.step("turn"):
        tracing.note("latchkey.n", 1)
        tracing.fail("timeout")
    tracing.record("deliver", began=tracing.now())
    assert sent(receiver) == {}


def test_x91_a_failure_is_a_code_and_never_a_text(receiver: Receiver) -> None:
    """[X91]"""
    root = SpanIds(1, 2)
    with pytest.raises(ValueError, match="zorvillex"), tracing.step("turn", under=root):
        raise ValueError("a text with zorvillex")
    with tracing.step("model", under=root):
        tracing.fail("timeout")
    tracing.record("tool", began=tracing.now(), under=root, error="refused")
    spans = sent(receiver)
    assert all(each.failed for each in spans.values())
    codes = {name: each.attributes["error.type"] for name, each in spans.items()}
    assert codes == {"turn": "ValueError", "model": "timeout", "tool": "refused"}
    assert b"zorvillex" not in b"".join(receiver.bodies)


def test_x92_the_span_of_a_client_is_a_link(receiver: Receiver) -> None:
    """[X92]"""
    caller = tracing.caller_of([(b"host", b"here"), (b"traceparent", CALLER)])
    tracing.record("receive", began=tracing.now(), under=SpanIds(1, 2), make_root=True, link=caller)
    assert sent(receiver)["receive"].links == (CALLER[3:-3].decode(),)


@pytest.mark.parametrize(
    "given",
    [b"", b"00-0-1-zz", CALLER[:-1], b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01", CALLER.upper()],
)
def test_x92_a_malformed_header_names_no_span(given: bytes) -> None:
    """[X92]"""
    assert tracing.caller_of([(b"traceparent", given)]) is None
    assert tracing.caller_of([]) is None


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", " none")]
)
def test_x90_spans_are_switched_off(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """[X90] By the names that OpenTelemetry gives that, although an endpoint is set."""
    monkeypatch.setenv(name, value)
    tracing.is_on.cache_clear()
    tracing.load("web")
    with tracing.step("turn", under=SpanIds(1, 2)):
        assert tracing.now() == 0
    tracing.record("deliver", began=0, under=SpanIds(1, 2))
    assert tracing.exporter.cache_info().currsize == 0
    assert sent(receiver) == {}
    assert tracing.process_name == "manage"


def test_x87_the_sampler_decides_by_the_trace(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X87] Each process says the same, so that a trace has all of its spans or none."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    low, high = 1, 2**64 - 1
    for trace in (low, high):
        for number in range(3):
            name = f"{trace} {number}"
            tracing.record(name, began=tracing.now(), under=SpanIds(trace, 2))
    assert sorted(sent(receiver)) == ["1 0", "1 1", "1 2"]


def test_x87_names_of_the_environment_come_first(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X87] Of the service; its version is ours."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "home")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=ours")
    tracing.record("turn", began=tracing.now(), under=SpanIds(1, 2))
    assert sent(receiver)["turn"].service == "home"
    assert receiver.headers[0]["x-tenant"] == "ours"
    assert tracing_export.resource("web").attributes["service.version"] == VERSION


def test_x94_a_receiver_that_is_away_is_said_once_a_minute(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X94] However many processors a process has had."""
    for _ in range(2):
        tracing.load("web")
        tracing.close()
    logger = logging.getLogger(OTLPSpanExporter.__module__)
    for _ in range(5):
        logger.error("Failed to export: it is away")
    assert len(caplog.records) == 1
    monkeypatch.setattr(tracing_export, "QUIET_SECONDS", 0.0)
    logger.error("Failed to export: it is away")
    assert len(caplog.records) == 2
    assert receiver.spans() == []
