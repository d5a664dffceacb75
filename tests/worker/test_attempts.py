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


@workflow
async def nests_in_tasks(ctx: Context) -> list[Any]:
    async def leaf(n: int) -> int:
        return n

    async def outer(n: int) -> int:
        one = await ctx.step.run("leaf", leaf, n)
        return one + sum(await asyncio.gather(ctx.step.run("leaf", leaf, 10), ctx.step.run("leaf", leaf, 20)))

    return await asyncio.gather(ctx.step.run("one", outer, 1), ctx.step.run("two", outer, 2))


async def test_a_step_may_call_steps_in_whatever_task_it_is_executed(world: Any) -> None:
    await world.worker(nests_in_tasks)
    run = await world.client.start(nests_in_tasks)
    assert await run.result(timeout=10) == [31, 32]
    assert len(await run.steps()) == 8


@workflow
async def goes_on_within(ctx: Context) -> list[int]:
    async def inner(n: int) -> int:
        log.append(n)
        await asyncio.sleep(0.2)
        return n

    async def outer() -> list[int]:
        return [await ctx.step.run("inner", inner, n) for n in range(4)]

    got = await ctx.step.run("outer", outer, retry=ONCE, timeout="5s")
    return await ctx.step.run("after", list, got)


async def test_a_step_that_executes_goes_on_with_its_inner_steps_while_the_run_is_paused(
    world: Any, until: Any
) -> None:
    await world.worker(goes_on_within)
    run = await world.client.start(goes_on_within)
    await until(lambda: _logged(1))
    await world.client.pause(run.id)
    await until(lambda: world.value("select 1 from onward.step where name = 'outer'"))
    await until(lambda: world.value("select 1 from onward.message where owner is null"))
    assert "after" not in {step.name for step in await run.steps()}
    await world.client.resume(run.id)
    assert await run.result(timeout=10) == log == [0, 1, 2, 3]


async def test_a_step_that_executes_goes_on_with_its_inner_steps_while_the_worker_stops(world: Any, until: Any) -> None:
    worker = await world.worker(goes_on_within, grace="10s")
    run = await world.client.start(goes_on_within)
    await until(lambda: _logged(1))
    await worker.stop()
    assert log == [0, 1, 2, 3]
    await world.worker(goes_on_within)
    assert await run.result(timeout=10) == log == [0, 1, 2, 3]


async def _logged(entries: int) -> bool:
    return len(log) >= entries


@workflow
async def races_within(ctx: Context) -> str:
    async def quick() -> str:
        return "quick"

    async def never(name: str) -> None:
        log.append(name)
        await asyncio.sleep(60)

    async def outer() -> str:
        branch, _ = await ctx.step.race(
            "race", slow=ctx.step.run("slow", never, "slow"), fast=ctx.step.run("fast", quick)
        )
        if current_step().attempt < 3:
            raise ValueError("once more")
        return branch

    return await ctx.step.run("outer", outer, retry=Retry(attempts=3, backoff=Backoff.fixed("1ms")))


async def test_the_loser_of_a_race_within_a_step_does_not_run_again_with_the_step(world: Any) -> None:
    await world.worker(races_within)
    run = await world.client.start(races_within)
    assert await run.result(timeout=10) == "fast"
    assert log == ["slow"]


@workflow
async def is_cancelled_before_it_begins(ctx: Context) -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step.run("never begins", lingers))
            raise ValueError
    except* ValueError:
        pass
    asyncio.create_task(ctx.step.run("never begins", lingers)).cancel()
    return await ctx.step.run("after", lingers)


@workflow
async def ends_beside_a_new_task(ctx: Context) -> str:
    task = asyncio.create_task(ctx.step.run("never begins", lingers))
    return "begun" if task.done() else "over"


async def test_a_step_that_a_task_was_to_await_counts_as_awaited(world: Any) -> None:
    await world.worker(is_cancelled_before_it_begins, ends_beside_a_new_task)
    run = await world.client.start(is_cancelled_before_it_begins)
    assert await run.result(timeout=10) == "done"
    assert [step.name for step in await run.steps()] == ["after"]
    run = await world.client.start(ends_beside_a_new_task)
    assert await run.result(timeout=10) == "over"
    assert most["lingers"] == 1


async def fails_twice() -> str:
    if current_step().attempt < 3:
        raise ValueError("not yet")
    return "done"


@workflow
async def is_due_again_and_again(ctx: Context) -> str:
    for _ in range(5):
        await ctx.step.sleep("nap", "20ms")
    await ctx.step.wait_for_event("never", timeout="20ms")
    return await ctx.step.run("fails", fails_twice, retry=Retry(attempts=3, backoff=Backoff.fixed("20ms")))


async def test_an_idle_worker_is_not_late(world: Any) -> None:
    """It looks once a second by itself; what it put to sleep is due before that."""
    await world.worker(is_due_again_and_again)
    await (await world.client.start(is_due_again_and_again)).result(timeout=20)  # everything has been used once
    run = await world.client.start(is_due_again_and_again)
    assert await run.result(timeout=20) == "done"
    record = await run.get()
    assert (record.completed_at - record.started_at).total_seconds() < 1.5
