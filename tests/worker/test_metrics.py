"""Metrics: what the fleet did, counted right across workers, their restarts and retention."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from onward import Backoff, Client, Context, GiveUp, Retry, workflow
from onward.client import metrics
from onward.errors import RunFailed
from onward.store.database import Database
from onward.store.tallies import Tallies

tries: list[int] = []


async def quick(i: int) -> int:
    return i


async def flaky() -> None:
    tries.append(1)
    if len(tries) % 3:
        raise ValueError("not yet")


def hopeless() -> None:
    raise GiveUp("never")


@workflow
async def counted(ctx: Context, steps: int) -> int:
    for i in range(steps):
        await ctx.step.run("quick", quick, i)
    await ctx.step.run("flaky", flaky, retry=Retry(attempts=3, backoff=Backoff.fixed("10ms")))
    await ctx.step.wait_for_event("go")
    return steps


@workflow
async def fails(ctx: Context) -> None:
    await ctx.step.run("hopeless", hopeless)


@workflow
async def many_names(ctx: Context, count: int) -> None:
    for i in range(count):
        await ctx.step.run(f"made up {i}", quick, i)


async def scraped(world: Any) -> dict[tuple[str, ...], float]:
    """Every sample, by name and labels, as Prometheus reads them."""
    database = Database(world.url)
    try:
        text = (await metrics.text(database)).decode()
    finally:
        await database.close()
    return {
        (sample.name, *[value for _, value in sorted(sample.labels.items())]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_what_happened_is_counted_across_workers_and_restarts(world: Any, until: Any) -> None:
    first = await world.worker(counted)
    run = await world.client.start(counted, 3)
    await until(lambda: world.value("select exists (select 1 from onward.pending where kind = 'wait')"))
    await first.stop()
    seen = await scraped(world)
    assert seen["workflow_runs_started_total", "counted"] == 1
    assert seen["workflow_runs_in_flight", "counted"] == 1
    await world.worker(counted, fails)
    await run.signal("go")
    await run.result(timeout=10)
    failing = await world.client.start(fails)
    with pytest.raises(RunFailed):
        await failing.result(timeout=10)
    never = await world.client.start("counted", 1, delay="1h")
    await never.cancel()
    await until(lambda: _has(world, ("workflow_step_duration_seconds_count", "hopeless", "fails"), 1))
    seen = await scraped(world)
    assert seen["workflow_runs_started_total", "counted"] == 2
    assert seen["workflow_runs_completed_total", "completed", "counted"] == 1
    assert seen["workflow_runs_completed_total", "cancelled", "counted"] == 1
    assert seen["workflow_runs_completed_total", "failed", "fails"] == 1
    assert seen["workflow_runs_in_flight", "counted"] == 0
    assert seen["workflow_run_duration_seconds_count", "counted"] == 2
    assert seen["workflow_step_duration_seconds_count", "quick", "counted"] == 3
    assert seen["workflow_step_duration_seconds_bucket", "+Inf", "quick", "counted"] == 3
    assert seen["workflow_step_retries_total", "flaky", "counted"] == 2
    assert seen["workflow_signals_total", "go", "counted"] == 1


async def _has(world: Any, key: tuple[str, ...], value: float) -> bool:
    return (await scraped(world)).get(key) == value


async def test_counters_do_not_go_back_when_runs_are_removed(world: Any) -> None:
    await world.worker(many_names)
    for _ in range(3):
        await (await world.client.start(many_names, 1, retention="1h")).result(timeout=10)
    before = await scraped(world)
    assert [(w.name, w.completed) for w in await world.client.workflows()] == [("many-names", 3)]
    await world.skip(3700)
    assert await world.value("select removed from onward.remove_expired(10)") == 3
    after = await scraped(world)
    assert after["workflow_runs_completed_total", "completed", "many-names"] == 3
    assert after["workflow_retention_swept_total",] == 3
    assert {k: v for k, v in after.items() if not k[0].startswith("workflow_retention")}.items() >= {
        k: v for k, v in before.items() if k[0].startswith("workflow_runs_") and "created" not in k[0]
    }.items()
    assert await world.client.workflows() == []


async def test_names_that_are_made_up_do_not_fill_the_metrics(world: Any, until: Any) -> None:
    worker = await world.worker(many_names)
    run = await world.client.start(many_names, 300)
    await run.result(timeout=20)
    await worker.stop()
    other = await world.worker(many_names)
    again = await world.client.start(many_names, 400)
    await again.result(timeout=20)
    await other.stop()
    seen = await scraped(world)
    steps = {key[1]: value for key, value in seen.items() if key[0] == "workflow_step_duration_seconds_count"}
    assert len(steps) <= 201
    assert sum(steps.values()) == 700


async def test_two_who_fold_at_once_count_everything_once(world: Any) -> None:
    async with Client(world.url) as client:
        for _ in range(40):
            await client.start("counted", 1)
    databases = [Database(world.url) for _ in range(2)]
    try:
        await asyncio.gather(*(Tallies(database).fold(7) for database in databases for _ in range(10)))
    finally:
        for database in databases:
            await database.close()
    assert (await scraped(world))["workflow_runs_started_total", "counted"] == 40
    assert [(w.name, w.running) for w in await world.client.workflows()] == [("counted", 40)]


async def test_a_killed_worker_takes_no_count_back(world: Any, until: Any) -> None:
    worker = await world.worker(counted)
    run = await world.client.start(counted, 3)
    await until(lambda: _has(world, ("workflow_step_duration_seconds_count", "quick", "counted"), 3))
    await world.crash(worker)
    await world.worker(counted)
    await run.signal("go")
    await run.result(timeout=10)
    assert (await scraped(world))["workflow_step_duration_seconds_count", "quick", "counted"] == 3
