"""What goes over HTTP, declared once: the server encodes and decodes by it, its OpenAPI document is made of it, and the
client reads by it.

Values travel as the bytes that were stored, untouched on the way: integers of any size, NUL characters and all. What
lies in the payload store is its pointer, `{"$payload": …}`, written compactly; a user's own value that would look like
one is written with a space, as in the journal (core/pointers.py), so that no reader takes it for a pointer.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct, field

from onward.core import durations, names
from onward.core.pointers import is_pointer
from onward.store.runs import CountRecord, RunRecord, StepRecord

LARGEST = 32 << 20
"""Bytes of a request's body."""
MOST_AT_ONCE = 10_000
"""Runs in one `runs:batch`."""

_NULL = Raw(b"null")

Version = Annotated[int, Meta(ge=1, le=2**31 - 1, description="Default: the highest that a live worker serves.")]
Key = Annotated[str, Meta(min_length=1, max_length=512, description="The same key and input give the same run.")]
Days = Annotated[float, Meta(ge=0, le=365_250, description="How long the run is kept after its end.")]
Span = Annotated[str, Meta(extra_json_schema={"pattern": "^[0-9]{1,4}(\\.[0-9]{1,3})?(ms|s|m|h|d|w)$"})]
"""A duration as people write it. The document names the short form; the others are taken as well."""
Delay = Annotated[
    Span | Annotated[float, Meta(ge=0, le=durations.LONGEST)],
    Meta(description='Start later: "90s", "2h", or a number of seconds.', examples=["90s"]),
]


class Body(Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What a request holds. A field that nobody knows is refused: it is a slip."""


class Form(Struct, rename="camel"):
    """What an answer holds. A reader leaves what it does not know: a newer server may say more."""


class NewRun(Body):
    """A run to be started."""

    input: Raw = field(default_factory=lambda: _NULL)
    id: UUID | None = None
    version: Version | None = None
    idempotency_key: Key | None = None
    retention_days: Days | None = None
    delay: Delay | None = None
    metadata: None = None


class NewRuns(Body):
    """Runs to be started together."""

    runs: Annotated[list[NewRun], Meta(max_length=MOST_AT_ONCE)]


class Rerun(Body):
    """What of the journal a rerun keeps, and what it replaces; `id`: of the new run."""

    from_step: Annotated[str, Meta(min_length=1)] | None = None
    with_outputs: dict[str, Raw] = {}
    id: UUID | None = None


class Fault(Form):
    """Why a run or a step failed."""

    type: str | None = None
    message: str | None = None
    step: str | None = None
    attempt: int | None = None
    traceback: str | None = None


class Run(Form):
    """A run as it stands."""

    id: UUID
    workflow: str
    version: int | None
    tenant: str
    status: Literal["running", "completed", "failed", "cancelled"]
    state: str
    reason: str | None
    input: Raw
    output: Raw
    error: Fault | None
    metadata: dict[str, Any]
    idempotency_key: str | None
    rerun_of: UUID | None
    retention: str | None
    started_at: datetime
    completed_at: datetime | None


class RunList(Form):
    """A page of runs, newest first."""

    runs: list[Run]
    next_cursor: str | None


class Existing(Form):
    """A run that was there already."""

    id: UUID
    idempotency_key: str | None


class Batch(Form):
    """What was created, and what was skipped."""

    runs: list[Run]
    existing: list[Existing]


class Step(Form):
    """A row of the journal, or what is pending."""

    name: str
    parent: str | None
    kind: Literal["run", "sleep", "wait", "race", "start", "invoke", "batch"]
    status: Literal["completed", "failed", "retrying", "sleeping", "waiting"]
    attempt: int
    output: Raw
    error: Fault | None
    started_at: datetime
    completed_at: datetime | None


class StepList(Form):
    """The journal in its order, then what is pending."""

    steps: list[Step]


class Outcome(Form):
    """What became of a signal."""

    outcome: Literal["resolved", "buffered", "dropped"]


class Counts(Form):
    """How many runs a workflow has."""

    name: str
    running: int
    completed: int
    failed: int
    cancelled: int


class Health(Form):
    """The server's word on itself."""

    status: str


class Problem(Form, omit_defaults=True):
    """What went wrong (RFC 9457); `detail` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    request_id: str | None = None


# ---- records of the store, there and back ------------------------------------------------------------------------


def run_form(r: RunRecord) -> Run:
    return Run(
        id=r.run_id,
        workflow=r.workflow,
        version=r.version,
        tenant=r.tenant,
        status=r.status,  # type: ignore[arg-type]  # the database checks it
        state=r.state,
        reason=r.reason,
        input=value_form(r.input),
        output=value_form(r.output),
        error=_fault(r.error),
        metadata={},
        idempotency_key=r.idempotency_key,
        rerun_of=r.rerun_of,
        retention=_span(r.retention),
        started_at=r.started_at.astimezone(UTC),
        completed_at=None if r.completed_at is None else r.completed_at.astimezone(UTC),
    )


def run_record(f: Run) -> RunRecord:
    return RunRecord(
        run_id=f.id,
        workflow=f.workflow,
        version=f.version,
        tenant=f.tenant,
        status=f.status,
        state=f.state,
        reason=f.reason,
        input=bytes(f.input),
        output=bytes(f.output) if f.status == "completed" else None,
        error=None if f.error is None else msgspec.json.encode(f.error),
        idempotency_key=f.idempotency_key,
        rerun_of=f.rerun_of,
        retention=None if f.retention is None else timedelta(seconds=durations.seconds(f.retention)),
        started_at=f.started_at,
        completed_at=f.completed_at,
    )


def step_form(r: StepRecord) -> Step:
    parent, name = names.split(r.path)
    return Step(
        name=name,
        parent=names.readable(parent) or None,
        kind=r.kind,  # type: ignore[arg-type]  # the database checks it
        status=r.status,  # type: ignore[arg-type]
        attempt=r.attempt,
        output=value_form(r.output),
        error=_fault(r.error),
        started_at=r.started_at.astimezone(UTC),
        completed_at=None if r.completed_at is None else r.completed_at.astimezone(UTC),
    )


def step_record(f: Step, seq: int) -> StepRecord:
    """Without what people do not see. The path is that of a step whose parent is called as it is shown."""
    return StepRecord(
        path=f.name if f.parent is None else f"{f.parent}{names.SEPARATOR}{f.name}",
        kind=f.kind,
        status=f.status,
        attempt=f.attempt,
        output=bytes(f.output) if f.status == "completed" else None,
        error=None if f.error is None else msgspec.json.encode(f.error),
        started_at=f.started_at,
        completed_at=f.completed_at,
        seq=seq,
        event=None,
        match=None,
        child=None,
        attempts=None,
        deadline=None,
    )


def counts_form(r: CountRecord) -> Counts:
    return Counts(*r)


def value_form(data: bytes | None) -> Raw:
    """A stored value. The space of a pointer's look-alike goes inside: one in front would not arrive."""
    if data is None:
        return _NULL
    looks_like_one = data.startswith(b" ") and is_pointer(data[1:])
    return Raw(b"{ " + data[2:]) if looks_like_one else Raw(data)


def _fault(data: bytes | None) -> Fault | None:
    return None if data is None else msgspec.json.decode(data, type=Fault)


@lru_cache(maxsize=256)
def _span(span: timedelta | None) -> str | None:
    """As people write it; what that would round is given in seconds."""
    if span is None:
        return None
    shown = durations.show(span.total_seconds())
    return shown if durations.seconds(shown) == span.total_seconds() else f"{span.total_seconds():f}s"
