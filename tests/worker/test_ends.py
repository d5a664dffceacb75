"""Nothing of a run is left hanging: whatever it does last, it ends, rests, parks or goes back."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from onward import Backoff, Context, GiveUp, Retry, Workflow, workflow
from onward.errors import RunFailed
from onward.store.handouts import Answers, Batch, HandOuts

ONCE = Retry(attempts=1)


async def value(given: Any, seconds: float = 0.0) -> Any:
    await asyncio.sleep(seconds)
    return given


async def breaks() -> None:
    raise GiveUp("it broke")


@workflow
async def kid(ctx: Context) -> None:
    await ctx.step.sleep("nap", "1h")


@workflow
async def ends_while_a_child_is_started(ctx: Context) -> str:
    task = asyncio.create_task(ctx.step.invoke("kid", kid))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "waiting" if task.done() else "over"


async def test_a_run_that_ends_while_its_child_is_started_has_ended(world: Any, until: Any) -> None:
    await world.worker(ends_while_a_child_is_started, kid)
    run = await world.client.start(ends_while_a_child_is_started)
    assert await run.result(timeout=10) == "over"
    await until(lambda: world.value("select not exists (select 1 from onward.message)"))


async def flaky() -> None:
    raise ValueError("always")


@workflow
async def asks_for_another_step_now(ctx: Context, first: bool) -> None:
    if first:
        await ctx.step.run("old", flaky, retry=Retry(attempts=50, backoff=Backoff.fixed("1s")))
    await ctx.step.sleep("nap", "1h")


async def test_a_back_off_that_nobody_asks_for_any_more_keeps_no_run_awake(
    world: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, real = list[Batch](), HandOuts.commit

    async def commit(self: HandOuts, worker: int, lane: int, number: int, batch: Batch) -> Answers:
        commits.append(batch)
        return await real(self, worker, lane, number, batch)

    monkeypatch.setattr(HandOuts, "commit", commit)
    run = await world.client.start(asks_for_another_step_now, False)
    await world.sql("update onward.message set receipt = 1")  # somebody had it before
    await world.sql(
        "insert into onward.pending (run_id, name, kind, attempt, deadline, since) "
        "values ($1, 'old', 'retry', 1, onward.now() + interval '1s', onward.now())",
        UUID(run.id),
    )
    await world.worker(asks_for_another_step_now)
    await until(lambda: world.value("select 1 from onward.pending where name = 'nap'"))
    await until(lambda: world.value("select not exists (select 1 from onward.pending where name = 'old')"))
    assert await world.value("select 1 from onward.message where cached_by is not null")
    assert len(commits) < 10


def races(*, more: bool) -> Workflow[Any, Any]:
    @workflow(name="races")
    async def flow(ctx: Context) -> Any:
        async def branch() -> Any:
            await ctx.step.run("a", value, 1)
            return await ctx.step.run("more", value, 2) if more else 1

        return await ctx.step.race("who", branch=branch(), nap=ctx.step.sleep("nap", "1h"))

    return flow


async def test_a_race_whose_branch_got_longer_parks_the_run(world: Any, until: Any) -> None:
    worker = await world.worker(races(more=False))
    run = await world.client.start("races")
    await run.result(timeout=10)
    await worker.stop()
    again = await world.copy(run, 2)
    await world.worker(races(more=True))

    async def parked() -> bool:
        return bool((await again.get()).state == "parked")

    await until(parked)
    assert "'who'" in (await again.get()).reason


attempts: list[int] = []


@workflow
async def fails_beside_a_race(ctx: Context) -> Any:
    async def outer() -> Any:
        attempts.append(1)
        race = ctx.step.race("who", slow=ctx.step.run("s", value, "s", 5.0), fast=ctx.step.run("f", value, "f", 0.2))
        if len(attempts) == 1:
            await asyncio.gather(race, ctx.step.run("bad", breaks))
        return await race

    return await ctx.step.run("outer", outer, retry=Retry(attempts=3, backoff=Backoff.fixed("10ms")))


@workflow
async def ends_beside_a_race(ctx: Context) -> None:
    race = ctx.step.race("who", slow=ctx.step.sleep("s", "1h"), fast=ctx.step.run("f", value, "f", 2.0))
    await asyncio.gather(race, ctx.step.run("bad", breaks))


async def test_a_race_that_was_broken_off_has_no_winner(world: Any) -> None:
    attempts.clear()
    await world.worker(fails_beside_a_race, ends_beside_a_race)
    run = await world.client.start(fails_beside_a_race)
    assert await run.result(timeout=10) == ["fast", "f"]
    run = await world.client.start(ends_beside_a_race)
    with pytest.raises(RunFailed):
        await run.result(timeout=10)
    assert [step.name for step in await run.steps()] == ["bad"]


def waits(seconds: float) -> Workflow[Any, Any]:
    @workflow(name="waits-for-something-of-its-own")
    async def flow(ctx: Context) -> None:
        await asyncio.sleep(seconds)
        await ctx.step.run("a", value, 1)
        await ctx.step.sleep("nap", "1h")

    return flow


async def test_a_body_that_seems_to_rest_does_not_keep_a_worker_from_stopping(world: Any, until: Any) -> None:
    worker = await world.worker(waits(0))
    run = await world.client.start("waits-for-something-of-its-own")
    await until(lambda: world.value("select 1 from onward.pending"))
    await worker.stop()
    await world.copy(run, 1)
    worker = await world.worker(waits(60), grace="20s")
    await until(lambda: world.value("select 1 from onward.message where owner is not null"))
    async with asyncio.timeout(5):
        await worker.stop()
