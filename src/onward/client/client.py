"""`Client`: the runs of one tenant, in a Postgres or behind a server."""

from __future__ import annotations

import asyncio
import copy
import itertools
import re
import time
from collections.abc import AsyncIterator, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, overload
from uuid import UUID, uuid4

from onward.authoring.definition import Workflow, name_of, version_number
from onward.authoring.handoff import Handoff
from onward.client import inputs, questions, signals, traces
from onward.client.arrivals import Arrivals
from onward.client.handle import RunHandle
from onward.client.links import Link, link
from onward.client.payloads import Payloads
from onward.client.questions import Question
from onward.client.queues import Queue
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
from onward.client.topics import Topics
from onward.core import durations, ids, names, pointers
from onward.core.codec import PLAIN, Codec, Referred
from onward.core.durations import Duration
from onward.errors import Conflict, InvalidInput, NotFound, OnwardError, RunCancelled, RunFailed
from onward.payloads.layout import Owner
from onward.store.database import Database
from onward.store.runs import Begun, NewRun, RunRecord, Runs, StepRecord, WorkerRecord

I = TypeVar("I")  # noqa: E741  input
O = TypeVar("O")  # noqa: E741  output

_CHUNK = 1000
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
"""What Postgres takes in no text."""


class Client:
    """Starts, signals, steers and reads runs. Connects when first used; `async with`, or `close()`."""

    def __init__(self, url: str | None = None, *, token: str | None = None, tenant: str = "default") -> None:
        self.tenant = names.tenant_name(tenant)
        self._link: Link = link(url, token)
        self.arrivals = Arrivals(self._link.database)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """May be called twice. A client that was closed connects again when it is used again."""
        await self.arrivals.close()
        await self._link.close()

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
        runs = await self._runs()
        (new,) = await self.new_runs(workflow, [item])
        started = (await runs.start(name_of(workflow), [new]))[0]
        if started.run_id != new.run_id:
            await self._discard(name_of(workflow), [new])
        if not started.same:
            raise key_taken(idempotency_key, started.run_id, name_of(workflow))
        return self._handle(str(started.run_id), started.run_id == new.run_id, workflow)

    async def start_many(self, workflow: Workflow[I, O] | str, items: Iterable[Start]) -> list[RunHandle[O]]:
        """Starts a run an item, in chunks of a thousand that commit separately; keys that are taken give the
        runs that are there. An error carries the handles so far as `.handles`."""
        handles: list[RunHandle[O]] = []
        source = iter(items)
        try:
            runs = await self._runs()
            while items_of_chunk := list(itertools.islice(source, _CHUNK)):
                chunk = await self.new_runs(workflow, items_of_chunk)
                found = await runs.start(name_of(workflow), chunk)
                for new, started in zip(chunk, found, strict=True):
                    handles.append(self._handle(str(started.run_id), started.run_id == new.run_id, workflow))
                taken = [new for new, started in zip(chunk, found, strict=True) if started.run_id != new.run_id]
                await self._discard(name_of(workflow), taken)
        except Exception as error:
            error.handles = handles  # type: ignore[attr-defined]
            raise
        return handles

    # ---- one run ---------------------------------------------------------------------------------------------

    def handle(self, run_id: str, workflow: Workflow[Any, O] | None = None) -> RunHandle[O]:
        """A handle on a run that is known by its id; whether it exists is seen when it is used."""
        return self._handle(str(ids.parse(run_id)), False, workflow or "")

    async def get(self, run_id: str) -> Run:
        """The run as it stands; a value that lies outside is a `Ref`."""
        await self._runs()
        return run_of(await self.record(run_id), self.payloads)

    async def steps(self, run_id: str) -> list[Step]:
        """The journal in its order, then what is pending."""
        records = await self.step_records(run_id)
        return [step_of(record, self.payloads) for record in records]

    async def signal(self, run_id: str, event: str, payload: Any = None, *, buffer: bool = True) -> SignalResult:
        """Gives a payload to the run's wait for `event`, or keeps it for the next one that matches."""
        return await self.send(uuid4(), run_id, event, payload, buffer=buffer)

    async def send(self, signal_id: UUID, run_id: str, event: str, payload: Any, *, buffer: bool) -> SignalResult:
        """`signal` under an id: sent twice, it comes once."""
        names.event_name(event)
        payload = True if payload is None else payload
        runs = await self._runs()
        sent = await signals.new(runs, self.payloads, signal_id, ids.parse(run_id), event, payload, buffer, self._owner)
        began = time.time_ns()
        [told] = await runs.send([sent])
        traces.signalled(sent, told, began)
        outcome = told.outcome
        if outcome == "unknown":
            raise _no_run(run_id)
        if outcome == "ended":
            raise Conflict(f"run {run_id} has ended: it cannot be signalled any more")
        return SignalResult(outcome)

    # ---- for programs that a run has handed work to (`ctx.step.batch`) ---------------------------------------

    async def take(self, handoff: Handoff) -> Any:
        """The input of the work."""
        await self._runs()
        return PLAIN.decode(await self.payloads.load(handoff.input))

    async def answer(self, handoff: Handoff, value: Any = None) -> SignalResult:
        """The work is done, and this is what came of it. Answering twice is fine: the first answer counts."""
        await self._runs()
        data = inputs.encoded(value, what := f"the answer to {handoff.event!r}")
        if not self.payloads.is_small(data) or pointers.is_pointer(data):
            data = await self.payloads.journalled(data, what, lambda *_: handoff.output_key, ref=True)
            value = PLAIN.decode(data)
        return await self.signal(handoff.run_id, handoff.event, {"token": handoff.token, "output": value})

    async def refuse(self, handoff: Handoff, why: str) -> SignalResult:
        """The work cannot be done: the step fails."""
        return await self.signal(handoff.run_id, handoff.event, {"token": handoff.token, "error": why})

    async def cancel(self, run_id: str) -> Run:
        """Ends a run as cancelled. When this returns, nothing of it is journalled any more."""
        status = await (await self._runs()).cancel(ids.parse(run_id), traces.cancelled)
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
        return await self.repeat(inputs.new_id(), run_id, from_step, with_outputs)

    async def repeat(
        self, new_id: UUID, run_id: str, from_step: str | None, with_outputs: Mapping[str, Any] | None
    ) -> RunHandle[Any]:
        """`rerun` under an id: asked for twice, it is one run."""
        outputs = {
            name: inputs.encoded(value, f"the output of {name!r}") for name, value in (with_outputs or {}).items()
        }
        if outputs and self._link.near:
            held = await self._check_kept(run_id, from_step, outputs)
            outputs = {
                name: await self._replaced(run_id, new_id, name, data, name in held) for name, data in outputs.items()
            }
        runs = await self._runs()
        word = await runs.rerun(ids.parse(run_id), new_id, from_step, outputs, traces.current())
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
        await self._runs()
        seconds = None if timeout is None else durations.seconds(timeout, what="timeout")
        record = await self._link.wait(self.tenant, ids.parse(run_id), seconds)
        if record.status == "cancelled":
            raise RunCancelled(f"run {run_id} was cancelled")
        if record.status == "failed":
            raise RunFailed(run_id, error_of(record.error) or {})
        how, data = codec or PLAIN, record.output or b"null"
        if isinstance(how, Referred):
            return self.payloads.ref(data, how.inner)
        return how.decode(await self.payloads.whole(data))

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
        name = None if workflow is None else name_of(workflow)
        return RunQuery(self, questions.question(name, status, since, until, input, cursor, limit))

    async def page(self, question: Question) -> RunPage:
        records, cursor = await self.records(question)

        async def following(cursor: str) -> RunPage:
            return await self.page(question.after(cursor))

        return RunPage([run_of(record, self.payloads) for record in records], cursor, following)

    async def workflows(self) -> list[WorkflowCounts]:
        """Every workflow that has runs, with how many."""
        return [WorkflowCounts(*record) for record in await (await self._runs()).workflows()]

    # ---- for the commands and the server: records, with what people do not see in `Run` and `Step` -------------------

    def of(self, tenant: str) -> Client:
        """Of another tenant, over the same connections: nobody need close it."""
        other = copy.copy(self)
        other.tenant = names.tenant_name(tenant)
        return other

    async def begin(self, workflow: str, new: Sequence[NewRun]) -> list[Begun]:
        """Starts what `new_runs` made, at most a thousand, and tells what is there then."""
        begun = await (await self._runs()).begin(workflow, new)
        taken = [run for run, there in zip(new, begun, strict=True) if there.run_id != run.run_id]
        await self._discard(workflow, taken)
        return begun

    async def ended(self, run_id: str, seconds: float) -> bool:
        """Waits for the end of a run, and no longer than this."""
        await self._runs()
        try:
            await self._link.wait(self.tenant, ids.parse(run_id), seconds)
        except TimeoutError:
            return False
        return True

    async def records(self, question: Question) -> tuple[list[RunRecord], str | None]:
        """A page, and its cursor."""
        await self._runs()
        return await self._link.page(self.tenant, question)

    async def record(self, run_id: str | UUID) -> RunRecord:
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
        return await self._link.database()

    # ---- queues and topics -------------------------------------------------------------------------------------------

    def queue(self, name: str, max_receives: int | None = None) -> Queue:
        """A queue of messages. With `max_receives`, one that was received so often goes to the dead letters."""
        return self._link.queue(self, name, max_receives)

    @property
    def topics(self) -> Topics:
        """What is published, and who gets it."""
        return self._link.topics(self)

    # ---- inside ------------------------------------------------------------------------------------------------------

    async def _runs(self) -> Runs:
        return await self._link.runs(self.tenant)

    @property
    def payloads(self) -> Payloads:
        """For the commands. Known once the client is connected."""
        return self._link.payloads

    async def new_runs(
        self, workflow: Workflow[Any, Any] | str, items: Iterable[Start], given: Iterable[UUID | None] = ()
    ) -> list[NewRun]:
        """Ready to be started; large inputs are written side by side. `given`: ids that somebody else chose."""
        await self._runs()
        run_ids = (run_id or inputs.new_id() for run_id in itertools.chain(given, itertools.repeat(None)))
        encoded = [
            (run_id, item, await self._encoded(workflow, item)) for item, run_id in zip(items, run_ids, strict=False)
        ]
        small, name, trace = self.payloads.keeps, name_of(workflow), traces.current()
        outside: dict[UUID, bytes] = {}
        if large := [(run_id, data) for run_id, _, data in encoded if not small(data)]:
            writes = (inputs.record(self.payloads, self.tenant, name, run_id, data) for run_id, data in large)
            outside = dict(zip([run_id for run_id, _ in large], await asyncio.gather(*writes), strict=True))
        return [
            inputs.new_run(
                run_id,
                workflow,
                data,
                outside.get(run_id) or pointers.literal(data),
                version=None if item.version is None else version_number(item.version),
                key=None if item.idempotency_key is None else _key(item.idempotency_key),
                retention=None if item.retention is None else durations.seconds(item.retention, what="retention"),
                delay=None if item.delay is None else durations.seconds(item.delay, what="delay"),
                trace=trace,
            )
            for run_id, item, data in encoded
        ]

    async def _encoded(self, workflow: Workflow[Any, Any] | str, item: Start) -> bytes:
        if not isinstance(item, Start):
            raise InvalidInput(f"start_many takes Start(input, idempotency_key=…) items, got {item!r}")
        try:
            return inputs.encode(workflow, item.input)
        except InvalidInput as error:
            raise await self._invalid(item.input, error) from error

    async def _invalid(self, value: Any, error: InvalidInput) -> InvalidInput:
        """Keeps an input that does not fit its workflow, for whoever has to find out why."""
        where = await self.payloads.invalid(self.tenant, uuid4(), inputs.readable(value))
        return InvalidInput(f"{error}; it is kept as {where}") if where else error

    async def _discard(self, workflow: str, runs: Iterable[NewRun]) -> None:
        """Inputs of runs that were there already: nobody will ever point to them."""
        for new in runs:
            if pointers.is_pointer(new.input) or self.payloads.settings.everything:
                await self.payloads.discard(Owner(self.tenant, workflow, new.run_id))

    async def _owner(self, run_id: str | UUID) -> Owner:
        return Owner(self.tenant, (await self.record(run_id)).workflow, ids.parse(run_id))

    async def _replaced(self, run_id: str, new_id: UUID, path: str, data: bytes, ref: bool) -> bytes:
        """An output that a rerun gets in place of what was journalled; `ref`: a pointer, as that was one."""
        if self.payloads.is_small(data) and not ref:
            return pointers.literal(data)
        owner = (await self._owner(run_id))._replace(run_id=new_id)
        return await self.payloads.journalled(
            data, f"the output of {path!r}", lambda at, kind: at.step(owner, path, kind), ref=ref
        )

    def _handle(self, run_id: str, created: bool, workflow: Workflow[Any, Any] | str) -> RunHandle[Any]:
        how = workflow.output_codec if isinstance(workflow, Workflow) else None
        return RunHandle(self, run_id, created, how)

    async def _set_paused(self, run_id: str, paused: bool) -> Run:
        if not await (await self._runs()).set_paused(ids.parse(run_id), paused):
            run = await self.get(run_id)
            verb = "paused" if paused else "resumed"
            raise Conflict(f"run {run_id} has {_ended(run.status)}: it cannot be {verb} any more")
        return await self.get(run_id)

    async def _check_kept(self, run_id: str, from_step: str | None, outputs: Mapping[str, bytes]) -> set[str]:
        """Which of what is to be replaced are pointers."""
        if from_step is None:
            raise InvalidInput("with_outputs replaces what from_step keeps: say from which step to run again")
        journal = [step for step in await self.step_records(run_id) if step.completed_at is not None]
        kept = [step.path for step in journal]
        kept = kept[: kept.index(from_step)] if from_step in kept else kept
        for name in outputs:
            if name not in kept:
                raise InvalidInput(f"with_outputs names {name!r}, which is not journalled before {from_step!r}")
        return {step.path for step in journal if step.output is not None and pointers.is_pointer(step.output)}


class RunQuery:
    """Runs that are asked for: `await` it for the first page, or go through all of them with `async for`."""

    def __init__(self, client: Client, question: Question) -> None:
        self._client, self._question = client, question

    def __await__(self) -> Generator[Any, None, RunPage]:
        return self._client.page(self._question).__await__()

    async def __aiter__(self) -> AsyncIterator[Run]:
        async for run in await self._client.page(self._question):
            yield run

    async def records(self) -> tuple[list[RunRecord], str | None]:
        """The first page as it is stored, and its cursor: for the server."""
        return await self._client.records(self._question)


def _key(key: str) -> str:
    if not isinstance(key, str) or _NO_TEXT.search(key) or not 1 <= len(key.encode()) <= 512:
        raise InvalidInput(
            f"an idempotency key is a text of 1 to 512 bytes without NUL or lone surrogates, got {key!r}"
        )
    return key


def key_taken(key: str | None, run_id: UUID | None, workflow: str) -> Conflict:
    return Conflict(
        f"the idempotency key {key!r} belongs to run {run_id} of {workflow!r}, which was started with another input: "
        "use another key"
    )


def _no_run(run_id: object) -> NotFound:
    return NotFound(f"no run {run_id}")


def _ended(status: str) -> str:
    return "been cancelled" if status == "cancelled" else status


__all__ = ["Client", "OnwardError", "RunQuery"]
