"""What is measured, each against something bare in the same run: this machine is shared, absolute figures drift."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import psutil
import work

from onward import Client, Start, Worker


class Result(NamedTuple):
    """One figure as a ratio, and what it is made of."""

    name: str
    ratio: float
    detail: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool:
        return (self.at_least is None or self.ratio >= self.at_least) and (
            self.at_most is None or self.ratio <= self.at_most
        )


class Place:
    """A database, a client, and a connection for bare work."""

    def __init__(self, url: str, client: Client, bare: asyncpg.Connection, scale: float) -> None:
        self.url, self.client, self.bare, self.scale = url, client, bare, scale

    async def fresh(self) -> None:
        """An empty world, vacuumed: one measure does not leave its dead rows to the next."""
        names = (
            "message, run, run_input, run_result, running, step, pending, signal, worker, serves, lane, awaited, "
            "tally, total"
        )
        await self.bare.execute("truncate " + ", ".join(f"onward.{n}" for n in names.split(", ")))

    async def start(self, runs: int, n: int) -> None:
        await self.client.start_many(work.steps, [Start(n) for _ in range(runs)])
        await self.bare.execute("vacuum analyze onward.message, onward.run")

    async def until_empty(self) -> None:
        while await self.bare.fetchval("select exists (select 1 from onward.message)"):
            await asyncio.sleep(0.02)

    async def bare_commit(self, times: int = 300) -> float:
        """Milliseconds of a one-row insert and commit on asyncpg: the median."""
        await self.bare.execute("create table if not exists public.bare (i int, t text)")
        insert = await self.bare.prepare("insert into public.bare values ($1, $2)")
        taken = []
        for i in range(times):
            began = time.perf_counter()
            await insert.fetch(i, "x")
            taken.append((time.perf_counter() - began) * 1000)
        return statistics.median(taken)

    async def bare_rows(self, seconds: float = 2.0) -> float:
        """Rows a second of `insert … select unnest`, 1,024 rows a commit, into a table like the journal."""
        await self.bare.execute(
            "drop table if exists public.raw; create table public.raw (run_id uuid, name text, output bytea, "
            "primary key (run_id, name))"
        )
        insert = await self.bare.prepare(
            "insert into public.raw select gen_random_uuid(), t.n, t.o from unnest($1::text[], $2::bytea[]) as t (n, o)"
        )
        names, outputs = [f"s{i}" for i in range(1024)], [b'{"i":1,"ok":true}'] * 1024
        rows, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            await insert.fetch(names, outputs)
            rows += 1024
        return rows / (time.perf_counter() - began)


async def throughput(place: Place) -> list[Result]:
    """W1: many runs of five no-op steps through one worker process, and through two."""
    rounds = []
    for _ in range(3):
        rounds.append((await place.bare_rows(), await rate(place, 1), await rate(place, 2)))
    raw, one, two = (statistics.median(column) for column in zip(*rounds, strict=True))
    share = statistics.median(one / raw for raw, one, _ in rounds)
    gain = statistics.median(two / one for _, one, two in rounds)
    return [
        Result("W1 steps/s against raw rows/s", share, f"{one:,.0f} steps/s, raw {raw:,.0f}", at_least=0.20),
        Result("two workers against one", gain, f"{two:,.0f} and {one:,.0f} steps/s", at_least=1.25),
    ]


async def rate(place: Place, workers: int) -> float:
    """Steps a second of runs that fall due at one moment, by the database's clock, from that moment to the last end."""
    await place.fresh()
    runs = int(20_000 * place.scale)
    async with processes(place, workers):
        due = time.time() + 2 + runs / 10_000
        await place.client.start_many(work.steps, (Start(5, delay=due - time.time()) for _ in range(runs)))
        await place.bare.execute("vacuum analyze onward.message, onward.run, onward.run_input")
        assert time.time() < due, "this machine is too slow for the time that is given to prepare"
        await asyncio.sleep(due - time.time())
        await place.until_empty()
        taken: float = await place.bare.fetchval(
            "select extract(epoch from max(completed_at))::float8 - $1 from onward.run_result", due
        )
    return 5 * runs / taken


@asynccontextmanager
async def processes(place: Place, count: int) -> AsyncIterator[list[subprocess.Popen[bytes]]]:
    """Workers in processes of their own, all registered."""
    script = Path(__file__).with_name("serve.py")
    started = [subprocess.Popen([sys.executable, str(script), place.url]) for _ in range(count)]
    try:
        while await place.bare.fetchval("select count(*) from onward.worker") < count:
            await asyncio.sleep(0.05)
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


async def a_row_of_steps(place: Place) -> Result:
    """W2: 200 steps, one after the other, in one run."""
    await place.fresh()
    async with Worker(work.steps, place.url):
        pairs = [(await _per_step(place, 200), await place.bare_commit(200)) for _ in range(9)]
    return _against_bare("W2 ms a step against a bare commit", pairs, at_most=2.2)


def _against_bare(name: str, pairs: list[tuple[float, float]], at_most: float) -> Result:
    """The median of ratios, each of two figures taken side by side."""
    ratio = statistics.median(took / bare for took, bare in pairs)
    took, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    return Result(name, ratio, f"{took:.3f} ms, bare {bare:.3f} ms", at_most=at_most)


async def _per_step(place: Place, n: int) -> float:
    handle = await place.client.start(work.steps, n)
    await handle.result(timeout=120)
    first, last = await place.bare.fetchrow(  # type: ignore[misc]
        "select min(completed_at), max(completed_at) from onward.step where run_id = $1", handle.id
    )
    return (last - first).total_seconds() * 1000 / (n - 1)


async def start_to_result(place: Place) -> Result:
    """W3: start a one-step run and await its result."""
    await place.fresh()
    async with Worker(work.steps, place.url):
        pairs = [(await _start_and_await(place), await place.bare_commit(5)) for _ in range(200)]
    return _against_bare("W3 start to result against a bare commit", pairs, at_most=12)


async def _start_and_await(place: Place) -> float:
    began = time.perf_counter()
    await (await place.client.start(work.steps, 1)).result(timeout=30)
    return (time.perf_counter() - began) * 1000


async def claim_beside_sleepers(place: Place) -> Result:
    """Claiming 100 runs with a million sleepers in the table against none."""
    none = await _claim_time(place, 0)
    sleepers = int(1_000_000 * place.scale)
    many = await _claim_time(place, sleepers)
    return Result(
        f"claim of 100 beside {sleepers:,} sleepers against none",
        many / none,
        f"{many:.2f} and {none:.2f} ms",
        at_most=1.5,
    )


async def _claim_time(place: Place, sleepers: int) -> float:
    await place.fresh()
    await place.bare.execute(
        "insert into onward.message (msg_id, tenant, queue, version, visible_at) "
        "select gen_random_uuid(), 'default', '__wf_steps', 1, now() + interval '1 day' * random() + interval '1 h' "
        f"from generate_series(1, {sleepers})"
    )
    await place.start(4000, 1)
    worker = await place.bare.fetchval("select onward.register_worker('bench', 3600, '{steps}', '{1}', '{1}')")
    taken = []
    for _ in range(40):
        began = time.perf_counter()
        await place.bare.fetch("select * from onward.claim($1, 100)", worker)
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


async def long_runs(place: Place) -> Result:
    """W4: is a step of a long run dearer than one of a short run?"""
    await place.fresh()
    async with Worker(work.steps, place.url):
        await _per_step(place, 100)
        short, long = [], []
        for _ in range(5):
            short += [await _per_step(place, 100) for _ in range(4)]
            long.append(await _per_step(place, 3000))
    a, b = statistics.median(short), statistics.median(long)
    return Result("W4 ms a step at 3,000 steps against 100", b / a, f"{b:.3f} and {a:.3f} ms", at_most=1.2)


async def replay(place: Place) -> Result:
    """From signal to result, when the worker that journalled 1,000 steps is gone."""
    await place.fresh()
    pairs = []
    for _ in range(5):
        async with Worker(work.steps_then_signal, place.url):
            handle = await place.client.start(work.steps_then_signal, 1000)
            while await place.bare.fetchval("select owner is not null or receipt = 0 from onward.message"):
                await asyncio.sleep(0.01)
        async with Worker(work.steps_then_signal, place.url):
            began = time.perf_counter()
            await handle.signal("go")
            await handle.result(timeout=30)
            taken = (time.perf_counter() - began) * 1000
        pairs.append((taken, await place.bare_commit()))
    return _against_bare("replay of 1,000 steps, signal to result, against a bare commit", pairs, at_most=300)


async def sleepers(place: Place) -> list[Result]:
    """W6: what 5,000 sleepers cost a worker in memory, and how late they wake, by the database's clock."""
    await place.fresh()
    runs = int(5000 * place.scale)
    async with processes(place, 1) as (process,):
        worker = psutil.Process(process.pid)
        for _ in range(3):  # warm: caches and pools are not the sleepers'
            await place.client.start_many(work.steps, [Start(5) for _ in range(500)])
            await place.until_empty()
        before = worker.memory_info().rss
        due = time.time() + 8
        await place.client.start_many(work.sleeper, [Start(due + i * 4 / runs) for i in range(runs)])
        while await place.bare.fetchval("select count(*) from onward.pending") < runs and time.time() < due:
            await asyncio.sleep(0.1)
        added = (worker.memory_info().rss - before) / 2**20
        await place.until_empty()
    median, worst = await place.bare.fetchrow(  # type: ignore[misc]
        "select percentile_cont(0.5) within group (order by late), max(late) from ("
        "select extract(epoch from completed_at)::float8 - convert_from(input, 'utf8')::float8 as late"
        " from onward.run_result join onward.run_input using (run_id) join onward.run using (run_id)"
        " where workflow = 'sleeper') woken"
    )
    return [
        Result(f"W6 {runs:,} sleepers: MB added to the worker", added, f"{added:.1f} MB", at_most=20),
        Result("W6 median lateness, seconds", median, f"median {median:.3f} s, max {worst:.3f} s", at_most=0.2),
    ]


MEASURES: list[Callable[[Place], Awaitable[Any]]] = [
    throughput,
    a_row_of_steps,
    start_to_result,
    claim_beside_sleepers,
    long_runs,
    replay,
    sleepers,
]
