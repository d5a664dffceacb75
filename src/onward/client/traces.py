"""Spans, on their way to OpenTelemetry: in processes where its SDK is set up, and nowhere else.

Onward's spans are emitted when what they tell was committed, with times and ids that are given (core/traces.py), so
none needs an object that lives as long as it does. The provider is the one that the process has set; a worker or a
server where none is set makes one, if the environment names a collector. A client makes none: the process is not its
own.

Without OpenTelemetry none of it is imported: a look at `sys.modules` tells that nobody else in the process uses it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from uuid import UUID

from onward.core.traces import SAMPLED, Place, Trace, parse
from onward.store.runs import Cancelled, NewSignal, Sent

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Tracer, TracerProvider

_log = logging.getLogger("onward")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

arrived: ContextVar[str | None] = ContextVar("onward_traceparent", default=None)
"""The `traceparent` of the request that is being answered."""


def current() -> str | None:
    """What the caller is doing: the active span, else that of whoever has sent the request that is being answered."""
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import trace

        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            return Place(context.trace_id, context.span_id, int(context.trace_flags)).written()
    return arrived.get()


def valid(traceparent: str | None) -> str | None:
    """What somebody sent, if it is one."""
    return None if (place := parse(traceparent)) is None else place.written()


class Spans:
    """Emits to one provider. What goes wrong with that is logged, and never the caller's trouble."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer, self._ids = tracer, _Given()
        tracer.id_generator = self._ids  # type: ignore[assignment]  # it is asked for these two and no more

    def trace(self, run_id: UUID, traceparent: str | None) -> Trace:
        """Whether it is sampled is the starter's decision; where there is none the sampler's, which for the same id
        decides the same everywhere."""
        parent = parse(traceparent)
        if parent is not None:
            return Trace(run_id, parent)
        from opentelemetry.sdk.trace.sampling import Decision

        told = self._tracer.sampler.should_sample(None, run_id.int or 1, "workflow.run")
        return Trace(run_id, None, SAMPLED if told.decision is Decision.RECORD_AND_SAMPLE else 0)

    def emit(
        self,
        name: str,
        place: Place,
        parent: Place | None,
        began: int,
        ended: int,
        attributes: Mapping[str, str | int],
        *,
        error: str | None = None,
        link: Place | None = None,
    ) -> None:
        """`began`, `ended`: in nanoseconds. `error`: the type of what it failed with; its text is the user's."""
        from opentelemetry import trace

        try:
            self._ids.trace, self._ids.span = place.trace, place.span
            links = [trace.Link(_context_of(link))] if link is not None else []
            span = self._tracer.start_span(name, around(parent), attributes=attributes, links=links, start_time=began)
            if error is not None:
                span.set_status(trace.StatusCode.ERROR, error)
            span.end(max(began, ended))
        except Exception as trouble:  # of a processor that the process has brought
            _log.warning("a span %s was not emitted: %s", name, type(trouble).__name__)


class _Given(threading.local):
    """Ids of the span that is made next, in the place of random ones."""

    trace, span = 1, 1

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span

    def is_trace_id_random(self) -> bool:
        return False


def around(place: Place | None, base: Context | None = None) -> Context:
    """The context of what happens within a span that somebody else emits."""
    from opentelemetry import context, trace

    base = context.Context() if base is None else base
    return base if place is None else trace.set_span_in_context(trace.NonRecordingSpan(_context_of(place)), base)


def _context_of(place: Place) -> Any:
    from opentelemetry import trace

    return trace.SpanContext(place.trace, place.span, is_remote=True, trace_flags=trace.TraceFlags(place.flags))


def nanoseconds(moment: datetime) -> int:
    """Exactly: a float of so many seconds has no microseconds any more."""
    passed = moment - _EPOCH
    return ((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds) * 1000


# ---- what clients tell -----------------------------------------------------------------------------------------


def signalled(signal: NewSignal, sent: Sent, began: int) -> None:
    """A signal was appended: a span of its run, linked to what its sender was doing."""
    if not sent.appended or (spans := find()) is None:
        return
    trace = spans.trace(signal.run_id, sent.trace)
    attributes = of_run(sent.workflow, sent.version, signal.run_id) | {"event": signal.event}
    place, link = trace.signal(signal.signal_id), parse(current())
    spans.emit("workflow.signal", place, trace.run, began, time.time_ns(), attributes, link=link)


def cancelled(one: Cancelled) -> None:
    """A run was ended, and not by whoever executes it."""
    if (spans := find()) is None:
        return
    trace = spans.trace(one.run_id, one.trace)
    attributes = of_run(one.workflow, one.version, one.run_id) | {"status": "cancelled"}
    began, ended = nanoseconds(one.started_at), nanoseconds(one.at)
    spans.emit("workflow.run", trace.run, trace.parent, began, ended, attributes)


def of_run(workflow: str, version: int | None, run_id: UUID) -> dict[str, str | int]:
    """What all spans of a run say; a version that is open is not known yet."""
    bound = {} if version is None else {"workflow.version": version}
    return {"workflow.name": workflow, **bound, "run_id": str(run_id)}


# ---- the provider ----------------------------------------------------------------------------------------------


def find() -> Spans | None:
    """For the provider that this process has set, if it is the SDK's: others take no ids."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = trace.get_tracer_provider()
    return _of(provider) if isinstance(provider, TracerProvider) else None


@lru_cache(maxsize=8)
def _of(provider: TracerProvider) -> Spans | None:
    from opentelemetry.sdk.trace import Tracer

    tracer = provider.get_tracer("onward", version("onward"))
    return Spans(tracer) if isinstance(tracer, Tracer) else None  # else the SDK is disabled


def begin(environment: Mapping[str, str] = os.environ) -> Spans | None:
    """The same for a worker or a server: where nobody has set a provider and the environment names a collector, one is
    made, and set for the user's own spans as well. They are flushed when the process ends."""
    endpoint = _collector(environment)
    if endpoint is None or _is_set():
        return find()
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _log.warning("no traces: a collector is named, and OpenTelemetry is not here: pip install 'onward[otel]'")
        return None
    named = "OTEL_SERVICE_NAME" in environment or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if named else {"service.name": "onward"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint or None)))
    trace.set_tracer_provider(provider)
    return find()


def _is_set() -> bool:
    if "opentelemetry.trace" not in sys.modules:
        return False
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def _collector(environment: Mapping[str, str]) -> str | None:
    """Where spans go to; "": where the SDK's own variables say. None: nowhere."""
    exporters = environment.get("OTEL_TRACES_EXPORTER", "")
    if exporters == "none" or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if exporters == "otlp" or any(environment.get(name) for name in _ENDPOINTS):
        return ""
    short, enabled = environment.get("OTLP_ENDPOINT"), environment.get("OTLP_ENABLED", "").lower()
    if enabled in ("0", "false", "no", "off") or not (short or enabled):
        return None
    return f"{short.rstrip('/')}/v1/traces" if short else ""


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
