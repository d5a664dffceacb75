"""Laws of attempts: what belongs to one ends with it, and none begins when it must not."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from onward import Backoff, Context, Retry, current_step, workflow
from onward.errors import StepFailed, StepTimeout

TWICE = Retry(attempts=2, backoff=Backoff.fixed("1ms"))
ONCE = Retry(attempts=1)

inside: Counter[str] = Counter()
most: Counter[str] = Counter()
log: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    for memory in (inside, most, log):
        memory.clear()


async def breaks() -> None:
    raise ValueError("it broke")


async def lingers() -> str:
    """Takes long, and tells how often it is executed at one time."""
    inside["lingers"] += 1
    most["lingers"] = max(most["lingers"], inside["lingers"])
    try:
        await asyncio.sleep(0.1)
    finally:
        inside["lingers"] -= 1
    return "done"


@workflow
async def leaves_inner_steps_running(ctx: Context) -> str:
    async def outer() -> None:
        await asyncio.gather(ctx.step.run("bad", breaks, retry=ONCE), ctx.step.run("slow", lingers))

    try:
        await ctx.step.run("outer", outer, retry=TWICE)
    except StepFailed as failure:
        await ctx.step.sleep("nap", "10ms")
        return failure.type
    return "no"


async def test_what_an_attempt_left_running_does_not_run_beside_the_next_one(world: Any) -> None:
    await world.worker(leaves_inner_steps_running)
    run = await world.client.start(leaves_inner_steps_running)
    assert await run.result(timeout=10) == "ValueError"
    assert most["lingers"] == 1
    names = [(step.name, step.parent) for step in await run.steps()]
    assert len(names) == len(set(names))


@workflow
async def swallows_the_time_out(ctx: Context) -> list[Any]:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "on my own terms"
        return "never"

    said = await ctx.step.run("stubborn", stubborn, timeout="60ms", retry=ONCE)
    task = asyncio.current_task()
    assert task is not None
    return [said, task.cancelling()]


async def test_a_time_out_that_a_step_swallows_leaves_no_cancellation_behind(world: Any) -> None:
    await world.worker(swallows_the_time_out)
    run = await world.client.start(swallows_the_time_out)
    assert await run.result(timeout=10) == ["on my own terms", 0]


@workflow
async def gives_up_on_time_outs(ctx: Context) -> int:
    async def slow() -> None:
        log.append(current_step().attempt)
        await asyncio.sleep(60)

    try:
        await ctx.step.run("slow", slow, timeout="60ms", retry=Retry(attempts=5, give_up_on=(StepTimeout,)))
    except StepTimeout as failure:
        return failure.attempt
    return 0


async def test_time_outs_can_be_given_up_on(world: Any) -> None:
    await world.worker(gives_up_on_time_outs)
    run = await world.client.start(gives_up_on_time_outs)
    assert await run.result(timeout=10) == 1
    assert log == [1]


class Unusual(BaseException):
    """As test frameworks and schedulers have them."""


@workflow
async def meets_the_unusual(ctx: Context) -> str:
    async def raises() -> None:
        log.append(1)
        raise Unusual("no Exception")

    try:
        await ctx.step.run("unusual", raises, retry=TWICE)
    except StepFailed as failure:
        return failure.type
    return "no"


async def test_an_error_that_is_no_exception_fails_the_step_like_any_other(world: Any) -> None:
    await world.worker(meets_the_unusual)
    run = await world.client.start(meets_the_unusual)
    assert await run.result(timeout=10) == "Unusual"
    assert len(log) == 2


async def test_a_step_that_queues_for_a_thread_does_not_begin_in_a_paused_run(world: Any, until: Any) -> None:
    free = threading.Event()

    def holds(name: str) -> str:
        log.append(name)
        free.wait(30)
        return name

    @workflow(name="queues")
    async def queues(ctx: Context, name: str) -> str:
        await ctx.step.run("before", asyncio.sleep, 0)
        return await ctx.step.run("holds", holds, name)

    async def reached(*names: str) -> bool:
        return log == list(names)

    await world.worker(queues, threads=1)
    first = await world.client.start(queues, "first")
    await until(lambda: reached("first"))
    second = await world.client.start(queues, "second")
    await until(lambda: _journalled(second, 1))
    assert (await world.client.pause(second.id)).state in ("paused", "executing")
    await until(lambda: world.value("select owner is null from onward.message where msg_id = $1", second.id))
    free.set()
    assert await first.result(timeout=10) == "first"
    assert (await second.get()).state == "paused"
    assert log == ["first"]
    await world.client.resume(second.id)
    assert await second.result(timeout=10) == "second"


async def _journalled(run: Any, count: int) -> bool:
    return sum(step.completed_at is not None for step in await run.steps()) >= count
