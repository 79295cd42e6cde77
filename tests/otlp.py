"""A receiver of OpenTelemetry spans over HTTP, as a collector has one at port 4318."""

import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True, slots=True)
class Received:
    """A span. ``parent`` is empty for a root; ``process`` is that of its resource."""

    name: str
    trace: str
    id: str
    parent: str
    process: str
    service: str
    kind: int
    failed: bool
    began: int
    ended: int
    attributes: dict[str, Any] = field(hash=False)
    links: tuple[str, ...] = ()


class Receiver:
    """An HTTP server in a thread. ``bodies`` are the bytes of all requests, ``headers`` theirs."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.headers.append(dict(self.headers))
                receiver.bodies.append(body)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Return the value for OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def spans(self, **wanted: str) -> list[Received]:
        """Return the spans so far with these fields, by their beginning."""
        found = [span for body in list(self.bodies) for span in spans_of(body)]
        fitting = [
            each
            for each in found
            if all(getattr(each, name) == value for name, value in wanted.items())
        ]
        return sorted(fitting, key=lambda each: each.began)

    def of_run(self, run: str) -> list[Received]:
        """Return all spans of the traces that have a span of this run."""
        traces = {each.trace for each in self.spans() if each.attributes.get("latchkey.run") == run}
        return [each for each in self.spans() if each.trace in traces]

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def spans_of(body: bytes) -> Iterator[Received]:
    """Yield the spans of one request. Raises DecodeError for what is none."""
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        whose = values_of(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Received(
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    process=str(whose["latchkey.process"]),
                    service=str(whose["service.name"]),
                    kind=span.kind,
                    failed=span.status.code == span.status.STATUS_CODE_ERROR,
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    attributes=values_of(span.attributes),
                    links=tuple(
                        f"{link.trace_id.hex()}-{link.span_id.hex()}" for link in span.links
                    ),
                )


def values_of(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
