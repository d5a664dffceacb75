"""Runs over HTTP: started, listed, read, signalled and steered, with the name of their workflow and without."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import UUID, uuid4, uuid5

from msgspec import Meta, Raw, Struct

from onward.client import Start, wire
from onward.client.client import key_taken
from onward.client.inputs import new_id
from onward.core import durations, ids, names
from onward.errors import Conflict, InvalidInput, NotFound
from onward.server.calls import Call
from onward.server.reading import value
from onward.server.routes import Answer, Handler, Route
from onward.store.runs import Begun, NewRun, RunRecord

LONGEST_WAIT = 60.0
"""Seconds: proxies cut what takes longer. Who wants to wait on asks again."""
CHUNK = 1000

_PLUS = re.compile(r" (?=\d\d:?\d\d\Z)")


Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Listing(Struct, forbid_unknown_fields=True):
    status: Literal["running", "completed", "failed", "cancelled"] | None = None
    since: Moment | None = None
    until: Moment | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class Waiting(Struct, forbid_unknown_fields=True):
    wait: wire.Span | None = None


class Buffering(Struct, forbid_unknown_fields=True):
    buffer: bool = True


# ---- starting ----------------------------------------------------------------------------------------------------


async def start(call: Call) -> Answer:
    """Start a run. With an id or an idempotency key that is taken by the same input: the run that is there."""
    workflow, body = names.workflow_name(call.path["name"]), call.body or wire.NewRun()
    (new,) = await call.client.new_runs(workflow, [_start(body)], [body.id])
    begun = await _begin(call, workflow, new, body)
    run = _begun(begun, workflow, body)
    if not begun.created:
        return Answer(wire.run_form(run))
    return _created(call, run)


async def start_many(call: Call) -> Answer:
    """Start runs together, a thousand in a transaction. Ids and idempotency keys that are taken are skipped, whatever
    the input is."""
    workflow, bodies = names.workflow_name(call.path["name"]), call.body.runs
    items = [_start(body) for body in bodies]
    answer = wire.Batch([], [])
    for first in range(0, len(bodies), CHUNK):
        part = bodies[first : first + CHUNK]
        new = await call.client.new_runs(workflow, items[first : first + CHUNK], [body.id for body in part])
        for run, body, begun in zip(new, part, await call.client.begin(workflow, new), strict=True):
            if begun.run_id is None:
                begun = await _begin(call, workflow, run, body)
            if begun.created and begun.record is not None:
                answer.runs.append(wire.run_form(begun.record))
            elif begun.run_id is not None:
                answer.existing.append(wire.Existing(begun.run_id, body.idempotency_key))
            else:
                raise _id_taken(body.id)
    return Answer(answer)


def _start(body: wire.NewRun) -> Start:
    days = body.retention_days
    return Start(
        value(body.input),
        idempotency_key=body.idempotency_key,
        delay=None if body.delay is None else durations.seconds(body.delay, what="delay"),
        retention=None if days is None else days * 86_400,
        version=body.version,
    )


async def _begin(call: Call, workflow: str, new: NewRun, body: wire.NewRun) -> Begun:
    """Again where the key's run was removed between the insert that met it and the look: now the key is free."""
    for _ in range(3):
        begun = await call.service.starts.start(call.client, workflow, new)
        if begun.record is not None or body.id is not None:
            break
    return begun


def _begun(begun: Begun, workflow: str, body: wire.NewRun) -> RunRecord:
    """The run, if it is the one that was asked for."""
    run = begun.record
    if run is None or (run.run_id == body.id and run.workflow != workflow):
        raise _id_taken(body.id)
    if begun.same:
        return run
    if run.run_id == body.id:
        raise Conflict(f"run {body.id} was started with another input: use another id")
    raise key_taken(body.idempotency_key, run.run_id, workflow)


def _id_taken(run_id: UUID | None) -> Conflict:
    return Conflict(f"the id {run_id} belongs to another run: use another id, or leave it out")


def _created(call: Call, run: RunRecord) -> Answer:
    where = f"{quote(call.root)}/v1/workflows/{run.workflow}/runs/{run.run_id}"
    return Answer(wire.run_form(run), 201, {"Location": where})


# ---- many --------------------------------------------------------------------------------------------------------


async def listing(call: Call) -> Answer:
    """List runs, newest first. `input.PATH=VALUE` keeps those whose input holds VALUE there (JSON if it parses, else a
    text); inputs that lie outside are not searched."""
    query: Listing = call.query
    wanted = {path: _loose(text) for path, text in call.filters.items()}
    asked = call.client.runs(
        call.path.get("name"),
        status=query.status,
        since=_moment(query.since),
        until=_moment(query.until),
        input=wanted or None,
        cursor=query.cursor,
        limit=query.limit,
    )
    records, cursor = await asked.records()
    return Answer(wire.RunList([wire.run_form(record) for record in records], cursor))


async def workflows(call: Call) -> Answer:
    """List the workflows that have runs, with how many."""
    found = await call.client.workflows()
    return Answer([wire.Counts(w.name, w.running, w.completed, w.failed, w.cancelled) for w in found])


def _loose(text: str) -> Any:
    try:
        return value(text.encode())
    except Exception:  # no JSON: a text
        return text


def _moment(text: str | None) -> datetime | None:
    """Without a zone it is UTC. A `+` that nobody escaped has become a space on its way."""
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(_PLUS.sub("+", text))
    except ValueError:
        raise InvalidInput(f"a point in time is written 2026-05-01T12:00:00Z, got {text[:80]!r}") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


# ---- one ---------------------------------------------------------------------------------------------------------


async def get(call: Call) -> Answer:
    """Read a run. `?wait=30s` answers when it has ended or the wait is over, after 60 seconds at the most."""
    query: Waiting = call.query
    seconds = 0.0 if query.wait is None else durations.seconds(query.wait, what="wait")
    run = await _found(call)
    if seconds > 0 and run.status == "running":
        waiting = call.client.ended(str(run.run_id), min(seconds, LONGEST_WAIT))
        await call.service.patiently(waiting, call.request)
        run = await _found(call)
    return Answer(wire.run_form(run))


async def steps(call: Call) -> Answer:
    """Read a run's journal in its order, then what is pending."""
    run = await _found(call)
    return Answer(wire.StepList([wire.step_form(step) for step in await call.client.step_records(str(run.run_id))]))


async def cancel(call: Call) -> Answer:
    """Cancel a run. One that has ended stays as it is, and is answered all the same."""
    run = await _found(call)
    if run.status == "running":
        with contextlib.suppress(Conflict):  # it ended just now
            await call.client.cancel(str(run.run_id))
        run = await _found(call)
    return Answer(wire.run_form(run))


async def pause(call: Call) -> Answer:
    """Pause a run: no new step starts, deadlines go on."""
    run = await _named(call)
    await call.client.pause(run)
    return Answer(wire.run_form(await call.client.record(run)))


async def resume(call: Call) -> Answer:
    """Let a paused run go on, and try a parked one again."""
    run = await _named(call)
    await call.client.resume(run)
    return Answer(wire.run_form(await call.client.record(run)))


async def rerun(call: Call) -> Answer:
    """Start a new run with the same input. `fromStep` keeps what was journalled before that step, `withOutputs`
    replaces some of it."""
    body: wire.Rerun = call.body or wire.Rerun()
    run, new = await _named(call), body.id or new_id()
    outputs = {name: value(data) for name, data in body.with_outputs.items()}
    await call.client.repeat(new, run, body.from_step, outputs)
    made = await call.client.record(new)
    if str(made.rerun_of) != run:
        raise _id_taken(body.id)
    return _created(call, made)


async def signal(call: Call) -> Answer:
    """Send a signal; the body is its payload. `?buffer=false` throws it away where nobody waits for it. What is sent
    again under one Idempotency-Key comes once."""
    query: Buffering = call.query
    run = await _named(call)
    key = call.request.headers.get("idempotency-key")
    signal_id = uuid4() if key is None else uuid5(UUID(run), f"{call.path['event']}/{key}")
    sent = await call.client.send(signal_id, run, call.path["event"], call.body, buffer=query.buffer)
    return Answer(wire.Outcome(sent.outcome), 202)  # type: ignore[arg-type]  # the database's own words


async def _found(call: Call) -> RunRecord:
    """The run of the path; under another workflow's name there is none."""
    run = await call.client.record(ids.parse(call.path["id"]))
    if call.path.get("name", run.workflow) != run.workflow:
        raise NotFound(f"workflow {call.path['name']!r} has no run {run.run_id}: it is one of {run.workflow!r}")
    return run


async def _named(call: Call) -> str:
    """Its id. Without a workflow's name, whoever is asked next sees whether there is such a run."""
    return str((await _found(call)).run_id if "name" in call.path else ids.parse(call.path["id"]))


# ---- the table ---------------------------------------------------------------------------------------------------

_CHANGES = ("not-found", "conflict")
_READS = ("not-found",)
_BODY = ("malformed", "body-too-large", "unsupported-media-type", "too-slow")
_KEY = {"Idempotency-Key": "The same key brings the signal once, however often it is sent."}


def _both(method: str, rest: str, handler: Handler, scope: str, answers: dict[int, Any], **more: Any) -> list[Route]:
    """With the workflow's name and without."""
    roots = ("/v1/workflows/{name}/runs/{id}", "/v1/runs/{id}")
    return [Route(method, f"{root}{rest}", handler, scope, answers, **more) for root in roots]


_RUN = {200: wire.Run}
_MADE = {201: wire.Run}
_STARTED = {201: wire.Run, 200: wire.Run}
_NAMED = "/v1/workflows/{name}/runs"
_LIST: dict[str, Any] = {"query": Listing, "filters": "input."}

ROUTES = (
    Route("POST", _NAMED, start, "write", _STARTED, body=wire.NewRun, optional=True, problems=("conflict", *_BODY)),
    Route("POST", f"{_NAMED}:batch", start_many, "write", {200: wire.Batch}, body=wire.NewRuns, problems=_BODY),
    *_both("GET", "", get, "read", _RUN, query=Waiting, problems=_READS),
    *_both("DELETE", "", cancel, "write", _RUN, problems=_READS),
    *_both(
        "POST",
        "/signals/{event}",
        signal,
        "signal",
        {202: wire.Outcome},
        query=Buffering,
        body=Raw,
        optional=True,
        problems=(*_CHANGES, *_BODY),
        headers=_KEY,
    ),
    *_both("GET", "/steps", steps, "read", {200: wire.StepList}, problems=_READS),
    *_both("POST", ":pause", pause, "write", _RUN, problems=_CHANGES),
    *_both("POST", ":resume", resume, "write", _RUN, problems=_CHANGES),
    *_both("POST", ":rerun", rerun, "write", _MADE, body=wire.Rerun, optional=True, problems=(*_CHANGES, *_BODY)),
    Route("GET", _NAMED, listing, "read", {200: wire.RunList}, **_LIST),
    Route("GET", "/v1/runs", listing, "read", {200: wire.RunList}, **_LIST),
    Route("GET", "/v1/workflows", workflows, "read", {200: list[wire.Counts]}),
)
