"""When others make mistakes: the database refuses, a worker is declared dead, the engine itself is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onward import Context, workflow
from onward.store.handouts import Answers, Batch, HandOuts
from onward.worker.execution import Execution

log: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    log.clear()


async def note(what: Any) -> Any:
    log.append(what)
    return what


@workflow
async def kid(ctx: Context) -> str:
    return await ctx.step.run("note", note, "kid")


@workflow
async def has_a_kid(ctx: Context) -> str:
    return await ctx.step.invoke("kid", kid)


async def test_a_child_that_the_database_refuses_at_first_is_started_later(
    world: Any, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused() -> bool:
        return "is not started yet" in caplog.text

    await world.sql(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'not now' using errcode = '57014'; end $$"
    )
    await world.sql(
        "create trigger refuses before insert on onward.run for each row "
        "when (new.workflow = 'kid') execute function refuse()"
    )
    await world.worker(has_a_kid, kid)
    run = await world.client.start(has_a_kid)
    await until(refused)
    await world.sql("drop trigger refuses on onward.run")
    assert await run.result(timeout=10) == "kid"


async def _state(run: Any, wanted: str) -> bool:
    return bool((await run.get()).state == wanted)


async def test_a_worker_that_was_declared_dead_has_dropped_its_runs_before_it_begins_again(
    world: Any, until: Any
) -> None:
    release = asyncio.Event()

    @workflow(name="held")
    async def held(ctx: Context) -> str:
        async def wait() -> str:
            log.append("begun")
            try:
                await release.wait()
            except asyncio.CancelledError:
                log.append("dropped")
                raise
            return "done"

        return await ctx.step.run("wait", wait)

    worker = await world.worker(held)
    run = await world.client.start(held)

    async def begun() -> bool:
        return log == ["begun"]

    await until(begun)
    before, [execution] = worker._heart.worker_id, worker._hot.values()
    async with asyncio.timeout(10):
        await world.sql("select onward.bury($1, true)", before)
        while worker._heart.worker_id == before:
            await asyncio.sleep(0)
    assert execution.over
    release.set()
    assert await run.result(timeout=10) == "done"
    assert log == ["begun", "dropped", "begun"]


async def both(ctx: Context) -> list[str]:
    """Of more than one task, so that the loop's turns are counted."""
    return await asyncio.gather(ctx.step.run("a", note, "a"), ctx.step.run("b", note, "b"))


lucky, unlucky = workflow(name="lucky")(both), workflow(name="unlucky")(both)


@pytest.mark.parametrize("where", ["answered_result", "at_rest"])
async def test_a_mistake_inside_onward_parks_one_run_and_the_others_go_on(
    world: Any, until: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    sound = getattr(Execution, where)

    def wrong(self: Execution, *args: Any) -> Any:
        if self.workflow is unlucky:
            raise LookupError("a mistake")
        return sound(self, *args)

    monkeypatch.setattr(Execution, where, wrong)
    await world.worker(lucky, unlucky)
    bad, good = await world.client.start(unlucky), await world.client.start(lucky)
    assert await good.result(timeout=10) == ["a", "b"]
    await until(lambda: _state(bad, "parked"))
    assert "LookupError: a mistake" in (await bad.get()).reason
    assert await (await world.client.start(lucky)).result(timeout=10) == ["a", "b"]


@workflow
async def one_note(ctx: Context) -> str:
    return await ctx.step.run("note", note, "one")


async def test_an_answer_to_the_last_incarnation_does_not_end_this_one(
    world: Any, until: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch is on its way while the worker is declared dead and registers anew; its answer comes after that."""
    real, anew = HandOuts.commit, asyncio.Event()

    async def commit(self: HandOuts, worker: int, lane: int, number: int, batch: Batch) -> Answers:
        if worker == first:
            await anew.wait()
        return await real(self, worker, lane, number, batch)

    monkeypatch.setattr(HandOuts, "commit", commit)
    worker = await world.worker(one_note)
    first = worker._heart.worker_id
    run = await world.client.start(one_note)
    await until(lambda: _logged(["one"]))
    await world.sql("select onward.bury($1, true)", first)
    await until(lambda: world.value("select 1 from onward.message where owner > $1", first))
    anew.set()
    assert await run.result(timeout=5) == "one"
    assert caplog.text.count("was declared dead") == 1
    assert await world.value("select count(*) from onward.worker") == 1


async def _logged(entries: list[Any]) -> bool:
    return log == entries


@workflow
async def waits_for_ever(ctx: Context) -> None:
    await ctx.step.wait_for_event("never")


@workflow
async def gives_its_kid_up(ctx: Context) -> str:
    branch, _ = await ctx.step.race(
        "race", kid=ctx.step.invoke("kid", waits_for_ever), go=ctx.step.wait_for_event("go")
    )
    await ctx.step.wait_for_event("end")
    return branch


async def test_an_invoked_run_that_lost_a_race_is_cancelled_also_by_another_worker(world: Any, until: Any) -> None:
    worker = await world.worker(gives_its_kid_up, waits_for_ever)
    run = await world.client.start(gives_its_kid_up)
    await until(lambda: world.value("select count(*) = 3 from onward.pending"))
    await world.crash(worker)
    await run.signal("go", 1)
    await world.worker(gives_its_kid_up, waits_for_ever)
    await until(lambda: world.value("select 1 from onward.run_result where status = 'cancelled'"))
    await run.signal("end", 1)
    assert await run.result(timeout=10) == "go"


@workflow
async def takes_its_time(ctx: Context) -> str:
    """It should not; but its journal fits."""
    await ctx.step.run("first", note, 1)
    await asyncio.sleep(1.5)
    await ctx.step.run("second", note, 2)
    await ctx.step.wait_for_event("go")
    return "over"


async def test_a_body_that_awaits_something_of_its_own_has_not_diverged(world: Any, until: Any) -> None:
    worker = await world.worker(takes_its_time)
    run = await world.client.start(takes_its_time)
    await until(lambda: world.value("select 1 from onward.message where cached_by is not null"))
    await worker.stop()
    await world.worker(takes_its_time)
    await run.signal("go", 1)
    assert await run.result(timeout=10) == "over"
    assert log == [1, 2]
