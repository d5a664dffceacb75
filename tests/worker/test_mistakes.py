"""When others make mistakes: the database refuses, a worker is declared dead, the engine itself is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onward import Context, workflow
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
