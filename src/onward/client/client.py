"""`Client`: the runs of one tenant, on Postgres."""

from __future__ import annotations

import asyncio
import base64
import binascii
import itertools
import re
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, overload
from uuid import UUID, uuid4

from onward.authoring.definition import Workflow, name_of, version_number
from onward.client import address, inputs
from onward.client.handle import RunHandle
from onward.client.records import (
    Run,
    RunPage,
    SignalResult,
    Start,
    Step,
    WorkflowCounts,
    error_of,
    run_of,
    step_of,
)
from onward.client.results import Results
from onward.core import durations, ids, names
from onward.core.codec import PLAIN, Codec, codec, searchable
from onward.core.durations import Duration
from onward.errors import Conflict, InvalidInput, NotFound, OnwardError, RunCancelled, RunFailed
from onward.store.database import Database
from onward.store.runs import ListQuery, NewRun, NewSignal, RunRecord, Runs, StepRecord, WorkerRecord

I = TypeVar("I")  # noqa: E741  input
O = TypeVar("O")  # noqa: E741  output

_CHUNK = 1000
_STATUSES = ("running", "completed", "failed", "cancelled")
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
"""What Postgres takes in no text."""


class Client:
    """Starts, signals, steers and reads runs. Connects when first used; `async with`, or `close()`."""

    def __init__(self, url: str | None = None, *, token: str | None = None, tenant: str = "default") -> None:
        if token is not None:
            raise InvalidInput("a token is for a REST server (http://…); a database is opened by its URL alone")
        self.tenant = names.tenant_name(tenant)
        self._url = url
        self._address: address.Address | None = None
        self._database: Database | None = None
        self._results: Results | None = None
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """May be called twice. A client that was closed connects again when it is used again."""
        results, self._results = self._results, None
        database, self._database = self._database, None
        place, self._address = self._address, None
        if results is not None:
            await results.close()
        if database is not None:
            await database.close()
        if place is not None:
            await place.release()

    # ---- starting ------------------------------------------------------------------------------------------

    @overload
    async def start(
        self,
        workflow: Workflow[I, O],
        input: I = ...,
        *,
        idempotency_key: str | None = None,
        version: int | None = None,
        retention: Duration | None = None,
        delay: Duration | None = None,
    ) -> RunHandle[O]: ...
    @overload
    async def start(
        self,
        workflow: str,
        input: Any = ...,
        *,
        idempotency_key: str | None = None,
        version: int | None = None,
        retention: Duration | None = None,
        delay: Duration | None = None,
    ) -> RunHandle[Any]: ...

    async def start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any = None,  # noqa: A002  contract
        *,
        idempotency_key: str | None = None,
        version: int | None = None,
        retention: Duration | None = None,
        delay: Duration | None = None,
    ) -> RunHandle[Any]:
        """Starts a run. The same idempotency key with the same input gives the run that is there."""
        item = Start(input, idempotency_key=idempotency_key, delay=delay, retention=retention, version=version)
        new = _new_run(workflow, item)
        started = (await (await self._runs()).start(name_of(workflow), [new]))[0]
        if not started.same:
            raise Conflict(
                f"the idempotency key {idempotency_key!r} belongs to run {started.run_id} of "
                f"{name_of(workflow)!r}, which was started with another input: use another key"
            )
        return self._handle(str(started.run_id), started.run_id == new.run_id, workflow)

    async def start_many(self, workflow: Workflow[I, O] | str, items: Iterable[Start]) -> list[RunHandle[O]]:
        """Starts a run an item, in chunks of a thousand that commit separately; keys that are taken give the
        runs that are there. An error carries the handles so far as `.handles`."""
        handles: list[RunHandle[O]] = []
        source = iter(items)
        try:
            runs = await self._runs()
            while chunk := [_new_run(workflow, item) for item in itertools.islice(source, _CHUNK)]:
                for new, started in zip(chunk, await runs.start(name_of(workflow), chunk), strict=True):
                    handles.append(self._handle(str(started.run_id), started.run_id == new.run_id, workflow))
        except Exception as error:
            error.handles = handles  # type: ignore[attr-defined]
            raise
        return handles

    # ---- one run ---------------------------------------------------------------------------------------------

    def handle(self, run_id: str, workflow: Workflow[Any, O] | None = None) -> RunHandle[O]:
        """A handle on a run that is known by its id; whether it exists is seen when it is used."""
        return self._handle(str(ids.parse(run_id)), False, workflow or "")

    async def get(self, run_id: str) -> Run:
        return run_of(await self.record(run_id))

    async def steps(self, run_id: str) -> list[Step]:
        """The journal in its order, then what is pending."""
        return [step_of(record) for record in await self.step_records(run_id)]

    async def signal(self, run_id: str, event: str, payload: Any = None, *, buffer: bool = True) -> SignalResult:
        """Gives a payload to the run's wait for `event`, or keeps it for the next one that matches."""
        names.event_name(event)
        payload = True if payload is None else payload
        data = _encoded(payload, f"the payload of {event!r}")
        sent = NewSignal(uuid4(), ids.parse(run_id), event, data, searchable(data), buffer)
        outcome = (await (await self._runs()).signal([sent]))[0]
        if outcome == "unknown":
            raise _no_run(run_id)
        if outcome == "ended":
            raise Conflict(f"run {run_id} has ended: it cannot be signalled any more")
        return SignalResult(outcome)

    async def cancel(self, run_id: str) -> Run:
        """Ends a run as cancelled. When this returns, nothing of it is journalled any more."""
        status = await (await self._runs()).cancel(ids.parse(run_id))
        if status is None:
            raise _no_run(run_id)
        if status != "cancelled":
            raise Conflict(f"run {run_id} has {_ended(status)}: it cannot be cancelled any more")
        return await self.get(run_id)

    async def pause(self, run_id: str) -> Run:
        """No new step starts; deadlines go on, and what falls due happens at `resume`."""
        return await self._set_paused(run_id, True)

    async def resume(self, run_id: str) -> Run:
        """Lets a paused run go on, and tries a parked one again."""
        return await self._set_paused(run_id, False)

    async def rerun(
        self, run_id: str, *, from_step: str | None = None, with_outputs: Mapping[str, Any] | None = None
    ) -> RunHandle[Any]:
        """A new run with the same input; `from_step` keeps what was journalled before that step, `with_outputs`
        replaces some of it."""
        outputs = {name: _encoded(value, f"the output of {name!r}") for name, value in (with_outputs or {}).items()}
        if outputs:
            await self._check_kept(run_id, from_step, outputs)
        new_id = inputs.new_id()
        word = await (await self._runs()).rerun(ids.parse(run_id), new_id, from_step, outputs)
        if word == "unknown":
            raise _no_run(run_id)
        if word == "no step":
            raise NotFound(
                f"run {run_id} has no journalled step {from_step!r}: `onward runs steps {run_id}` lists them"
            )
        return self._handle(str(new_id), True, "")

    async def result(self, run_id: str, timeout: Duration | None = None) -> Any:
        """The output, as plain JSON. Raises RunFailed, RunCancelled, or TimeoutError."""
        return await self.outcome(run_id, timeout, None)

    async def outcome(self, run_id: str, timeout: Duration | None, codec: Codec | None) -> Any:
        """`result` for a caller that knows how the output is to be decoded."""
        runs = await self._runs()
        assert self._results is not None
        seconds = None if timeout is None else durations.seconds(timeout, what="timeout")
        record = await self._results.wait(runs, ids.parse(run_id), seconds)
        if record.status == "cancelled":
            raise RunCancelled(f"run {run_id} was cancelled")
        if record.status == "failed":
            raise RunFailed(run_id, error_of(record.error) or {})
        return (codec or PLAIN).decode(record.output or b"null")

    # ---- many runs -----------------------------------------------------------------------------------------------

    def runs(
        self,
        workflow: Workflow[Any, Any] | str | None = None,
        *,
        status: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        input: Mapping[str, Any] | None = None,  # noqa: A002  contract
        cursor: str | None = None,
        limit: int = 50,
    ) -> RunQuery:
        """Runs, newest first: `await` gives a page, `async for` goes through all.

        `input` holds what the input must contain, nested or by path: {"user": {"id": 42}} or {"user.id": 42}.
        """
        if status is not None and status not in _STATUSES:
            raise InvalidInput(f"status is one of {', '.join(_STATUSES)}; got {status!r}")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1000:
            raise InvalidInput(f"limit is a whole number from 1 to 1000, got {limit!r}")
        name = None if workflow is None else name_of(workflow)
        after_time, after_id = _after(cursor)
        query = ListQuery(name, status, _moment(since), _moment(until), _patterns(input), after_time, after_id, limit)
        return RunQuery(self, query)

    async def page(self, query: ListQuery) -> RunPage:
        runs = await self._runs()
        records = await runs.page(query._replace(limit=query.limit + 1))
        page, more = records[: query.limit], len(records) > query.limit
        cursor = _cursor(page[-1]) if more else None

        async def following(cursor: str) -> RunPage:
            after_time, after_id = _after(cursor)
            return await self.page(query._replace(after_time=after_time, after_id=after_id))

        return RunPage([run_of(record) for record in page], cursor, following)

    async def workflows(self) -> list[WorkflowCounts]:
        """Every workflow that has runs, with how many."""
        return [WorkflowCounts(*record) for record in await (await self._runs()).workflows()]

    # ---- for the commands: records with what people do not see in `Run` and `Step` -----------------------------------

    async def record(self, run_id: str) -> RunRecord:
        found = await (await self._runs()).describe([ids.parse(run_id)])
        if not found:
            raise _no_run(run_id)
        return found[0]

    async def step_records(self, run_id: str) -> list[StepRecord]:
        found = await (await self._runs()).steps(ids.parse(run_id))
        if not found:
            await self.record(run_id)
        return found

    async def workers(self) -> list[WorkerRecord]:
        return await (await self._runs()).workers()

    async def database(self) -> Database:
        await self._runs()
        assert self._database is not None
        return self._database

    # ---- inside ------------------------------------------------------------------------------------------------------

    async def _runs(self) -> Runs:
        async with self._opening:
            if self._database is None:
                self._address = await address.resolve(self._url)
                self._database = Database(self._address.url, name="onward client")
                self._results = Results(self._database)
            return Runs(self._database, self.tenant)

    def _handle(self, run_id: str, created: bool, workflow: Workflow[Any, Any] | str) -> RunHandle[Any]:
        how = workflow.output_codec if isinstance(workflow, Workflow) else None
        return RunHandle(self, run_id, created, how)

    async def _set_paused(self, run_id: str, paused: bool) -> Run:
        if not await (await self._runs()).set_paused(ids.parse(run_id), paused):
            run = await self.get(run_id)
            verb = "paused" if paused else "resumed"
            raise Conflict(f"run {run_id} has {_ended(run.status)}: it cannot be {verb} any more")
        return await self.get(run_id)

    async def _check_kept(self, run_id: str, from_step: str | None, outputs: Mapping[str, bytes]) -> None:
        if from_step is None:
            raise InvalidInput("with_outputs replaces what from_step keeps: say from which step to run again")
        kept = [step.path for step in await self.step_records(run_id) if step.completed_at is not None]
        kept = kept[: kept.index(from_step)] if from_step in kept else kept
        for name in outputs:
            if name not in kept:
                raise InvalidInput(f"with_outputs names {name!r}, which is not journalled before {from_step!r}")


class RunQuery:
    """Runs that are asked for: `await` it for the first page, or go through all of them with `async for`."""

    def __init__(self, client: Client, query: ListQuery) -> None:
        self._client, self._query = client, query

    def __await__(self) -> Generator[Any, None, RunPage]:
        return self._client.page(self._query).__await__()

    async def __aiter__(self) -> AsyncIterator[Run]:
        async for run in await self._client.page(self._query):
            yield run


def _new_run(workflow: Workflow[Any, Any] | str, item: Start) -> NewRun:
    if not isinstance(item, Start):
        raise InvalidInput(f"start_many takes Start(input, idempotency_key=…) items, got {item!r}")
    name_of(workflow)
    return inputs.new_run(
        inputs.new_id(),
        workflow,
        inputs.encode(workflow, item.input),
        version=None if item.version is None else version_number(item.version),
        key=None if item.idempotency_key is None else _key(item.idempotency_key),
        retention=None if item.retention is None else durations.seconds(item.retention, what="retention"),
        delay=None if item.delay is None else durations.seconds(item.delay, what="delay"),
    )


def _key(key: str) -> str:
    if not isinstance(key, str) or _NO_TEXT.search(key) or not 1 <= len(key.encode()) <= 512:
        raise InvalidInput(
            f"an idempotency key is a text of 1 to 512 bytes without NUL or lone surrogates, got {key!r}"
        )
    return key


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, list, tuple, dict)) and not hasattr(value, "_fields")


def _encoded(value: Any, what: str) -> bytes:
    how = PLAIN if value is None or _is_plain(value) else codec(type(value))
    return inputs.fitting(how.encode(value, what), what)


def _no_run(run_id: object) -> NotFound:
    return NotFound(f"no run {run_id}")


def _ended(status: str) -> str:
    return "been cancelled" if status == "cancelled" else status


def _moment(when: datetime | str | None) -> datetime | None:
    if isinstance(when, str):
        try:
            when = datetime.fromisoformat(when)
        except ValueError as error:
            raise InvalidInput(f"a point in time is written 2026-05-01T12:00:00Z, got {when!r}") from error
    if when is not None and when.tzinfo is None:
        when = when.astimezone()
    return when


def _patterns(wanted: Mapping[str, Any] | None) -> list[str] | None:
    """What the input must contain; a dotted key may also be a path."""
    if wanted is None:
        return None
    if not isinstance(wanted, Mapping) or not all(isinstance(path, str) for path in wanted):
        raise InvalidInput(f'input is what it must contain, as in input={{"user.id": 42}}; got {wanted!r}')
    nested: dict[str, Any] = {}
    for path, value in wanted.items():
        for key in reversed(path.split(".")):
            value = {key: value}
        _merge(nested, value, path)
    encoded = [searchable(PLAIN.encode(p, "the input filter")) for p in (dict(wanted), nested)]
    return list(dict.fromkeys(encoded))


def _merge(place: dict[str, Any], wanted: dict[str, Any], path: str) -> None:
    """Into dicts that were made here: those of the caller stay as they are."""
    for key, value in wanted.items():
        if isinstance(value, dict) and isinstance(below := place.setdefault(key, {}), dict):
            _merge(below, value, path)
        elif place.setdefault(key, value) != value:
            raise InvalidInput(f"the input filter asks for two things at {path!r}")


def _cursor(record: RunRecord) -> str:
    text = f"{record.started_at.isoformat()} {record.run_id}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _after(cursor: str | None) -> tuple[datetime | None, UUID | None]:
    if cursor is None:
        return None, None
    try:
        moment, run_id = base64.urlsafe_b64decode(cursor.encode()).decode().split(" ")
        return datetime.fromisoformat(moment), UUID(run_id)
    except (ValueError, binascii.Error) as error:
        raise InvalidInput("this cursor was not given by `runs`: take `next_cursor` of a page") from error


__all__ = ["Client", "OnwardError", "RunQuery"]
