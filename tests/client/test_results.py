"""Law: a wait ends soon after its run, whatever was lost on the way, and many cost no more than one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from uuid import UUID, uuid4

import asyncpg
import pytest

from onward.client import results
from onward.client.results import Results
from onward.errors import DatabaseUnavailable
from onward.store.database import Database
from onward.store.runs import NewRun, ResultRecord, Runs
from postgres import Connect

THOUSAND = 1000


class Counted(Runs):
    """The runs of a tenant, and how often somebody looked: for one run, for all that wait."""

    def __init__(self, database: Database, tenant: str) -> None:
        super().__init__(database, tenant)
        self.looks: list[UUID] = []
        self.polls: list[set[UUID]] = []

    async def await_result(self, run_id: UUID, channel: str, seconds: float) -> ResultRecord | None:
        self.looks.append(run_id)
        return await super().await_result(run_id, channel, seconds)

    async def await_results(self, run_ids: Sequence[UUID], channel: str, seconds: float) -> list[UUID]:
        self.polls.append(set(run_ids))
        return await super().await_results(run_ids, channel, seconds)


class Waiting:
    """One database, a client's waits in it, and somebody who looks on."""

    def __init__(self, database: Database, onlooker: asyncpg.Connection) -> None:
        self._database, self.onlooker = database, onlooker
        self.results = Results(database)
        self.runs = self.of("default")
        self._tasks: list[asyncio.Task[ResultRecord]] = []

    def of(self, tenant: str) -> Counted:
        return Counted(self._database, tenant)

    async def start(self, number: int = 1, runs: Runs | None = None) -> list[UUID]:
        """Runs that nobody executes."""
        new = [NewRun(uuid4(), 1, None, b"#", b"null", "null", 60.0, None) for _ in range(number)]
        await (runs or self.runs).start("w", new)
        return [run.run_id for run in new]

    def wait(self, run_id: UUID, seconds: float | None = None, runs: Runs | None = None) -> asyncio.Task[ResultRecord]:
        task = asyncio.create_task(self.results.wait(runs or self.runs, run_id, seconds))
        self._tasks.append(task)
        return task

    async def lose(self) -> None:
        """What is written of all waits."""
        await self.onlooker.execute("truncate onward.awaited")

    async def written(self) -> set[UUID]:
        return {row[0] for row in await self.onlooker.fetch("select run_id from onward.awaited")}

    async def close(self) -> None:
        await self.results.close()
        await self._database.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def waiting(url: str, connect: Connect) -> AsyncIterator[Waiting]:
    waiting = Waiting(Database(url, name="the client"), await connect(url))
    yield waiting
    await waiting.close()


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await happened():
            await asyncio.sleep(0.01)


async def polled(runs: Counted, times: int) -> None:
    async def enough() -> bool:
        return len(runs.polls) >= times

    await until(enough)


async def test_a_thousand_waits_are_one_query_a_second(waiting: Waiting) -> None:
    ids = await waiting.start(THOUSAND)
    tasks = [waiting.wait(run_id) for run_id in ids]
    await polled(waiting.runs, 3)
    assert waiting.runs.polls[1:] == [set(ids)] * 2
    assert len(waiting.runs.looks) == 2 * THOUSAND  # at its beginning, and soon after
    assert not any(task.done() for task in tasks)


async def test_an_end_that_nobody_told_is_found_by_the_poll(waiting: Waiting) -> None:
    one, other = await waiting.start(2)
    ending, lasting = waiting.wait(one), waiting.wait(other)
    await polled(waiting.runs, 1)
    await waiting.lose()
    await waiting.runs.cancel(one)
    assert (await asyncio.wait_for(ending, 10)).status == "cancelled"
    assert not lasting.done()


async def test_the_waits_of_all_tenants_share_the_poll(waiting: Waiting) -> None:
    one, other = waiting.of("one"), waiting.of("other")
    [a], [b] = await waiting.start(runs=one), await waiting.start(runs=other)
    tasks = [waiting.wait(a, runs=one), waiting.wait(b, runs=other)]
    await until(lambda: _all_in(one.polls + other.polls, {a, b}))
    await waiting.lose()
    await one.cancel(a)
    await other.cancel(b)
    assert [r.status for r in await asyncio.wait_for(asyncio.gather(*tasks), 10)] == ["cancelled"] * 2


async def _all_in(polls: list[set[UUID]], ids: set[UUID]) -> bool:
    return ids in polls


async def test_nothing_is_asked_while_nobody_waits(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "POLL", 0.05)
    [run_id] = await waiting.start()
    for _ in range(2):  # and after that it is polled again
        waiting.runs.polls.clear()
        task = waiting.wait(run_id, 0.2)
        await polled(waiting.runs, 1)
        with pytest.raises(TimeoutError, match="has not ended after"):
            await task
        poller = waiting.results._poller
        assert poller is not None
        before = len(waiting.runs.polls)
        await asyncio.wait_for(poller, 10)
        assert len(waiting.runs.polls) == before


async def test_a_wait_that_lasts_is_written_again(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "POLL", 0.05)
    monkeypatch.setattr(results, "HOLDS", 0.5)
    ids = set(await waiting.start(2))
    for run_id in ids:
        waiting.wait(run_id)
    await polled(waiting.runs, 1)
    await waiting.lose()
    await until(lambda: _is(waiting, ids))


async def test_waits_are_written_again_after_a_lost_connection(waiting: Waiting) -> None:
    ids = set(await waiting.start(2))
    tasks = [waiting.wait(run_id) for run_id in ids]
    await polled(waiting.runs, 1)
    await waiting.lose()
    await waiting.onlooker.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'the client'"
    )
    await until(lambda: _is(waiting, ids))
    for run_id in ids:
        await waiting.runs.cancel(run_id)
    assert {(await asyncio.wait_for(task, 10)).status for task in tasks} == {"cancelled"}


async def _is(waiting: Waiting, ids: set[UUID]) -> bool:
    return await waiting.written() == ids


async def test_what_the_poll_meets_is_raised_in_all_waits(waiting: Waiting) -> None:
    tasks = [waiting.wait(run_id) for run_id in await waiting.start(2)]
    await polled(waiting.runs, 1)
    await waiting.onlooker.execute("drop function onward.await_results")
    for task in tasks:
        with pytest.raises(asyncpg.UndefinedFunctionError):
            await asyncio.wait_for(task, 10)


@pytest.mark.parametrize("polls", [0, 1])
async def test_a_client_that_is_closed_ends_its_waits(waiting: Waiting, polls: int) -> None:
    [run_id] = await waiting.start()
    task = waiting.wait(run_id)
    await polled(waiting.runs, polls)
    await waiting.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await task
    assert [t for t in asyncio.all_tasks() if t.get_name().startswith("onward-")] == []


async def test_a_run_that_is_not_there_any_more_ends_its_wait(waiting: Waiting) -> None:
    [run_id] = await waiting.start()
    task = waiting.wait(run_id)
    await polled(waiting.runs, 1)
    for table, column in (("message", "msg_id"), ("run_input", "run_id"), ("run", "run_id")):
        await waiting.onlooker.execute(f"delete from onward.{table} where {column} = $1", run_id)
    with pytest.raises(LookupError, match=str(run_id)):
        await asyncio.wait_for(task, 10)
