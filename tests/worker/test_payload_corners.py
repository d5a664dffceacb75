"""Corners of payloads and hand-offs: each of these was once wrong, found by somebody who tried to break it."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from onward import Backoff, Client, Context, Handoff, Ref, Retry, Start, workflow
from onward.client.retention import remove_expired
from onward.errors import DatabaseUnavailable, StepFailed
from onward.payloads.objects import Objects
from onward.store.handouts import HandOuts

calls: list[Any] = []
handed: list[Handoff] = []
OUT = "select exists (select 1 from onward.pending where kind = 'batch')"


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()
    handed.clear()


async def submit(handoff: Handoff) -> None:
    handed.append(handoff)


async def quick() -> int:
    return 1


def big() -> str:
    calls.append("big")
    return "b" * 70_000


# ---- hand-offs -----------------------------------------------------------------------------------------------


@workflow
async def beside(ctx: Context) -> Any:
    async def other() -> int:
        await ctx.step.wait_for_event("now")
        return await ctx.step.run("other", quick)

    return await asyncio.gather(ctx.step.batch("render", submit, 1), other())


async def test_a_rerun_hands_out_again_what_was_not_answered(world: Any, until: Any) -> None:
    await world.worker(beside)
    run = await world.client.start(beside)
    await until(lambda: world.value(OUT))
    await run.signal("now")
    await until(lambda: world.value("select exists (select 1 from onward.step where name = 'other')"))
    await world.client.answer(handed[0], "p")
    await run.result(timeout=10)
    handed.clear()
    again = await world.client.rerun(run.id, from_step="other")
    await until(lambda: world.value(OUT))
    await world.client.answer(handed[0], "q")
    assert await again.result(timeout=10) == ["q", 1]


@workflow
async def renders_lambda(ctx: Context) -> Any:
    return await ctx.step.batch("render", lambda handoff: submit(handoff), None)


async def test_a_lambda_around_an_async_submit_is_awaited(world: Any, until: Any) -> None:
    await world.worker(renders_lambda)
    await world.client.start(renders_lambda)
    await until(lambda: world.value(OUT))
    assert handed


@workflow
async def renders(ctx: Context) -> Any:
    try:
        return await ctx.step.batch("render", submit, None)
    except StepFailed as error:
        return error.type


async def test_an_answer_that_is_too_large_fails_the_step(
    world: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONWARD_PAYLOAD_MAX", "100000")
    await world.worker(renders)
    run = await world.client.start(renders)
    await until(lambda: world.value(OUT))
    monkeypatch.setenv("ONWARD_PAYLOAD_MAX", "1000000")  # of the program outside
    async with Client(world.url) as program:
        await program.answer(handed[0], "x" * 200_000)
    assert await run.result(timeout=10) == "PayloadTooLarge"


async def flaky(handoff: Handoff) -> None:
    calls.append("submit")
    if len(calls) == 1:
        raise ValueError("no")


async def long() -> None:
    await asyncio.sleep(2)


@workflow(retry=Retry(attempts=3, backoff=Backoff.fixed("500ms")))
async def pausing(ctx: Context) -> Any:
    return await asyncio.gather(ctx.step.run("long", long), ctx.step.batch("b", flaky, 1))


async def test_nothing_is_submitted_while_the_run_is_paused(world: Any, until: Any) -> None:
    await world.worker(pausing)
    run = await world.client.start(pausing)
    await until(lambda: asyncio.sleep(0, len(calls) == 1))
    await world.client.pause(run.id)
    await until(lambda: world.value("select owner is null from onward.message"))  # `long` has ended
    assert calls == ["submit"]


@workflow
async def renders_named(ctx: Context) -> Any:
    return await ctx.step.batch("a" * 58 + "#1b", submit, None)


async def test_every_hand_off_can_be_answered(world: Any, until: Any) -> None:
    await world.worker(renders_named)
    run = await world.client.start(renders_named)
    await until(lambda: world.value(OUT))
    await world.client.answer(handed[0], "x")
    assert await run.result(timeout=10) == "x"


# ---- references ----------------------------------------------------------------------------------------------


@workflow
async def child(ctx: Context) -> Ref[str]:
    return await ctx.step.run("big", big, ref=True)


async def same(ref: Any) -> Any:
    return ref


async def _of_child(ctx: Context) -> Any:
    ref = await ctx.step.invoke("child", child)
    await ctx.step.wait_for_event("go")
    return ref


@workflow
async def passes_on(ctx: Context) -> Ref[str]:
    return await _of_child(ctx)  # type: ignore[no-any-return]


@workflow
async def keeps(ctx: Context) -> Any:
    return (await ctx.artifacts.keep("it", "reports", await _of_child(ctx))).key


@workflow
async def copies(ctx: Context) -> Any:
    return (await ctx.step.run("mine", same, await _of_child(ctx), ref=True)).key


@pytest.mark.parametrize("flow", [passes_on, keeps, copies], ids=lambda flow: flow.name)
async def test_copying_a_ref_that_is_missing_parks_the_run(world: Any, folder: Path, until: Any, flow: Any) -> None:
    await world.worker(child, flow)
    run = await world.client.start(flow)
    await until(lambda: world.value("select exists (select 1 from onward.pending where kind = 'wait')"))
    (there,) = folder.rglob("big.txt")
    data = there.read_bytes()
    there.unlink()
    await run.signal("go")

    async def parked() -> bool:
        return (await run.get()).state == "parked"

    await until(parked)
    there.write_bytes(data)
    await world.client.resume(run.id)
    await run.result(timeout=15)


def ten() -> str:
    return "ten"


@workflow
async def refers(ctx: Context) -> Any:
    ref = await ctx.step.run("ref", ten, ref=True)
    await ctx.step.run("next", quick)
    return await ref.load()


async def test_an_output_that_replaces_a_ref_is_one(world: Any) -> None:
    await world.worker(refers)
    run = await world.client.start(refers)
    await run.result(timeout=10)
    again = await world.client.rerun(run.id, from_step="next", with_outputs={"ref": "eleven"})
    assert await again.result(timeout=5) == "eleven"


def numbers() -> Ref[list[int]]:
    return [1, 2]  # type: ignore[return-value]


async def wrong(ref: Any) -> str:
    return ref  # type: ignore[no-any-return]


@workflow
async def mistyped(ctx: Context) -> Any:
    ref = await ctx.step.run("ref", numbers)
    try:
        return await ctx.step.run("wrong", wrong, ref)
    except StepFailed as error:
        return error.type


async def test_a_ref_that_does_not_fit_fails_its_step(world: Any) -> None:
    await world.worker(mistyped)
    assert await (await world.client.start(mistyped)).result(timeout=5) == "InvalidInput"


def loads_it(ref: Any) -> int:
    return len(asyncio.run(ref.load()))


@workflow
async def in_threads(ctx: Context) -> Any:
    ref = await ctx.step.run("big", big, ref=True)
    once = Retry(attempts=1)
    return await asyncio.gather(*[ctx.step.run("t", loads_it, ref, retry=once) for _ in range(4)])


async def test_a_sync_step_may_load_a_ref(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Objects.read

    async def slow(self: Objects, pointer: Any) -> bytes:
        await asyncio.sleep(0.05)
        return await read(self, pointer)

    monkeypatch.setattr(Objects, "read", slow)
    await world.worker(in_threads)
    assert await (await world.client.start(in_threads)).result(timeout=10) == [70_000] * 4


# ---- values --------------------------------------------------------------------------------------------------


@workflow(retention="1s")
async def first_char(ctx: Context, text: str) -> str:
    return text[0]


async def test_what_a_worker_keeps_in_memory_is_bound_to_the_pointer(world: Any, folder: Path) -> None:
    """An id that its caller chose may be used again once retention has removed the run."""
    run_id, client = uuid.uuid4(), world.client
    await world.worker(first_char)
    for letter in "ab":
        (new,) = await client.new_runs(first_char, [Start(letter * 70_000)], [run_id])
        await client.begin("first-char", [new])
        assert await client.handle(str(run_id)).result(timeout=10) == letter
        await world.skip(10)
        await remove_expired(await client.database(), client.payloads)


def nothing_at_all() -> None: ...


@workflow
async def gives_none(ctx: Context) -> Any:
    return [await ctx.step.run("none", nothing_at_all)]


@workflow
async def optional(ctx: Context, n: int = 5) -> int:
    return n


async def test_nothing_is_nothing_at_any_threshold(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONWARD_PAYLOAD_THRESHOLD", "0")
    await world.worker(gives_none, optional)
    async with Client(world.url) as client:
        assert await (await client.start(gives_none)).result(timeout=10) == [None]
        assert await (await client.start(optional)).result(timeout=10) == 5


async def slow_step(i: int) -> int:
    calls.append(i)
    await asyncio.sleep(0.05)
    return i


@workflow
async def leaves_running(ctx: Context, size: int) -> str:
    async def chain() -> None:
        for i in range(20):
            await ctx.step.run("slow", slow_step, i)

    task = asyncio.create_task(chain())
    await ctx.step.run("quick", quick)
    assert not task.done()
    return "x" * size


@pytest.mark.parametrize("size", [10, 70_000])
async def test_nothing_begins_once_the_body_has_ended(world: Any, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    create = Objects.create

    async def slowly(self: Objects, *rest: Any) -> Any:
        await asyncio.sleep(0.3)
        return await create(self, *rest)

    monkeypatch.setattr(Objects, "create", slowly)
    await world.worker(leaves_running)
    await (await world.client.start(leaves_running, size)).result(timeout=10)
    assert calls == [0]


# ---- a database that is away ---------------------------------------------------------------------------------


@workflow
async def large_in(ctx: Context, text: str) -> int:
    return len(text)


@workflow
async def starts_child(ctx: Context) -> int:
    return await ctx.step.invoke("c", large_in, "x" * 70_000)


@pytest.mark.parametrize(("flow", "value"), [(starts_child, None), (large_in, "x" * 70_000)], ids=["child", "input"])
async def test_a_database_that_is_away_when_it_should_name_the_store_is_waited_for(
    world: Any, monkeypatch: pytest.MonkeyPatch, flow: Any, value: Any
) -> None:
    worker = await world.worker(starts_child, large_in)
    ask, times = worker.payloads._ask, []

    async def broken(url: Any) -> Any:
        times.append(1)
        if len(times) <= 2:
            raise DatabaseUnavailable("away")
        return await ask(url)

    worker.payloads._place = None
    monkeypatch.setattr(worker.payloads, "_ask", broken)
    run = await world.client.start(flow, value)
    assert await run.result(timeout=10) == 70_000


@workflow
async def matching(ctx: Context) -> Any:
    return (await ctx.step.wait_for_event("doc", match={"a": 1}))["n"]


async def test_a_verdict_that_was_not_told_is_told_again(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.worker(matching)
    judge, times = HandOuts.judge, []

    async def broken(self: HandOuts, *rest: Any) -> Any:
        times.append(1)
        if len(times) == 1:
            raise DatabaseUnavailable("away")
        return await judge(self, *rest)

    monkeypatch.setattr(HandOuts, "judge", broken)
    run = await world.client.start(matching)
    await world.client.pause(run.id)
    await run.signal("doc", {"a": 1, "n": 5, "p": "p" * 70_000})
    await world.client.resume(run.id)
    assert await run.result(timeout=10) == 5
