"""Retention: ended runs go when their time is over, by themselves, and nothing else does."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward import Context, Start, workflow
from onward.client.payloads import Payloads
from onward.client.sweeper import Schedule, Sweeper
from onward.errors import InvalidInput
from onward.store.database import Database


def large() -> str:
    return "x" * 100_000


@workflow(retention="1d")
async def ends(ctx: Context) -> int:
    return len(await ctx.step.run("large", large))


@workflow(retention="1h")
async def waits(ctx: Context) -> None:
    await ctx.step.run("large", large)
    await ctx.step.wait_for_event("go")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKFLOWS_SWEEPER_INTERVAL_MS", "100")


@pytest.mark.usefixtures("often")
async def test_a_worker_removes_what_is_over_and_nothing_that_runs(world: Any, folder: Path, until: Any) -> None:
    await world.worker(ends, waits)
    over = await world.client.start(ends)
    longer = await world.client.start(ends, retention="3d")
    waiting = await world.client.start(waits)
    await over.result(timeout=10)
    await longer.result(timeout=10)
    await world.skip(2 * 86400)
    await until(lambda: world.value("select count(*) = 2 from onward.run"))
    assert {run.id async for run in world.client.runs()} == {longer.id, waiting.id}
    await until(lambda: asyncio.sleep(0, len(list(folder.rglob("*.txt"))) == 2))


@pytest.mark.usefixtures("often")
async def test_two_sweepers_sweep_an_interval_once(world: Any) -> None:
    await world.client.workflows()
    databases = [Database(world.url) for _ in range(2)]
    try:
        sweepers = [Sweeper(d, Payloads(d), Schedule(interval=3600)) for d in databases]
        swept = await asyncio.gather(*(sweeper.sweep() for sweeper in sweepers))
        assert sum(counts is not None for counts in swept) == 1
        await world.skip(3601)
        assert await sweepers[0].sweep() is not None
        assert await sweepers[1].sweep() is None
    finally:
        for database in databases:
            await database.close()


async def test_nobody_keeps_a_run_longer_than_the_operators_ceiling(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await world.client.start(ends, retention="1000d")
    assert (await run.get()).retention == timedelta(days=365)
    monkeypatch.setenv("WORKFLOWS_MAX_RETENTION_DAYS", "10")
    await world.worker(ends)
    run = await world.client.start(ends, retention="1000d")
    assert (await run.get()).retention == timedelta(days=10)
    (many,) = await world.client.start_many(ends, [Start(retention="20d")])
    assert (await many.get()).retention == timedelta(days=10)
    short = await world.client.start(ends, retention="2h")
    assert (await short.get()).retention == timedelta(hours=2)


@pytest.mark.parametrize("name", ["WORKFLOWS_SWEEPER_INTERVAL_MS", "WORKFLOWS_MAX_RETENTION_DAYS"])
@pytest.mark.parametrize("wrong", ["0", "-1", "5m"])
def test_a_setting_that_makes_no_sense_is_named(name: str, wrong: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        Schedule.from_environment({name: wrong})
