"""Spans to the OpenTelemetry SDK. Imported only while tracing is on: ``core.lib.tracing``.

The provider is not the global one: libraries with spans of their own find none, whose attributes
could have texts of people.
"""

import logging
import os
import threading
import time

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from core import VERSION
from core.lib.tracing import Span, SpanIds

# Of one request to the receiver, unless the environment has one: a batch waits behind it.
TIMEOUT_SECONDS = 5.0
TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
QUIET_SECONDS = 60.0


class ComputedIds(RandomIdGenerator):
    """The ids of the next span of this thread: those that were given, else random ones."""

    def __init__(self) -> None:
        self._given = threading.local()

    def give(self, ids: SpanIds) -> None:
        """Use ``ids`` for the next span; 0 is a random one."""
        self._given.ids = ids

    def generate_trace_id(self) -> int:
        ids: SpanIds = self._given.ids
        return ids.trace

    def generate_span_id(self) -> int:
        ids: SpanIds = self._given.ids
        return ids.span or super().generate_span_id()


class Seldom(logging.Filter):
    """Lets one line a minute through: a receiver that is away fails every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._said_at = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        if time.monotonic() - self._said_at < QUIET_SECONDS:
            return False
        self._said_at = time.monotonic()
        return True


class BatchExporter:
    """A provider with the SDK's batch processor: a bounded queue that a thread sends."""

    def __init__(self, process: str) -> None:
        """Start the thread. ``process``: the name of this process in its spans."""
        logger = logging.getLogger(OTLPSpanExporter.__module__)
        if not any(isinstance(each, Seldom) for each in logger.filters):
            logger.addFilter(Seldom())
        timeout = None if any(map(os.environ.get, TIMEOUTS)) else TIMEOUT_SECONDS
        self._ids = ComputedIds()
        self._provider = TracerProvider(
            resource=resource(process), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout)))
        self._tracer = self._provider.get_tracer("latchkey", VERSION)

    def is_wanted(self, trace: int) -> bool:
        """Ask the sampler (OTEL_TRACES_SAMPLER) by the trace's id: all processes agree."""
        decided = self._provider.sampler.should_sample(None, trace, "message")
        return decided.decision == Decision.RECORD_AND_SAMPLE

    def export(self, span: Span) -> None:
        """Queue a span that has ended; it is dropped when the queue is full. Never blocks."""
        self._ids.give(span.ids)
        made = self._tracer.start_span(
            span.name,
            context=parent_of(span),
            kind=SpanKind[span.kind.upper()],
            attributes=span.attributes,
            links=[Link(context_of(span.link))] if span.link is not None else None,
            start_time=span.began,
        )
        if span.error:
            made.set_attribute("error.type", span.error)
            made.set_status(Status(StatusCode.ERROR))
        made.end(span.ended)

    def close(self, *, seconds: float) -> None:
        """Send what is queued; a receiver that does not answer delays no exit."""
        sending = threading.Thread(target=self._provider.shutdown, name="spans", daemon=True)
        sending.start()
        sending.join(seconds)


def resource(process: str) -> Resource:
    """Return what all spans of this process have: the environment's before ours."""
    named = Resource.create()
    own: dict[str, str | int] = {
        SERVICE_VERSION: VERSION,
        "process.pid": os.getpid(),
        "latchkey.process": process,
    }
    if str(named.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        own[SERVICE_NAME] = "latchkey"
    return named.merge(Resource(own))


def parent_of(span: Span) -> Context:
    """Return the SDK's context of a span's parent; an empty one for a root."""
    if not span.parent:
        return Context()
    above = context_of(SpanIds(span.ids.trace, span.parent))
    return set_span_in_context(NonRecordingSpan(above))


def context_of(ids: SpanIds) -> SpanContext:
    """Return the ids of a span as the SDK has it: of another process, and sampled."""
    return SpanContext(
        ids.trace, ids.span, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
