"""A collector, and this process as one that has set up OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from cli.conftest import terminal
from observability.collector import Collector, collecting
from worker.conftest import until, world

__all__ = ["terminal", "until", "world"]


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector for processes that this one starts."""
    with collecting() as there:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", there.url)
        yield there


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector for the spans of this process, whose tracer provider is set: behind the back of OpenTelemetry, which
    allows that once a process."""
    with collecting() as there:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{there.url}/v1/traces")))
        there.flush.append(provider.force_flush)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
        yield there
        provider.shutdown()
