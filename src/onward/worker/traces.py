"""The trace of a run that is executed here: its spans, each emitted when the database has answered that it is done.

What nobody was answered for is emitted by nobody: a worker that dies between a commit and its answer takes the span of
that one step with it. The other way round there would be spans of what never happened, or the same one twice. What the
database journals itself (sleeps, waits, children) it tells one worker of, once, with when it began (`Row.began`).

A step's function runs with the step's span as the current one, though that is only emitted when the step is journalled:
so whatever the function does, and whomever it calls, stands below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import Token
from datetime import datetime
from typing import TYPE_CHECKING

from onward.client.traces import Spans, around, nanoseconds, of_run
from onward.core import names
from onward.core.replay import Row
from onward.core.traces import Trace, parse
from onward.store.handouts import HandOut, Result
from onward.worker import faults

if TYPE_CHECKING:
    from opentelemetry.context import Context


class Traced:
    """One run, in a process that traces."""

    __slots__ = ("_attributes", "_began", "_spans", "_trace")

    def __init__(self, spans: Spans, out: HandOut) -> None:
        self._spans, self._began = spans, out.started_at
        self._trace = spans.trace(out.run_id, out.trace)
        self._attributes = of_run(out.workflow, out.version, out.run_id)

    def journalled(self, result: Result, at: datetime) -> None:
        """A step's result was."""
        ended = nanoseconds(at)
        began = ended - int(result.seconds * 1e9)
        self._step(result.path, result.kind, result.attempt, result.error, began, ended)

    def told(self, rows: Iterable[Row]) -> None:
        """Rows that the database has journalled are told of here; what was told before comes without its beginning."""
        for row in rows:
            if row.began is not None:
                began, ended = nanoseconds(row.began), nanoseconds(row.at)
                self._step(row.path, row.kind, row.attempt, row.error, began, ended)

    def _step(self, path: str, kind: str, attempt: int, error: bytes | None, began: int, ended: int) -> None:
        parent, name = names.split(path)
        attributes = self._attributes | {"step.name": name, "step.kind": kind, "step.attempt": attempt}
        attributes["status"] = "completed" if error is None else "failed"
        place, above = self._trace.step(path), self._trace.step(parent)
        self._spans.emit("workflow.step", place, above, began, ended, attributes, error=_type(error))

    def ended(self, status: str, error: bytes | None, at: datetime) -> None:
        """The run has."""
        began, ended = nanoseconds(self._began), nanoseconds(at)
        attributes = self._attributes | {"status": status}
        run, parent = self._trace.run, self._trace.parent
        self._spans.emit("workflow.run", run, parent, began, ended, attributes, error=_type(error))

    def traceparent(self, path: str) -> str:
        """Of what the step at this path starts."""
        return self._trace.step(path).written()

    def enter(self, path: str) -> Token[Context]:
        """What is done from here on is done within the step at this path, or, with "", within the run."""
        from opentelemetry import context

        return context.attach(around(self._trace.step(path), context.get_current()))


def leave(token: Token[Context]) -> None:
    from opentelemetry import context

    context.detach(token)


def traceparent(traced: Traced | None, out: HandOut, path: str) -> str | None:
    """Of what a step starts. A process that does not trace passes on what others do."""
    if traced is not None:
        return traced.traceparent(path)
    parent = parse(out.trace)
    return None if parent is None else Trace(out.run_id, parent).step(path).written()


def _type(error: bytes | None) -> str | None:
    return None if error is None else faults.decode(error).type
