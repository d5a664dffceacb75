"""Results that wait behind a register: none is lost, whatever the run asks for next.

Commits are slowed down here, so that answers are out while other branches go on: on a busy machine they are anyway.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from onward import Backoff, Context, Retry, workflow
from onward.store.handouts import Answers, Batch, HandOuts

executed: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()


@pytest.fixture(autouse=True)
def slow_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    real = HandOuts.commit

    async def commit(self: HandOuts, worker: int, lane: int, number: int, batch: Batch) -> Answers:
        await asyncio.sleep(0.1)
        answers = await real(self, worker, lane, number, batch)
        await asyncio.sleep(0.1)
        return answers

    monkeypatch.setattr(HandOuts, "commit", commit)


async def takes(name: str, seconds: float) -> str:
    executed[name] += 1
    await asyncio.sleep(seconds)
    return name


@workflow
async def ends_a_step_beside_a_new_wait(ctx: Context) -> list[Any]:
    """`b` reaches its wait while `c` is on its way; then `a` ends, and nothing executes any more."""

    async def b() -> Any:
        await ctx.step.run("b", takes, "b", 0.0)
        return await ctx.step.wait_for_event("go")

    return await asyncio.gather(ctx.step.run("a", takes, "a", 0.35), b(), ctx.step.run("c", takes, "c", 0.1))


async def test_a_result_that_is_held_back_is_journalled_before_the_run_is_suspended(world: Any, until: Any) -> None:
    await world.worker(ends_a_step_beside_a_new_wait)
    run = await world.client.start(ends_a_step_beside_a_new_wait)
    await until(lambda: world.value("select 1 from onward.message where cached_by is not null"))
    assert {step.name for step in await run.steps()} == {"a", "b", "c", "go"}
    await run.signal("go", 1)
    assert await run.result(timeout=10) == ["a", 1, "c"]
    assert set(executed.values()) == {1}


async def test_a_result_that_is_held_back_is_journalled_before_the_run_is_handed_back(world: Any, until: Any) -> None:
    worker = await world.worker(ends_a_step_beside_a_new_wait)
    run = await world.client.start(ends_a_step_beside_a_new_wait)
    await until(lambda: world.value("select 1 from onward.step where name = 'b'"))
    await worker.stop()
    await world.worker(ends_a_step_beside_a_new_wait)
    await run.signal("go", 1)
    assert await run.result(timeout=10) == ["a", 1, "c"]
    assert set(executed.values()) == {1}


async def flaky() -> str:
    executed["flaky"] += 1
    if executed["flaky"] == 1:
        raise ValueError("the first time")
    await asyncio.sleep(1.0)
    return "a"


@workflow
async def registers_beside_the_end_of_a_retried_step(ctx: Context) -> list[Any]:
    async def b() -> Any:
        await ctx.step.run("b", takes, "b", 1.1)
        return await ctx.step.wait_for_event("go")

    return await asyncio.gather(
        ctx.step.run("a", flaky, retry=Retry(attempts=2, backoff=Backoff.fixed("10ms"))),
        b(),
        ctx.step.run("c", takes, "c", 1.2),
        ctx.step.run("d", takes, "d", 3.0),
    )


async def test_a_result_that_is_sent_again_with_its_register_is_known_once(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The register still carries the back-off of the step whose result stands behind it."""
    slow, lost = HandOuts.commit, list[Batch]()

    async def loses_one_answer(self: HandOuts, worker: int, lane: int, number: int, batch: Batch) -> Answers:
        answers = await slow(self, worker, lane, number, batch)
        if not lost and batch.results and any(want.kind == "retry" for ask in batch.asks for want in ask.wants):
            lost.append(batch)
            raise ConnectionResetError("the answer is lost")
        return answers

    monkeypatch.setattr(HandOuts, "commit", loses_one_answer)
    await world.worker(registers_beside_the_end_of_a_retried_step)
    run = await world.client.start(registers_beside_the_end_of_a_retried_step)
    await run.signal("go", 1)
    assert await run.result(timeout=15) == ["a", 1, "c", "d"]
    assert lost, "no register stood before a retried step's result"
    assert executed["d"] == 1


@workflow
async def comes_late_to_a_step_that_failed(ctx: Context) -> list[Any]:
    """A replay registers the wait before `outer` has come to `flaky` again."""

    async def inner() -> int:
        executed["inner"] += 1
        raise ValueError("always")

    async def outer() -> str:
        await asyncio.sleep(1.0)
        return await ctx.step.run("flaky", inner, retry=Retry(attempts=2, backoff=Backoff.fixed("3s")))

    failure, answer = await asyncio.gather(
        ctx.step.run("outer", outer, retry=Retry(attempts=1)), ctx.step.wait_for_event("go"), return_exceptions=True
    )
    return [type(failure).__name__, answer]


async def test_a_back_off_is_kept_while_the_body_has_not_come_to_its_step_again(world: Any, until: Any) -> None:
    pending = "select deadline from onward.pending where kind = 'retry'"
    worker = await world.worker(comes_late_to_a_step_that_failed)
    run = await world.client.start(comes_late_to_a_step_that_failed)
    deadline = await until(lambda: world.value(pending))
    await world.crash(worker)
    await world.worker(comes_late_to_a_step_that_failed)
    await until(lambda: world.value("select 1 from onward.message where receipt = 2 and owner is not null"))
    await asyncio.sleep(0.5)  # the wait has been registered; `flaky` has not been called yet
    assert await world.value(pending) == deadline
    await run.signal("go", 1)
    assert await run.result(timeout=15) == ["StepFailed", 1]
    assert executed["inner"] == 2, "the attempts of before the crash count"
