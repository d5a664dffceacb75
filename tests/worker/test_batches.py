"""`ctx.step.batch`: work that is handed to a program outside, which may answer late, wrongly, twice or never."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from onward import Context, Handoff, RunHandle, workflow
from onward.core.pointers import Pointer
from onward.errors import RunFailed
from onward.payloads.objects import Objects

handed: list[Handoff] = []


@pytest.fixture(autouse=True)
def nothing_handed() -> None:
    handed.clear()


async def submit(handoff: Handoff) -> None:
    handed.append(Handoff.parse(str(handoff)))  # as a program outside would get it


def submit_from_a_thread(handoff: Handoff) -> None:
    handed.append(handoff)


@workflow
async def renders(ctx: Context, scene: Any) -> Any:
    picture = await ctx.step.batch("render", submit, scene)
    await ctx.step.wait_for_event("go")
    return picture


@workflow
async def renders_typed(ctx: Context, scene: Any) -> Any:
    return (await ctx.step.batch("render", submit_from_a_thread, scene, type=set[int])) == {1, 2}


@workflow
async def renders_in_time(ctx: Context) -> Any:
    return await ctx.step.batch("render", submit, None, timeout="1h")


def refuses(handoff: Handoff) -> None:
    raise RuntimeError("the farm is closed")


@workflow
async def cannot_submit(ctx: Context) -> Any:
    return await ctx.step.batch("render", refuses, None)


async def handed_out(world: Any, until: Any, run: RunHandle[Any]) -> Handoff:
    await until(lambda: world.value("select exists (select 1 from onward.pending where kind = 'batch')"))
    return next(handoff for handoff in handed if handoff.run_id == run.id)


@pytest.mark.parametrize("size", [3, 100_000])
async def test_a_program_gets_the_input_by_pointer_and_its_answer_is_the_steps_value(
    world: Any, until: Any, size: int
) -> None:
    await world.worker(renders)
    run = await world.client.start(renders, {"scene": "s" * size})
    handoff = await handed_out(world, until, run)
    assert handoff.input.key.startswith(f"onward/tmp/batch/default/renders/{run.id}/")
    assert await world.client.take(handoff) == {"scene": "s" * size}
    await world.client.answer(handoff, {"picture": "p" * size})
    await run.signal("go")
    assert await run.result(timeout=10) == {"picture": "p" * size}


@pytest.mark.usefixtures("folder")
async def test_an_answer_survives_the_bucket_rule_for_tmp(world: Any, until: Any) -> None:
    """It is copied to the step's key before it is journalled, so a replay after ten days finds it."""
    worker = await world.worker(renders)
    run = await world.client.start(renders, 1)
    handoff = await handed_out(world, until, run)
    await world.client.answer(handoff, "p" * 100_000)
    await until(lambda: world.value("select exists (select 1 from onward.step where name = 'render')"))
    await worker.stop()
    place = await world.client.payloads.required("the test")
    tmp = [stored.key async for stored in place.objects.list(place.layout.tmp)]
    assert len(tmp) == 2
    await place.objects.delete(tmp)
    await world.worker(renders)
    await run.signal("go")
    assert await run.result(timeout=10) == "p" * 100_000
    step = next(step for step in await run.steps() if step.name == "render")
    assert step.output.key == f"onward/workflow-payloads/default/renders/{run.id}/render.txt"


async def test_a_crash_while_the_program_works_submits_nothing_again(world: Any, until: Any) -> None:
    worker = await world.worker(renders)
    run = await world.client.start(renders, 1)
    handoff = await handed_out(world, until, run)
    await world.crash(worker)
    await world.worker(renders)
    await world.client.answer(handoff, "done")
    await run.signal("go")
    assert await run.result(timeout=10) == "done"
    assert len(handed) == 1


async def test_only_the_answer_with_the_token_counts_and_only_the_first(world: Any, until: Any) -> None:
    await world.worker(renders)
    run = await world.client.start(renders, 1)
    handoff = await handed_out(world, until, run)
    await run.signal(handoff.event, {"token": "guessed", "output": "wrong"})
    await world.client.answer(handoff, "first")
    await world.client.answer(handoff, "second")
    await run.signal("go")
    assert await run.result(timeout=10) == "first"


async def test_a_program_of_any_language_answers_by_a_signal_with_a_pointer(world: Any, until: Any) -> None:
    await world.worker(renders_typed)
    run = await world.client.start(renders_typed, 1)
    handoff = await handed_out(world, until, run)
    place = await world.client.payloads.required("the test")
    data = json.dumps([1, 2]).encode()
    written = await place.objects.create(handoff.output_key, data, "application/json")
    pointer = {
        "key": written.key,
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "contentType": "application/json",
    }
    await run.signal(handoff.event, {"token": handoff.token, "output": {"$payload": pointer}})
    assert await run.result(timeout=10) is True


async def test_a_program_cannot_point_to_what_is_not_its_own(world: Any, until: Any) -> None:
    await world.worker(renders_typed)
    run, other = [await world.client.start(renders_typed, 1) for _ in range(2)]
    await until(lambda: world.value("select count(*) = 2 from onward.pending where kind = 'batch'"))
    theirs = next(handoff for handoff in handed if handoff.run_id == other.id)
    mine = next(handoff for handoff in handed if handoff.run_id == run.id)
    key = theirs.input.key
    assert isinstance(theirs.input, Pointer)
    stolen = {"key": key, "sha256": theirs.input.sha256, "size": theirs.input.size, "contentType": "application/json"}
    await run.signal(mine.event, {"token": mine.token, "output": {"$payload": stolen}})
    with pytest.raises(RunFailed, match="not below its hand-off"):
        await run.result(timeout=10)


async def test_a_users_answer_that_looks_like_a_pointer_is_a_value(world: Any, until: Any) -> None:
    await world.worker(renders)
    run = await world.client.start(renders, 1)
    handoff = await handed_out(world, until, run)
    innocent = {"$payload": {"key": "x", "sha256": "0" * 64, "size": 1, "contentType": "application/json"}}
    await world.client.answer(handoff, innocent)
    await run.signal("go")
    assert await run.result(timeout=10) == innocent


async def test_a_refusal_fails_the_step_with_its_reason(world: Any, until: Any) -> None:
    await world.worker(renders)
    run = await world.client.start(renders, 1)
    await world.client.refuse(await handed_out(world, until, run), "no such scene")
    with pytest.raises(RunFailed, match="no such scene") as failure:
        await run.result(timeout=10)
    assert failure.value.error["step"] == "render"


async def test_an_answer_that_does_not_fit_its_type_fails_the_step(world: Any, until: Any) -> None:
    await world.worker(renders_typed)
    run = await world.client.start(renders_typed, 1)
    await world.client.answer(await handed_out(world, until, run), "no set")
    with pytest.raises(RunFailed, match="InvalidInput"):
        await run.result(timeout=10)


async def test_a_program_that_never_answers_fails_the_step_when_its_time_is_over(world: Any, until: Any) -> None:
    await world.worker(renders_in_time)
    run = await world.client.start(renders_in_time)
    await handed_out(world, until, run)
    await world.skip(3600)
    with pytest.raises(RunFailed, match="did not answer within 1h"):
        await run.result(timeout=10)


async def test_what_cannot_be_submitted_fails_the_step(world: Any) -> None:
    await world.worker(cannot_submit)
    run = await world.client.start(cannot_submit)
    await world.skip(1)
    while (await run.get()).status == "running":
        await world.skip(60)
    with pytest.raises(RunFailed, match="the farm is closed"):
        await run.result(timeout=10)


@workflow
async def renders_beside_a_wait(ctx: Context) -> Any:
    return await asyncio.gather(ctx.step.batch("render", submit, None), ctx.step.wait_for_event("go"))


async def test_a_run_is_not_suspended_while_an_answer_is_copied(
    world: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.worker(renders_beside_a_wait)
    run = await world.client.start(renders_beside_a_wait)
    handoff = await handed_out(world, until, run)
    copying, copied, create = asyncio.Event(), asyncio.Event(), Objects.create

    async def slow(self: Objects, key: str, *rest: Any) -> Pointer:
        if "/workflow-payloads/" in key:
            copying.set()
            await copied.wait()
        return await create(self, key, *rest)

    monkeypatch.setattr(Objects, "create", slow)
    await world.client.answer(handoff, "p" * 100_000)
    async with asyncio.timeout(10):
        await copying.wait()
    for _ in range(20):
        assert (await run.get()).state == "executing"
    copied.set()
    await run.signal("go")
    assert await run.result(timeout=10) == ["p" * 100_000, True]


async def test_the_example_with_a_process_of_its_own_works(url: str) -> None:
    example = Path(__file__).parents[2] / "examples" / "batch.py"
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(example), env={**os.environ, "ONWARD_URL": url}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert out.decode().strip() == "{'count': 50000, 'median': 499.5}"
    assert process.returncode == 0
