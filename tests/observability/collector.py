"""A collector: takes what OpenTelemetry's exporters send over http/protobuf, and keeps it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Span:
    """A span as it came over the wire."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    began: int
    ended: int
    failed: bool
    service: str

    @property
    def what(self) -> str:
        """For people and for comparisons: the step's name, the event, the workflow."""
        of = {"workflow.run": "workflow.name", "workflow.step": "step.name", "workflow.signal": "event"}
        return (
            f"{self.name.removeprefix('workflow.')} {self.attributes[of[self.name]]}" if self.name in of else self.name
        )


@dataclass
class Collector:
    """`spans()` are all that came so far, in the order of their beginnings; exporters are flushed first."""

    url: str
    flush: list[Callable[[], object]] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)

    def spans(self) -> list[Span]:
        for flush in self.flush:
            flush()
        found = [span for request in self.requests for span in _spans(request)]
        return sorted(found, key=lambda span: (span.began, -span.ended))

    def one(self, what: str) -> Span:
        [span] = [span for span in self.spans() if span.what == what]
        return span

    def tree(self) -> dict[str, str]:
        """Each span's parent, both as people call them. No span came twice, and no parent is unknown."""
        spans = self.spans()
        twice = [span for span, count in Counter(span.id for span in spans).items() if count > 1]
        assert twice == []
        names = {span.id: span.what for span in spans}
        return {span.what: names[span.parent] if span.parent else "" for span in spans}


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        service = _values(resource.resource.attributes).get("service.name", "")
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    _values(span.attributes),
                    [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.code == 2,
                    service,
                )


def _values(attributes: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """On loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert (self.path, self.headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.requests.append(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
