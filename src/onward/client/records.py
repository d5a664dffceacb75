"""What clients get back: plain frozen records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from onward.core import names, pointers
from onward.core.codec import PLAIN, Codec, Ref
from onward.core.durations import Duration
from onward.store.runs import RunRecord, StepRecord


@dataclass(frozen=True, slots=True)
class Start:
    """One item of `start_many`."""

    input: Any = None
    _: KW_ONLY
    idempotency_key: str | None = None
    delay: Duration | None = None
    retention: Duration | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it stands. `state` says more of a running one; `reason` why it is parked."""

    id: str
    workflow: str
    version: int | None
    tenant: str
    status: str
    state: str
    reason: str | None
    input: Any
    output: Any
    error: dict[str, Any] | None
    metadata: Mapping[str, Any]
    idempotency_key: str | None
    rerun_of: str | None
    retention: timedelta | None
    started_at: datetime
    completed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Step:
    """A row of the journal, or what is pending. `parent` is the step around it, with those around that: "a / b"."""

    name: str
    parent: str | None
    kind: str
    status: str
    attempt: int
    output: Any
    error: dict[str, Any] | None
    started_at: datetime
    completed_at: datetime | None


@dataclass(frozen=True, slots=True)
class WorkflowCounts:
    """How many runs a workflow has."""

    name: str
    running: int
    completed: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class SignalResult:
    """What became of a signal: a wait got it, it is kept for the next one, or it was thrown away."""

    outcome: str

    @property
    def resolved(self) -> bool:
        return self.outcome == "resolved"

    @property
    def buffered(self) -> bool:
        return self.outcome == "buffered"

    @property
    def dropped(self) -> bool:
        return self.outcome == "dropped"


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some runs, newest first. `async for` goes on through all pages."""

    runs: list[Run]
    next_cursor: str | None
    _next: Callable[[str], Awaitable[RunPage]] = field(repr=False, compare=False)

    async def __aiter__(self) -> AsyncIterator[Run]:
        page = self
        while True:
            for run in page.runs:
                yield run
            if page.next_cursor is None:
                return
            page = await self._next(page.next_cursor)


_FAULT = {"type": None, "message": None, "step": None, "attempt": None, "traceback": None}


def error_of(data: bytes | None) -> dict[str, Any] | None:
    """A recorded error; every key is there."""
    return None if data is None else {**_FAULT, **PLAIN.decode(data)}


class References(Protocol):
    """Who makes a `Ref` of a pointer: the payloads of a client."""

    def ref(self, data: bytes, codec: Codec) -> Ref[Any]: ...


def value_of(data: bytes | None, references: References) -> Any:
    """Plain JSON; a `Ref` where the value lies outside."""
    if data is None:
        return None
    return references.ref(data, PLAIN) if pointers.is_pointer(data) else PLAIN.decode(data)


def run_of(r: RunRecord, references: References) -> Run:
    return Run(
        id=str(r.run_id),
        workflow=r.workflow,
        version=r.version,
        tenant=r.tenant,
        status=r.status,
        state=r.state,
        reason=r.reason,
        input=value_of(r.input, references),
        output=value_of(r.output, references),
        error=error_of(r.error),
        metadata={},
        idempotency_key=r.idempotency_key,
        rerun_of=None if r.rerun_of is None else str(r.rerun_of),
        retention=r.retention,
        started_at=r.started_at,
        completed_at=r.completed_at,
    )


def step_of(r: StepRecord, references: References) -> Step:
    parent, name = names.split(r.path)
    return Step(
        name=name,
        parent=names.readable(parent) or None,
        kind=r.kind,
        status=r.status,
        attempt=r.attempt,
        output=value_of(r.output, references),
        error=error_of(r.error),
        started_at=r.started_at,
        completed_at=r.completed_at,
    )
