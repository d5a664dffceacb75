"""What clients ask of the database: to start runs, to signal and steer them, to read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from onward.store.database import Database


class NewRun(NamedTuple):
    """A run to be started. `hash` tells equal inputs; `search` is the input for the filter; `trace` is what its starter
    is doing (core/traces.py)."""

    run_id: UUID
    version: int | None
    key: str | None
    hash: bytes
    input: bytes
    search: str | None
    retention: float | None
    delay: float | None
    trace: str | None = None


class Started(NamedTuple):
    """`run_id` None: the parent has ended. `same`: the input equals that of the run that is there."""

    run_id: UUID | None
    same: bool


class Begun(NamedTuple):
    """What a start met. `same`: the input equals that of the run that is there; `created`: it was not there before;
    `run_id` None: the id is taken, and not by this tenant."""

    run_id: UUID | None
    same: bool
    created: bool
    record: RunRecord | None


class NewSignal(NamedTuple):
    """`search` None: the payload lies outside; `fits` and `unfit` are matches that it was compared with, as JSON."""

    signal_id: UUID
    run_id: UUID
    event: str
    payload: bytes
    search: str | None
    buffer: bool
    fits: str | None = None
    unfit: str | None = None


class Sent(NamedTuple):
    """What became of a signal: resolved, buffered, dropped, ended, unknown. `appended`: it is there, and was not
    before; then the rest is known of its run."""

    outcome: str
    appended: bool = False
    workflow: str = ""
    version: int | None = None
    trace: str | None = None


class Cancelled(NamedTuple):
    """A run that a cancel has ended, itself or with the one that had invoked it."""

    run_id: UUID
    at: datetime
    workflow: str
    version: int | None
    trace: str | None
    started_at: datetime


class RunRecord(NamedTuple):
    run_id: UUID
    workflow: str
    version: int | None
    tenant: str
    status: str
    state: str
    reason: str | None
    input: bytes
    output: bytes | None
    error: bytes | None
    idempotency_key: str | None
    rerun_of: UUID | None
    retention: timedelta | None
    started_at: datetime
    completed_at: datetime | None


class StepRecord(NamedTuple):
    path: str
    kind: str
    status: str
    attempt: int
    output: bytes | None
    error: bytes | None
    started_at: datetime
    completed_at: datetime | None
    seq: int
    event: str | None
    match: str | None
    child: UUID | None
    attempts: int | None
    deadline: datetime | None


class ResultRecord(NamedTuple):
    status: str
    output: bytes | None
    error: bytes | None
    workflow: str
    version: int | None


class WorkerRecord(NamedTuple):
    worker_id: int
    name: str
    alive: bool
    serves: list[str] | None
    owned: int
    started_at: datetime
    silent_for: float


class SignalRecord(NamedTuple):
    """A signal that came and that no wait has taken."""

    event: str
    payload: bytes
    sent_at: datetime


class Standing(NamedTuple):
    """Who holds a run, and when it is due, as of `asked_at`. `open_version`: the first claim will bind it. `trouble`:
    what keeps its payloads from being written or read."""

    asked_at: datetime
    due_at: datetime | None
    owner: int | None
    deaths: int
    open_version: bool
    trouble: str | None = None


class CountRecord(NamedTuple):
    workflow: str
    running: int
    completed: int
    failed: int
    cancelled: int


class ListQuery(NamedTuple):
    """Which runs, newest first, after the row that the cursor names."""

    workflow: str | None
    status: str | None
    since: datetime | None
    until: datetime | None
    patterns: list[str] | None
    after_time: datetime | None
    after_id: UUID | None
    limit: int


_START_RUN = "select * from onward.start_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
_BEGIN = "select * from onward.begin_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"


class Runs:
    """The runs of one tenant."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database, self._tenant = database, tenant

    async def start(
        self,
        workflow: str,
        runs: Sequence[NewRun],
        *,
        parent: UUID | None = None,
        call: str | None = None,
    ) -> list[Started]:
        started = await self._start(workflow, runs, parent, call)
        keyed = any(new.key is not None and one.run_id is None for new, one in zip(runs, started, strict=True))
        if parent is None and keyed:
            # a key's run was removed between the insert that met it and the look: now the key is free
            started = await self._start(workflow, runs, parent, call)
        return started

    async def _start(
        self, workflow: str, runs: Sequence[NewRun], parent: UUID | None, call: str | None
    ) -> list[Started]:
        if len(runs) == 1 and parent is None:
            (row,) = await self._database.fetch(_START_RUN, runs[0][0], self._tenant, workflow, *runs[0][1:])
            return [Started(*row)]
        columns = [list(column) for column in zip(*runs, strict=True)]
        ids, versions, keys, hashes, inputs, searches, retentions, delays, traces = columns
        rows = await self._database.fetch(
            "select * from onward.start_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, null, $13)",
            ids,
            self._tenant,
            workflow,
            versions,
            keys,
            hashes,
            inputs,
            searches,
            retentions,
            delays,
            parent,
            call,
            traces,
        )
        return [Started(*row) for row in rows]

    async def begin(self, workflow: str, runs: Sequence[NewRun]) -> list[Begun]:
        """Starts runs and tells what is there then."""
        ids, versions, *columns = (list(column) for column in zip(*runs, strict=True))
        # what nobody gave is no array of nulls: those are encoded one by one
        given = [column if any(value is not None for value in column) else None for column in columns]
        rows = await self._database.fetch(_BEGIN, ids, self._tenant, workflow, versions, *given)
        there = [row["run_id"] for row in rows if row["run_id"] and not row["created"]]
        found = {record.run_id: record for record in await self.describe(there)} if there else {}
        begun = []
        for new, row in zip(runs, rows, strict=True):
            run_id, same, created = row["run_id"], row["same"], row["created"]
            record = self._begun(workflow, new, row) if created else found.get(run_id)
            begun.append(Begun(None if record is None else run_id, same, created, record))
        return begun

    def _begun(self, workflow: str, new: NewRun, row: Mapping[str, Any]) -> RunRecord:
        """What `describe` would say of a run that was started just now."""
        return RunRecord(
            run_id=new.run_id,
            workflow=workflow,
            version=row["version"],
            tenant=self._tenant,
            status="running",
            state="queued" if row["served"] or new.delay else "stranded",
            reason=None,
            input=new.input,
            output=None,
            error=None,
            idempotency_key=new.key,
            rerun_of=None,
            retention=row["retention"],
            started_at=row["started_at"],
            completed_at=None,
        )

    async def signal(self, signals: Sequence[NewSignal]) -> list[str]:
        """An outcome each."""
        return [sent.outcome for sent in await self.send(signals)]

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        columns = [list(column) for column in zip(*signals, strict=True)]
        rows = await self._database.fetch(
            "select * from onward.signal($1, $2, $3, $4, $5, $6, $7, $8, $9)", self._tenant, *columns
        )
        return [Sent(*row) for row in rows]

    async def matches(self, run_id: UUID, event: str) -> list[str]:
        """What the run's waits for the event match."""
        rows = await self._database.fetch("select onward.list_matches($1, $2, $3)", self._tenant, run_id, event)
        return [row[0] for row in rows]

    async def cancel(self, run_id: UUID, ended: Callable[[Cancelled], None] | None = None) -> str | None:
        """The run's status once it can journal nothing more; None: no such run. Its invoked runs go with it. `ended` is
        told of each that this has ended."""
        row = await self._database.fetchrow("select * from onward.cancel($1, $2)", self._tenant, run_id)
        if row is None or row["status"] is None:
            return None
        if row["former"] is not None:
            await self._database.fetch("select onward.await_lanes($1)", row["former"])
        if row["ended"] is not None and ended is not None:
            ended(Cancelled(run_id, row["ended"], row["workflow"], row["version"], row["trace"], row["started"]))
        if row["status"] == "cancelled":
            for child in row["children"] or ():
                await self.cancel(child, ended)
        status: str = row["status"]
        return status

    async def set_paused(self, run_id: UUID, paused: bool) -> bool:
        done: bool = await self._database.fetchval("select onward.set_paused($1, $2, $3)", self._tenant, run_id, paused)
        return done

    async def describe(self, run_ids: Sequence[UUID]) -> list[RunRecord]:
        rows = await self._database.fetch("select * from onward.describe($1, $2)", self._tenant, list(run_ids))
        return [RunRecord(*row) for row in rows]

    async def page(self, query: ListQuery) -> list[RunRecord]:
        found = await self._database.fetchval(
            "select onward.list_runs($1, $2, $3, $4, $5, $6, $7, $8, $9)", self._tenant, *query
        )
        return await self.describe(found) if found else []

    async def steps(self, run_id: UUID) -> list[StepRecord]:
        rows = await self._database.fetch("select * from onward.list_steps($1, $2)", self._tenant, run_id)
        return [StepRecord(*row) for row in rows]

    async def signals(self, run_id: UUID) -> list[SignalRecord]:
        """What came and was not taken."""
        rows = await self._database.fetch("select * from onward.list_signals($1, $2)", self._tenant, run_id)
        return [SignalRecord(*row) for row in rows]

    async def standing(self, run_id: UUID) -> Standing | None:
        row = await self._database.fetchrow("select * from onward.standing($1, $2)", self._tenant, run_id)
        return None if row is None else Standing(*row)

    async def workflows(self) -> list[CountRecord]:
        rows = await self._database.fetch("select * from onward.list_workflows($1)", self._tenant)
        return [CountRecord(*row) for row in rows]

    async def await_result(self, run_id: UUID, channel: str, seconds: float) -> ResultRecord | None:
        row = await self._database.fetchrow(
            "select * from onward.await_result($1, $2, $3, $4)", self._tenant, run_id, channel, seconds
        )
        return None if row is None else ResultRecord(*row)

    async def await_results(self, run_ids: Sequence[UUID], channel: str, seconds: float) -> list[UUID]:
        """Those that have ended; with `seconds`, the waits for all are written again first. Runs of any tenant: each
        wait's own `await_result` was for its tenant."""
        rows = await self._database.fetch(
            "select * from onward.await_results($1, $2, $3)", list(run_ids), channel, seconds
        )
        return [row[0] for row in rows]

    async def rerun(
        self,
        run_id: UUID,
        new_id: UUID,
        from_step: str | None,
        outputs: dict[str, bytes],
        trace: str | None = None,
    ) -> str:
        word: str = await self._database.fetchval(
            "select onward.rerun($1, $2, $3, $4, $5, $6, $7)",
            self._tenant,
            run_id,
            new_id,
            from_step,
            list(outputs),
            list(outputs.values()),
            trace,
        )
        return word

    async def workers(self) -> list[WorkerRecord]:
        return [WorkerRecord(*row) for row in await self._database.fetch("select * from onward.list_workers()")]
