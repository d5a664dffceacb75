"""Clients and workers, each on one connection that a test can hold in the middle of a transaction.

What they say is the store's own code. `async with actor.open():` keeps what the actor does, with its locks, from
being committed until the block ends; `await stage.blocked(...)` starts somebody else and returns once that one
really waits for the lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Coroutine, Sequence
from importlib import resources
from typing import Any, TypeVar
from uuid import UUID, uuid4

import asyncpg

from onward.core.codec import searchable
from onward.store.handouts import Answer, Answers, Ask, Batch, End, HandOut, HandOuts, Result, Served, Want
from onward.store.runs import NewRun, NewSignal, RunRecord, Runs, Started
from postgres import Connect

T = TypeVar("T")

RETENTION = 3600.0


class Actor:
    """One connection, in the place of the store's pool."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.session = connection
        self.fetch, self.fetchrow, self.fetchval = connection.fetch, connection.fetchrow, connection.fetchval
        self.execute = connection.execute

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        yield self.session

    def line(self) -> Actor:
        return self

    def close(self) -> None:
        """The connection is the test's."""

    @property
    def pid(self) -> int:
        pid: int = self.session.get_server_pid()
        return pid

    def open(self) -> Any:
        """A transaction that is committed when the block ends."""
        return self.session.transaction()


class Client(Actor):
    """Of one tenant."""

    def __init__(self, connection: asyncpg.Connection, tenant: str) -> None:
        super().__init__(connection)
        self.tenant = tenant
        self.runs = Runs(self, tenant)  # type: ignore[arg-type]

    async def start(
        self,
        *runs: NewRun,
        workflow: str = "w",
        parent: UUID | None = None,
        call: str | None = None,
    ) -> list[Started]:
        return await self.runs._start(workflow, runs or [run()], parent, call)  # once: `start` would ask again

    async def new(self, workflow: str = "w", **options: Any) -> UUID:
        """A run that was not there."""
        parent, call = options.pop("parent", None), options.pop("call", None)
        new = run(**options)
        assert await self.start(new, workflow=workflow, parent=parent, call=call) == [Started(new.run_id, True)]
        return new.run_id

    async def signal(self, run_id: UUID, event: str = "e", payload: bytes = b"1", *, buffer: bool = True) -> str:
        [word] = await self.signals((run_id, event, payload), buffer=buffer)
        return word

    async def signals(self, *sent: tuple[UUID, str, bytes], buffer: bool = True) -> list[str]:
        items = [NewSignal(uuid4(), to, event, data, searchable(data), buffer) for to, event, data in sent]
        return await self.runs.signal(items)

    async def signal_outside(self, run_id: UUID, event: str = "e") -> tuple[UUID, str]:
        """One whose payload the database cannot read. -> its id, and what is told of it"""
        sent = NewSignal(uuid4(), run_id, event, b'{"$payload":{}}', None, True)
        [word] = await self.runs.signal([sent])
        return sent.signal_id, word

    async def describe(self, run_id: UUID) -> RunRecord:
        [found] = await self.runs.describe([run_id])
        return found


class Worker(Actor):
    """One incarnation, with one lane."""

    def __init__(self, connection: asyncpg.Connection, worker_id: int, numbers: itertools.count[int]) -> None:
        super().__init__(connection)
        self.id = worker_id
        self.calls = HandOuts(self)  # type: ignore[arg-type]
        self._numbers = numbers

    def copy(self, connection: asyncpg.Connection) -> Worker:
        """The same incarnation on another connection."""
        return Worker(connection, self.id, self._numbers)

    async def claim(self, limit: int = 10) -> list[HandOut]:
        return await self.calls.claim(self.id, limit)

    async def commit(self, *items: Ask | Result | End, no: int | None = None) -> Answers:
        batch = Batch(
            [item for item in items if isinstance(item, Ask)],
            [item for item in items if isinstance(item, Result)],
            [item for item in items if isinstance(item, End)],
        )
        return await self.calls.commit(self.id, 0, next(self._numbers) if no is None else no, batch)

    async def ask(self, out: HandOut, op: str, *wants: Want, rows: int | None = None, note: str = "") -> Answer:
        answers = await self.commit(ask(out, op, *wants, rows=rows, note=note))
        return answers.asks[0]

    async def step(self, out: HandOut, path: str = "a", output: bytes = b"1") -> str:
        [word] = await self.steps(out, path, output=output)
        return word

    async def steps(self, out: HandOut, *names: str, output: bytes = b"1", no: int | None = None) -> list[str]:
        """In one batch. A single one takes a shorter way through the database."""
        answers = await self.commit(*[step(out, name, output) for name in names], no=no)
        return answers.results or ["ok"] * len(names)

    async def end(self, out: HandOut, rows: int | None = None) -> str:
        answers = await self.commit(end(out, rows))
        return answers.ends[0] if answers.ends else "ok"

    async def heartbeat(self) -> bool:
        return await self.calls.heartbeat(self.id)

    async def reap(self) -> int:
        return await self.calls.reap()

    async def news(self, out: HandOut) -> list[str]:
        return [n.word for n in await self.calls.attend(self.id, [(out.run_id, out.receipt)], everything=False)]


class Stage:
    """A database and who acts on it. `root` looks on: it takes part in nothing."""

    def __init__(self, url: str, connect: Connect, root: Client) -> None:
        self.url, self._connect, self.root = url, connect, root
        self._tasks: list[asyncio.Task[Any]] = []
        self._patience = "20s"  # for a lock

    @classmethod
    async def set(cls, url: str, connect: Connect) -> Stage:
        return cls(url, connect, Client(await connect(url), "t"))

    async def clear(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- who acts --------------------------------------------------------------------------------------

    async def connect(self, **settings: str) -> asyncpg.Connection:
        return await self._connect(self.url, lock_timeout=self._patience, **settings)

    async def client(self, tenant: str = "t") -> Client:
        return Client(await self.connect(), tenant)

    async def worker(self, *serves: str, lease: float = 30, **settings: str) -> Worker:
        """It serves version 1 of the workflow w, or what is named: "w@2"."""
        connection = await self.connect(**settings)
        pairs = [name.split("@") for name in serves or ("w@1",)]
        served = [Served(workflow, int(version), RETENTION) for workflow, version in pairs]
        worker = Worker(connection, 0, itertools.count(1))
        worker.id = await worker.calls.register("worker", lease, served)
        return worker

    async def copy(self, worker: Worker) -> Worker:
        return worker.copy(await self.connect())

    async def hot(self, worker: Worker, **options: Any) -> HandOut:
        """A new run, handed out to the worker."""
        run_id = await self.root.new(**options)
        [out] = await worker.claim()
        assert out.run_id == run_id
        return out

    # ---- what happens when -------------------------------------------------------------------------------

    async def blocked(self, work: Coroutine[Any, Any, T], waiting: Actor, by: Actor | None = None) -> asyncio.Task[T]:
        """Starts the work, and returns once it waits for a lock that `by` holds."""
        task = asyncio.ensure_future(work)
        self._tasks.append(task)
        while True:
            holders = await self.root.fetchval("select pg_blocking_pids($1)", waiting.pid)
            if by.pid in holders if by else holders:
                return task
            assert not task.done(), f"it did not wait, but ended: {task!r}"
            await asyncio.sleep(0.002)

    async def move_clock(self, seconds: float) -> None:
        """To so many seconds from the true time."""
        await self.root.execute(
            "insert into onward.setting (name, value) values ('clock_offset', $1) "
            "on conflict (name) do update set value = excluded.value",
            f"{seconds} seconds",
        )

    async def lapse(self, *workers: Worker) -> None:
        """Their leases end: they count as dead from now on."""
        await self.root.execute(
            "update onward.worker set lease_until = onward.now() - interval '1 second' where worker_id = any ($1)",
            [worker.id for worker in workers],
        )

    async def weaken(self, function: str, *replacements: tuple[str, str]) -> None:
        """Puts a changed copy of a shipped function into this database, before anybody acts.

        Blanks in a replaced text stand for any. Who waits where nobody would have waited gives up soon.
        """
        self._patience = "300ms"
        text = (resources.files("onward.store") / "sql" / "functions" / f"{function}.sql").read_text("utf-8")
        for old, new in replacements:
            pattern = r"\s+".join(map(re.escape, old.split()))
            text, count = re.subn(pattern, lambda _, new=new: new, text)
            assert count == 1, f"{function}.sql has {count} times: {old}"
        await self.root.execute("set check_function_bodies = off;" + text)

    # ---- what is there -----------------------------------------------------------------------------------

    async def journal(self, run_id: UUID) -> list[str]:
        rows = await self.root.fetch("select name from onward.step where run_id = $1 order by seq", run_id)
        return [row["name"] for row in rows]

    async def message(self, run_id: UUID) -> asyncpg.Record:
        """Of a run that has not ended."""
        row = await self.root.fetchrow(
            "select *, visible_at <= onward.now() as due from onward.message where msg_id = $1", run_id
        )
        assert row is not None
        return row

    async def pendings(self, run_id: UUID) -> dict[str, asyncpg.Record]:
        rows = await self.root.fetch("select * from onward.pending where run_id = $1 order by seq", run_id)
        return {row["name"]: row for row in rows}


# ---- what is said ----------------------------------------------------------------------------------------


def run(
    *,
    run_id: UUID | None = None,
    version: int | None = 1,
    key: str | None = None,
    data: bytes = b"null",
    retention: float | None = RETENTION,
    delay: float | None = None,
) -> NewRun:
    return NewRun(run_id or uuid4(), version, key, b"#" + data, data, searchable(data), retention, delay)


def wait(path: str, event: str = "e", match: bytes | None = None, seconds: float | None = None) -> Want:
    return Want(path, "wait", event=event, match=None if match is None else searchable(match), seconds=seconds)


def sleep(path: str, seconds: float) -> Want:
    return Want(path, "sleep", seconds=seconds)


def retry(path: str, seconds: float, attempt: int = 1) -> Want:
    return Want(path, "retry", attempt=attempt, seconds=seconds, attempts=5, error=b'{"type": "E"}')


def invoke(path: str, child: UUID) -> Want:
    return Want(path, "invoke", child=child)


def ask(out: HandOut, op: str, *wants: Want, rows: int | None = None, note: str = "") -> Ask:
    """`rows`: how much of the journal is known; without a word, what the hand-out brought."""
    return Ask(out.run_id, out.receipt, op, len(out.rows) if rows is None else rows, note or None, wants)


def step(out: HandOut, path: str = "a", output: bytes = b"1") -> Result:
    return Result(str(out.run_id), out.receipt, path, "run", output, None, 1, 0.0)


def end(out: HandOut, rows: int | None = None) -> End:
    known = len(out.rows) if rows is None else rows
    return End(out.run_id, out.receipt, known, "completed", b'"done"', None, out.parent)


def paths(rows: Sequence[Any]) -> list[str]:
    """Of the journal rows of a hand-out or an answer."""
    return [row.path for row in rows]
