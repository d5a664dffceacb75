"""Workers and clients on a fresh database, and ways to end a worker badly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg
import pytest

from onward import Client, RunHandle, Worker, Workflow
from rest import serving


class World:
    """One database with its clients and workers; everything is closed at the end."""

    def __init__(self, url: str, stack: AsyncExitStack, client: Client) -> None:
        self.url = url
        self._stack = stack
        self.client = client

    async def worker(self, *workflows: Workflow[Any, Any], **options: Any) -> Worker:
        return await self._stack.enter_async_context(Worker(workflows, self.url, **options))

    async def sql(self, statement: str, *args: Any) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetch(statement, *args)
        finally:
            await connection.close()

    async def value(self, statement: str, *args: Any) -> Any:
        rows = await self.sql(statement, *args)
        return rows[0][0] if rows else None

    async def crash(self, worker: Worker) -> None:
        """What is left of a worker after kill -9: a row, a lane, owned messages. Another one may take over at once."""
        worker._stopping = True
        for task in worker._loops:
            task.cancel()
        await worker._heart.stop()
        await worker._deliverer.stop()
        await worker.committer.stop()
        for run in [*worker._hot.values(), *worker._cache.values()]:
            worker._evict(run)
        await worker._listener.stop()
        await worker._database.close()
        await self.sql(
            "update onward.worker set lease_until = '-infinity' where worker_id = $1", worker._heart.worker_id
        )

    async def skip(self, seconds: float) -> None:
        """Moves the database's clock; leases move along, since nobody died."""
        await self.sql(
            """
            with moved as (
                insert into onward.setting (name, value) values ('clock_offset', $1::float8::text || ' s')
                on conflict (name) do update
                   set value = (split_part(onward.setting.value, ' ', 1)::float8 + $1::float8)::text || ' s')
            update onward.worker set lease_until = lease_until + make_interval(secs => $1::float8),
                                     beat_at = beat_at + make_interval(secs => $1::float8)
            """,
            seconds,
        )
        await self.sql("select pg_notify('onward_work', '')")

    async def copy(self, run: RunHandle[Any], rows: int) -> RunHandle[Any]:
        """A new run that has journalled the first rows of another: what a worker finds that died there."""
        new = await self.value(
            """
            with fresh as (select gen_random_uuid() as id),
            r as (insert into onward.run
                         (run_id, tenant, workflow, version, input_hash, retention, rerun_of, started_at)
                  select id, tenant, workflow, version, input_hash, retention, run_id, started_at
                    from onward.run, fresh where run_id = $1),
            i as (insert into onward.run_input select id, input, search from onward.run_input, fresh where run_id = $1),
            s as (insert into onward.step
                         (run_id, name, kind, output, error, attempt, receipt, started_at, completed_at)
                  select id, name, kind, output, error, attempt, 0, started_at, completed_at
                    from (select * from onward.step where run_id = $1 order by seq limit $2) kept, fresh order by seq),
            m as (insert into onward.message (msg_id, tenant, queue, version, visible_at, receipt)
                  select id, tenant, '__wf_' || workflow, version, onward.now(), 1
                    from onward.run, fresh where run_id = $1)
            select id from fresh
            """,
            run.id,
            rows,
        )
        await self.sql("select pg_notify('onward_work', '')")
        return self.client.handle(str(new))


@pytest.fixture
async def world(url: str, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """`both` in a test's marks: once with a client of the database, once with one of a server."""
    async with AsyncExitStack() as stack:
        there = url
        if getattr(request, "param", "database") == "server":
            there = (await stack.enter_async_context(serving(url, auth="none"))).url
        client = Client(there)
        stack.push_async_callback(client.close)
        yield World(url, stack, client)


Until = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@pytest.fixture
def until() -> Until:
    """Waits for the thing itself: asks until the answer is true."""

    async def wait(ask: Callable[[], Awaitable[Any]], seconds: float = 10) -> Any:
        async with asyncio.timeout(seconds):
            while not (answer := await ask()):
                await asyncio.sleep(0.01)
            return answer

    return wait


@pytest.fixture
async def folder(url: str, tmp_path: Path) -> Path:
    """The store of this test's database: a folder of its own."""
    place = tmp_path / "payloads"
    connection = await asyncpg.connect(url)
    name = unquote(urlsplit(url).path[1:])
    await connection.execute(f"alter database {name} set onward.payloads = '{place.as_uri()}'")
    await connection.close()
    return place
