"""OpenTelemetry spans, exported over OTLP/HTTP to OTEL_EXPORTER_OTLP_ENDPOINT (decision 214).

Without that address nothing is recorded, and the SDK (``core.lib.tracing_export``) is never
imported. The ids of traces, and of spans that have children, are computed from public ids: each
process finds its parent by what is stored. Spans have no texts, names of people, addresses or keys.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from core.lib.tracing_export import BatchExporter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
# How long a process waits at its end until its last spans are sent.
CLOSE_SECONDS = 1.0
TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-|$)")

Kind: TypeAlias = Literal["internal", "server", "client", "consumer", "producer"]
Attributes: TypeAlias = Mapping[str, str | int | float | bool]


class SpanIds(NamedTuple):
    """A span as its children and links name it. ``span``: 0 where a root belongs."""

    trace: int
    span: int


@dataclass(slots=True)
class Span:
    """One step in nanoseconds since 1970. ``parent`` 0: a root. ``error``: a code, never a text."""

    name: str
    ids: SpanIds
    parent: int
    began: int
    ended: int = 0
    kind: Kind = "internal"
    attributes: dict[str, str | int | float | bool] = field(default_factory=dict)
    error: str = ""
    link: SpanIds | None = None


# The span that the code works in now.
HERE: ContextVar[Span | None] = ContextVar("span", default=None)
process_name = "manage"


@cache
def is_on() -> bool:
    """Return whether spans are exported, as the environment says."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(os.environ.get(name, "").strip() for name in ENDPOINTS)


def load(process: str) -> None:
    """Load the SDK before the first span: that takes a third of a second. Nothing when it is off.

    ``process``: how it is called in its spans.
    """
    global process_name  # noqa: PLW0603 - the name of this process
    if not is_on():
        return
    process_name = process
    exporter()


@cache
def exporter() -> "BatchExporter":
    from core.lib.tracing_export import BatchExporter  # noqa: PLC0415 - only while it is on

    return BatchExporter(process_name)


def close() -> None:
    """Send the spans that are queued, at the end of a process: within CLOSE_SECONDS."""
    if is_on() and exporter.cache_info().currsize:
        exporter().close(seconds=CLOSE_SECONDS)
        exporter.cache_clear()


def now() -> int:
    """Return the time as spans have it; 0 while tracing is off."""
    return time.time_ns() if is_on() else 0


def trace_id(*names: object) -> int:
    """Return the id of the trace that is called by ``names``."""
    return hashed(names, size=16)


def span_id(*names: object) -> int:
    """Return the id of the span that is called by ``names``."""
    return hashed(names, size=8)


def hashed(names: Iterable[object], *, size: int) -> int:
    """Return a number of ``size`` bytes, never 0, which no trace and no span may have."""
    joined = "\0".join(map(str, names)).encode()
    return int.from_bytes(hashlib.blake2b(joined, digest_size=size).digest()) or 1


def root_of(trace: int) -> SpanIds:
    """Return the ids of the first span of a trace."""
    return SpanIds(trace, span_id(trace))


def caller_of(headers: Iterable[tuple[bytes, bytes]]) -> SpanIds | None:
    """Return the span that a client names in the header ``traceparent`` (W3C Trace Context)."""
    given = next((value for name, value in headers if name == b"traceparent"), b"")
    found = TRACEPARENT.match(given)
    ids = SpanIds(int(found[1], 16), int(found[2], 16)) if found else SpanIds(0, 0)
    return ids if ids.trace and ids.span else None


def record(
    name: str,
    *,
    began: int,
    under: SpanIds | None = None,
    kind: Kind = "internal",
    attributes: Attributes | None = None,
    error: str = "",
    make_root: bool = False,
    link: SpanIds | None = None,
) -> None:
    """Export a step that ends now, or that of ``under`` whose parent it is (``make_root``).

    ``under``: its parent; default the span that the code works in. Nothing without one.
    """
    here = HERE.get()
    parent = under or (here.ids if here is not None else None)
    if parent is None or not is_on():
        return
    ids = parent if make_root else SpanIds(parent.trace, 0)
    span = Span(name, ids, 0 if make_root else parent.span, began, kind=kind, link=link)
    span.attributes |= attributes or {}
    span.error = error
    end(span)


@contextmanager
def step(
    name: str,
    *,
    under: SpanIds | None = None,
    key: object = None,
    kind: Kind = "internal",
    attributes: Callable[[], Attributes] = dict,
) -> Iterator[None]:
    """Export a step that lasts as long as the block; steps that are recorded meanwhile are its
    children.

    ``under``: as in :func:`record`. ``key``: makes its id computable, as :func:`child`.
    """
    here = HERE.get()
    parent = under or (here.ids if here is not None else None)
    if parent is None or not is_on():
        yield
        return
    span = Span(name, child(parent, key or os.urandom(8)), parent.span, now(), kind=kind)
    span.attributes |= attributes()
    token = HERE.set(span)
    try:
        yield
    except BaseException as error:
        span.error = span.error or type(error).__name__
        raise
    finally:
        HERE.reset(token)
        end(span)


def child(parent: SpanIds, key: object) -> SpanIds:
    """Return the ids of the child of ``parent`` that is called ``key``."""
    return SpanIds(parent.trace, span_id(parent.span, key))


def note(name: str, value: str | int) -> None:
    """Add an attribute to the span that the code works in."""
    span = HERE.get()
    if span is not None:
        span.attributes[name] = value


def fail(code: str) -> None:
    """Mark the span that the code works in as failed; ``code``: a word of ours, no text."""
    span = HERE.get()
    if span is not None:
        span.error = code


def end(span: Span) -> None:
    """Export a span that ends now, if the sampler wants its trace."""
    to = exporter()
    if to.is_wanted(span.ids.trace):
        span.ended = time.time_ns()
        to.export(span)
