"""A server in the place of the database: the same questions, over HTTP.

The server holds no state, so whatever is lost on the way is asked for again (transport.py). That may be done with every
call here: what starts or sends something carries an id of ours, under which it is done once, and the rest changes
nothing when it is repeated.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import Raw

from onward.client import nesting, problems, traces, wire
from onward.client.payloads import Payloads, Told
from onward.client.questions import Question
from onward.client.queues import Home, Queue
from onward.client.remote_queues import RemoteQueue, RemoteTopics
from onward.client.topics import Topics
from onward.core import names
from onward.core.codec import PLAIN
from onward.core.pointers import Pointer
from onward.errors import InvalidInput, OnwardError, PayloadTooLarge
from onward.payloads.settings import Settings
from onward.store.database import Database, shown
from onward.store.runs import (
    Cancelled,
    CountRecord,
    NewRun,
    NewSignal,
    ResultRecord,
    RunRecord,
    Runs,
    Sent,
    Started,
    StepRecord,
)

T = TypeVar("T")

POLL = 30.0
"""Seconds that one look for a result waits."""
_SLOW = 60.0
"""Seconds that an answer may take: the server has some patience with its database."""
_BATCH = 16 << 20
"""Bytes of inputs that are sent together; the server takes 32 MiB."""
_RUN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Answered(NamedTuple):
    status: int
    body: bytes


class Asking(Protocol):
    """The transport."""

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,
    ) -> Answered: ...
    async def close(self) -> None: ...


def is_server(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


class Server:
    """One server, seen as the database that lies behind it."""

    near = False

    def __init__(self, url: str, token: str | None) -> None:
        if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable() and token):
            raise InvalidInput("a token is what `onward token create` prints")
        self.url = url.rstrip("/")
        self._token = token
        self._transport: Asking | None = None
        self.payloads: Payloads = _Outside(self)

    async def runs(self, tenant: str) -> Runs:
        return _RunsThere(self, tenant)

    async def page(self, tenant: str, question: Question) -> tuple[list[RunRecord], str | None]:
        query = question.query
        given: dict[str, str | None] = {"status": query.status, "cursor": question.cursor, "limit": str(query.limit)}
        for name, moment in (("since", query.since), ("until", query.until)):
            given[name] = None if moment is None else moment.isoformat()
        for path, value in (question.input or {}).items():
            given[f"input.{path}"] = PLAIN.encode(value, "the input filter").decode()
        where = "/v1/runs" if query.workflow is None else f"/v1/workflows/{query.workflow}/runs"
        found = await self.ask("GET", where, wire.RunList, tenant, given)
        return [wire.run_record(run) for run in found.runs], found.next_cursor

    async def wait(self, tenant: str, run_id: UUID, seconds: float | None) -> ResultRecord:
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            wait = min(left, POLL)
            form = await self.ask("GET", _run(run_id), wire.Run, tenant, {"wait": f"{wait:.3f}s"}, patience=wait)
            r = wire.run_record(form)
            if r.status != "running":
                return ResultRecord(r.status, r.output, r.error, r.workflow, r.version)
            if left <= 0:
                raise TimeoutError(f"run {run_id} has not ended after {seconds:g} seconds")

    def queue(self, home: Home, name: str, max_receives: int | None) -> Queue:
        return RemoteQueue(self, home, name, max_receives)

    def topics(self, home: Home) -> Topics:
        return RemoteTopics(self, home)

    async def database(self) -> Database:
        raise _needs_database(self.url)

    async def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    async def ask(
        self,
        method: str,
        path: str,
        answer: type[T],
        tenant: str,
        query: Mapping[str, str | None] | None = None,
        *,
        body: bytes | None = None,
        key: UUID | str | None = None,
        patience: float = 0.0,
    ) -> T:
        """The answer, read as this type; else the error that the server met. `patience`: seconds that it may wait."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if body is not None and len(body) > wire.LARGEST:
            raise PayloadTooLarge(
                f"a request has at most {wire.LARGEST:,} bytes, and this one has {len(body):,}: "
                "keep the value elsewhere and send where it is"
            )
        headers = {} if body is None else {"Content-Type": "application/json"}
        if (trace := traces.current()) is not None:
            headers["traceparent"] = trace
        if key is not None:
            headers["Idempotency-Key"] = str(key)
        if tenant != "default":  # else the token names it, or the server takes this one itself
            headers["Onward-Tenant"] = tenant
        status, content = await self._there().ask(method, path, given, headers, body, _SLOW + patience)
        if status >= 300:
            problem = problems.read(content)
            raise self._strange(status) if problem is None else problems.error_of(problem)
        if answer is bytes:
            return content  # type: ignore[return-value]
        try:
            return nesting.decode(content, answer)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._strange(status) from error

    def _there(self) -> Asking:
        if self._transport is None:
            from onward.client.transport import Transport

            self._transport = Transport(self.url, self._token, _is_away)
        return self._transport

    def _strange(self, status: int) -> OnwardError:
        return OnwardError(f"{shown(self.url)} answers {status} in a way that no Onward server does: check the address")


class _RunsThere(Runs):
    """The runs of one tenant, asked of a server. What it does not answer needs the database."""

    def __init__(self, server: Server, tenant: str) -> None:
        super().__init__(_Absent(server.url), tenant)
        self._server = server

    async def start(
        self, workflow: str, runs: Sequence[NewRun], *, parent: UUID | None = None, call: str | None = None
    ) -> list[Started]:
        where = f"/v1/workflows/{workflow}/runs"
        if len(runs) == 1:
            body = msgspec.json.encode(_new_run(runs[0]))
            run = await self._server.ask("POST", where, wire.Run, self._tenant, body=body)
            return [Started(run.id, True)]
        found = []
        for part in _parts(runs):
            body = msgspec.json.encode(wire.NewRuns([_new_run(run) for run in part]))
            batch = await self._server.ask("POST", f"{where}:batch", wire.Batch, self._tenant, body=body)
            of_key = {there.idempotency_key: there.id for there in batch.existing}
            ours = {run.id for run in batch.runs} | {there.id for there in batch.existing}
            found += [Started(new.run_id if new.run_id in ours else of_key[new.key], True) for new in part]
        return found

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        return list(await asyncio.gather(*map(self._send, signals)))

    async def _send(self, s: NewSignal) -> Sent:
        query = None if s.buffer else {"buffer": "false"}
        where = _run(s.run_id, f"/signals/{_segment(s.event)}")
        ask = self._server.ask("POST", where, wire.Outcome, self._tenant, query, body=s.payload, key=s.signal_id)
        return Sent((await ask).outcome)

    async def cancel(self, run_id: UUID, ended: Callable[[Cancelled], None] | None = None) -> str | None:
        return (await self._server.ask("DELETE", _run(run_id), wire.Run, self._tenant)).status

    async def set_paused(self, run_id: UUID, paused: bool) -> bool:
        await self._server.ask("POST", _run(run_id, ":pause" if paused else ":resume"), wire.Run, self._tenant)
        return True

    async def describe(self, run_ids: Sequence[UUID]) -> list[RunRecord]:
        asked = (self._server.ask("GET", _run(run_id), wire.Run, self._tenant) for run_id in run_ids)
        return [wire.run_record(form) for form in await asyncio.gather(*asked)]

    async def steps(self, run_id: UUID) -> list[StepRecord]:
        found = await self._server.ask("GET", _run(run_id, "/steps"), wire.StepList, self._tenant)
        return [wire.step_record(step, number) for number, step in enumerate(found.steps)]

    async def workflows(self) -> list[CountRecord]:
        found = await self._server.ask("GET", "/v1/workflows", list[wire.Counts], self._tenant)
        return [CountRecord(*msgspec.structs.astuple(counts)) for counts in found]

    async def rerun(
        self,
        run_id: UUID,
        new_id: UUID,
        from_step: str | None,
        outputs: dict[str, bytes],
        trace: str | None = None,
    ) -> str:
        replaced = {name: Raw(data) for name, data in outputs.items()}
        body = msgspec.json.encode(wire.Rerun(from_step=from_step, with_outputs=replaced, id=new_id))
        await self._server.ask("POST", _run(run_id, ":rerun"), wire.Run, self._tenant, body=body)
        return "ok"


class _Outside(Payloads):
    """A server keeps large values by itself, and gives them back."""

    def __init__(self, server: Server) -> None:
        super().__init__(_Absent(server.url), Settings(threshold=sys.maxsize, most=sys.maxsize))
        self._server = server

    async def invalid(self, tenant: str, id: UUID, data: bytes) -> str | None:  # noqa: A002
        return None

    async def load(self, pointer: Pointer, told: Told | None = None) -> bytes:
        return await self.load_once(pointer)

    async def load_once(self, pointer: Pointer) -> bytes:
        query = {"sha256": pointer.sha256, "size": str(pointer.size), "contentType": pointer.content_type}
        where = "/v1/payloads/" + "/".join(map(_segment, pointer.key.split("/")))
        return await self._server.ask("GET", where, bytes, names.tenant_name(_tenant(pointer.key)), query)


class _Absent(Database):
    """The database of a client that has none."""

    async def fetch(self, sql: str, *args: Any) -> NoReturn:
        raise _needs_database(self.url)


def _needs_database(url: str) -> InvalidInput:
    return InvalidInput(f"this needs the database itself, and {shown(url)} is a server: give its postgresql:// address")


def _is_away(answered: Answered) -> bool:
    """Something in front of the server, or the server as it stops: it can be asked again."""
    if answered.status not in (502, 503, 504):
        return False
    problem = problems.read(answered.body)
    return problem is None or problem.type == f"{problems.PREFIX}unavailable"


def _new_run(new: NewRun) -> wire.NewRun:
    return wire.NewRun(
        input=Raw(new.input),
        id=new.run_id,
        version=new.version,
        idempotency_key=new.key,
        retention_days=None if new.retention is None else new.retention / 86_400,
        delay=new.delay,
    )


def _parts(runs: Sequence[NewRun]) -> Iterator[list[NewRun]]:
    """Small enough to be sent together; a large one alone."""
    sizes = itertools.accumulate(len(run.input) for run in runs)
    for _, part in itertools.groupby(zip(sizes, runs, strict=True), lambda pair: pair[0] // _BATCH):
        yield [run for _, run in part]


def _run(run_id: UUID, rest: str = "") -> str:
    return f"/v1/runs/{run_id}{rest}"


def _segment(text: str) -> str:
    """Of a path. Dots alone would lead elsewhere."""
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def _tenant(key: str) -> str:
    """Whose payload: what follows the run's id is never one, so the last of them is it."""
    parts = key.split("/")[::-1]
    found = (parts[i + 2] for i, part in enumerate(parts[:-2]) if _RUN_ID.fullmatch(part))
    return next(found, "default")
