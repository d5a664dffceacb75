"""Laws of a run's life: retries, timers, cancel, pause, children, divergence, versions, reruns."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from onward import Backoff, Client, Context, GiveUp, Retry, RetryAfter, Start, current_step, workflow
from onward.errors import Conflict, InvalidInput, NotFound, OnwardError, RunCancelled, RunFailed, StepFailed
from rest import both

log: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    log.clear()


async def note(what: Any) -> Any:
    log.append(what)
    return what


async def _is(world: Any, run: Any, *wanted: str) -> bool:
    return (await world.client.get(run.id)).state in wanted


# ---- retries and timers ----------------------------------------------------------------------------------


@workflow(retry=Retry(attempts=3, backoff=Backoff.fixed("10ms")))
async def retries(ctx: Context) -> Any:
    async def shaky() -> int:
        step = current_step()
        log.append((step.name, step.attempt, step.idempotency_key))
        if step.attempt < 3:
            raise ValueError("not yet")
        return step.attempt

    return await ctx.step.run("shaky", shaky)


async def test_a_failing_step_is_tried_again_under_one_idempotency_key(world: Any) -> None:
    await world.worker(retries)
    run = await world.client.start(retries)
    assert await run.result(timeout=10) == 3
    assert [a for _, a, _ in log] == [1, 2, 3]
    assert len({key for _, _, key in log}) == 1
    assert (await run.steps())[0].attempt == 3


async def test_attempts_are_counted_through_a_crash(world: Any, until: Any) -> None:
    @workflow(name="counts", retry=Retry(attempts=5, backoff=Backoff.fixed("1h")))
    async def counts(ctx: Context) -> int:
        async def shaky() -> int:
            attempt = current_step().attempt
            if attempt < 3:
                raise ValueError("not yet")
            return attempt

        return await ctx.step.run("shaky", shaky)

    worker = await world.worker(counts)
    run = await world.client.start(counts)
    await until(lambda: _is(world, run, "retrying"))
    await world.crash(worker)
    await world.worker(counts)
    await world.skip(3601)
    await until(lambda: _attempt(run, 2))
    await world.skip(3601)
    assert await run.result(timeout=10) == 3


async def _attempt(run: Any, number: int) -> bool:
    return any(s.attempt == number and s.status == "retrying" for s in await run.steps())


@workflow
async def is_told_when(ctx: Context) -> None:
    async def busy() -> None:
        log.append(time.monotonic())
        if len(log) == 1:
            raise RetryAfter("300ms")

    await ctx.step.run("busy", busy)


async def test_retry_after_sets_the_delay(world: Any) -> None:
    await world.worker(is_told_when)
    await (await world.client.start(is_told_when)).result(timeout=10)
    assert 0.3 <= log[1] - log[0] < 2


@workflow
async def sleeps_long(ctx: Context) -> str:
    began = ctx.now()
    await ctx.step.sleep("a year", "52w")
    assert ctx.now() - began >= timedelta(days=364)
    await ctx.step.sleep_until("long past", ctx.started_at)
    return "awake"


async def test_a_year_passes(world: Any, until: Any) -> None:
    await world.worker(sleeps_long)
    run = await world.client.start(sleeps_long)
    await until(lambda: _is(world, run, "sleeping"))
    await world.skip(364 * 86400 + 1)
    assert await run.result(timeout=10) == "awake"


async def test_a_sleep_beside_a_long_step_keeps_its_deadline_through_a_crash(world: Any, until: Any) -> None:
    release = asyncio.Event()

    @workflow(name="beside")
    async def beside(ctx: Context) -> Any:
        async def long() -> str:
            await release.wait()
            return "long"

        return await asyncio.gather(ctx.step.run("long", long), ctx.step.sleep("nap", "1h"))

    worker = await world.worker(beside)
    run = await world.client.start(beside)
    deadline = await until(lambda: world.value("select deadline from onward.pending where name = 'nap'"))
    await world.crash(worker)
    await world.skip(1800)
    release.set()
    await world.worker(beside)
    await until(lambda: _is(world, run, "sleeping"))
    assert await world.value("select deadline from onward.pending where name = 'nap'") == deadline
    await world.skip(1801)
    assert await run.result(timeout=10) == ["long", None]


# ---- threads ---------------------------------------------------------------------------------------------


@workflow
async def uses_threads(ctx: Context) -> Any:
    def in_thread(x: int) -> list[Any]:
        return [x, current_step().name, threading.current_thread() is threading.main_thread()]

    return [
        await ctx.step.run("sync", in_thread, 1),
        await ctx.step.run("lambda", lambda: note("late")),
    ]


async def test_sync_steps_run_in_threads_and_know_their_step(world: Any) -> None:
    await world.worker(uses_threads)
    run = await world.client.start(uses_threads)
    assert await run.result(timeout=10) == [[1, "sync", False], "late"]


async def test_stuck_threads_do_not_starve_the_worker(world: Any, until: Any) -> None:
    free = threading.Event()

    @workflow(name="stuck")
    async def stuck(ctx: Context) -> str:
        try:
            await ctx.step.run("stuck", free.wait, 30, retry=Retry(attempts=1), timeout="100ms")
        except StepFailed as failure:
            return failure.type
        return "no"

    @workflow(name="async-one")
    async def async_one(ctx: Context) -> str:
        return await ctx.step.run("note", note, "fine")

    await world.worker(stuck, async_one, threads=2)
    runs = [await world.client.start(stuck) for _ in range(2)]
    assert [await run.result(timeout=10) for run in runs] == ["StepTimeout"] * 2
    queued = await world.client.start(stuck)
    assert await (await world.client.start(async_one)).result(timeout=10) == "fine"
    assert (await world.client.get(queued.id)).status == "running"  # both threads keep their slots
    free.set()
    assert await queued.result(timeout=10) == "no"


# ---- cancel and pause ------------------------------------------------------------------------------------


@workflow
async def is_cancelled(ctx: Context) -> None:
    async def hang() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            log.append("step cancelled")
            raise

    try:
        log.append("begun")
        await ctx.step.run("hang", hang)
    finally:
        log.append(ctx.cancelled)
        try:
            await ctx.step.run("tidy", note, "must not run")
        except RunCancelled:
            log.append("refused")


@both
async def test_cancel_reaches_a_running_step_and_is_final(world: Any, until: Any) -> None:
    await world.worker(is_cancelled)
    run = await world.client.start(is_cancelled)
    await until(lambda: _true("begun" in log))
    assert (await run.cancel()).status == "cancelled"
    await until(lambda: _true("refused" in log))
    assert log == ["begun", "step cancelled", True, "refused"]
    assert await run.steps() == []
    assert (await run.cancel()).status == "cancelled"
    with pytest.raises(RunCancelled):
        await run.result(timeout=5)


async def _true(value: bool) -> bool:
    return value


@both
async def test_a_completed_run_cannot_be_cancelled_or_paused(world: Any) -> None:
    await world.worker(retries)
    run = await world.client.start(retries)
    await run.result(timeout=10)
    for steer in (world.client.cancel, world.client.pause, world.client.resume):
        with pytest.raises(Conflict):
            await steer(run.id)


async def test_a_paused_run_starts_no_step_and_goes_on_at_resume(world: Any, until: Any) -> None:
    go = asyncio.Event()

    @workflow(name="pausable")
    async def pausable(ctx: Context) -> str:
        async def first() -> None:
            log.append("first")
            await go.wait()

        await ctx.step.run("first", first)
        return await ctx.step.run("second", note, "second")

    await world.worker(pausable)
    run = await world.client.start(pausable)
    await until(lambda: _true("first" in log))
    assert (await world.client.pause(run.id)).state == "paused"
    await asyncio.sleep(0)
    go.set()
    await until(lambda: world.value("select owner is null from onward.message"))
    assert [s.name for s in await run.steps()] == ["first"]  # what was running is journalled
    assert (await world.client.resume(run.id)).status == "running"
    assert await run.result(timeout=10) == "second"
    assert log == ["first", "second"]


# ---- children --------------------------------------------------------------------------------------------


@workflow
async def child(ctx: Context, what: str) -> str:
    if what == "fail":
        raise ValueError("child broke")
    if what == "hang":
        await ctx.step.wait_for_event("never")
    await ctx.step.sleep("nap", "20ms")
    return what.upper()


@workflow
async def parent(ctx: Context, what: str) -> Any:
    try:
        started = await ctx.step.start("free", child, "x")
        return [await ctx.step.invoke("kid", child, what), started]
    except StepFailed as failure:
        return [failure.step, failure.type, failure.message]


@both
async def test_an_invoked_child_gives_its_result_or_its_failure(world: Any) -> None:
    await world.worker(parent, child)
    good = await world.client.start(parent, "y")
    value, started = await good.result(timeout=10)
    assert value == "Y"
    assert await world.client.result(started, timeout=10) == "X"
    bad = await world.client.start(parent, "fail")
    assert await bad.result(timeout=10) == ["kid", "ValueError", "child broke"]
    again = await world.copy(good, 1)
    assert (await again.result(timeout=10))[1] == started


async def test_invoked_children_go_with_their_parent_and_started_ones_stay(world: Any, until: Any) -> None:
    await world.worker(parent, child)
    run = await world.client.start(parent, "hang")

    async def both() -> Any:
        return await world.sql("select run_id, parent from onward.run where workflow = 'child'")

    await until(lambda: _true(True))
    children = await until(lambda: _count(both, 2))
    await until(lambda: _is(world, run, "waiting"))
    await run.cancel()
    statuses = {bool(c["parent"]): (await world.client.get(str(c["run_id"]))).status for c in children}
    assert statuses[True] == "cancelled"
    assert statuses[False] in ("running", "completed")


async def _count(ask: Any, wanted: int) -> Any:
    rows = await ask()
    return rows if len(rows) == wanted else None


# ---- divergence ------------------------------------------------------------------------------------------


@both
async def test_a_journal_that_no_longer_fits_parks_the_run_until_fitting_code_is_back(world: Any, until: Any) -> None:
    @workflow(name="changing")
    async def old(ctx: Context) -> Any:
        await ctx.step.run("old-step", note, "old")
        return await ctx.step.wait_for_event("go")

    @workflow(name="changing")
    async def new(ctx: Context) -> Any:
        await ctx.step.run("new-step", note, "new")
        return await ctx.step.wait_for_event("go")

    first = await world.worker(old)
    run = await world.client.start(old)
    await until(lambda: _is(world, run, "waiting"))
    await first.stop()
    second = await world.worker(new)
    await run.signal("go", 1)
    await until(lambda: _is(world, run, "parked"))
    reason = (await run.get()).reason
    assert reason.startswith("NonDeterminism")
    assert "old-step" in reason
    assert "new-step" in reason
    await second.stop()
    assert log == ["old"]
    await world.worker(old)
    assert await run.result(timeout=10) == 1
    assert log == ["old"]


# ---- names, refusals, context ----------------------------------------------------------------------------


@workflow
async def looks_around(ctx: Context, x: int = 0) -> Any:
    a = [ctx.random().random(), str(ctx.uuid()), ctx.workflow, ctx.version, ctx.tenant, dict(ctx.metadata)]
    ctx.log.warning("said once")
    await ctx.step.sleep("nap", 0)
    return [*a, ctx.random().random(), ctx.now().isoformat()]


async def test_chance_and_time_are_the_same_on_replay_and_the_log_speaks_once(world: Any, caplog: Any) -> None:
    await world.worker(looks_around)
    run = await world.client.start(looks_around, 1)
    await run.result(timeout=10)
    worker = await world.worker(looks_around)
    del worker
    said = caplog.text.count("said once")
    await (await world.copy(run, 1)).result(timeout=10)
    assert caplog.text.count("said once") == said == 1


@workflow
async def sleeps_inside_a_step(ctx: Context) -> None:
    async def wrong() -> None:
        await ctx.step.sleep("nap", 1)

    await ctx.step.run("outer", wrong, retry=Retry(attempts=1))


async def test_a_sleep_inside_a_step_is_refused(world: Any) -> None:
    await world.worker(sleeps_inside_a_step)
    with pytest.raises(RunFailed, match="inside the step 'outer'"):
        await (await world.client.start(sleeps_inside_a_step)).result(timeout=10)


def test_current_step_outside_a_step_says_so() -> None:
    with pytest.raises(OnwardError, match="outside a step"):
        current_step()


# ---- starting, listing, rerunning ------------------------------------------------------------------------


@both
async def test_an_idempotency_key_gives_the_run_that_is_there(world: Any) -> None:
    first = await world.client.start(child, "x", idempotency_key="k")
    again = await world.client.start(child, "x", idempotency_key="k")
    assert (first.created, again.created, again.id) == (True, False, first.id)
    with pytest.raises(Conflict, match="another input"):
        await world.client.start(child, "y", idempotency_key="k")
    async with Client(world.url, tenant="other") as other:
        assert (await other.start(child, "y", idempotency_key="k")).created
        with pytest.raises(NotFound):
            await other.get(first.id)
        with pytest.raises(NotFound):
            await other.cancel(first.id)


@both
async def test_start_many_keeps_the_order_and_skips_taken_keys(world: Any) -> None:
    await world.client.start(child, "other", idempotency_key="k7")
    handles = await world.client.start_many(child, (Start(str(i), idempotency_key=f"k{i}") for i in range(2500)))
    assert len(handles) == 2500
    assert [h.created for h in handles].count(False) == 1
    assert not handles[7].created
    inputs = [(await handles[i].get()).input for i in (0, 7, 2499)]
    assert inputs == ["0", "other", "2499"]


@both
async def test_an_error_of_start_many_carries_the_handles_so_far(world: Any) -> None:
    items = [Start(str(i)) for i in range(1500)] + [Start({1, 2})]
    with pytest.raises(InvalidInput) as caught:
        await world.client.start_many("child", items)
    assert len(caught.value.handles) == 1000


@both
async def test_the_filters_of_runs(world: Any) -> None:
    @workflow(name="orders")
    async def orders(ctx: Context, order: dict[str, Any]) -> None: ...

    made = [await world.client.start(orders, {"user": {"id": i % 2}, "n": i}) for i in range(6)]
    await world.client.cancel(made[0].id)
    runs = world.client.runs
    ids = lambda page: [run.id for run in page.runs]  # noqa: E731
    assert ids(await runs(orders)) == [run.id for run in reversed(made)]
    assert ids(await runs("orders", input={"user": {"id": 1}})) == [made[i].id for i in (5, 3, 1)]
    assert ids(await runs("orders", input={"user.id": 1, "n": 3})) == [made[3].id]
    assert ids(await runs(status="cancelled")) == [made[0].id]
    assert made[0].id not in ids(await runs(status="running"))
    started = [(await run.get()).started_at for run in made]
    assert ids(await runs(since=started[4])) == [made[5].id, made[4].id]
    assert ids(await runs(until=started[1])) == [made[0].id]
    page = await runs(orders, limit=4)
    await world.client.start(orders, {})
    assert ids(await runs(orders, limit=4, cursor=page.next_cursor)) == [made[1].id, made[0].id]
    assert [run.id async for run in await runs(orders, limit=2, input={"user": {"id": 0}})] == [
        made[i].id for i in (4, 2, 0)
    ]
    with pytest.raises(InvalidInput):
        runs(status="sleeping")
    counts = await world.client.workflows()
    assert [(c.name, c.running, c.cancelled) for c in counts] == [("orders", 6, 1)]


@workflow
async def three_steps(ctx: Context) -> Any:
    return [await ctx.step.run(n, note, n) for n in ("a", "b", "c")]


@both
async def test_a_rerun_keeps_what_was_before_the_step_and_replaces_outputs(world: Any) -> None:
    await world.worker(three_steps)
    run = await world.client.start(three_steps)
    await run.result(timeout=10)
    log.clear()
    again = await world.client.rerun(run.id, from_step="c", with_outputs={"a": "A"})
    assert await again.result(timeout=10) == ["A", "b", "c"]
    assert log == ["c"]
    assert (await again.get()).rerun_of == run.id
    whole = await world.client.rerun(run.id)
    assert await whole.result(timeout=10) == ["a", "b", "c"]
    assert log == ["c", "a", "b", "c"]
    with pytest.raises(NotFound, match="no journalled step"):
        await world.client.rerun(run.id, from_step="nope")
    with pytest.raises(InvalidInput, match="not journalled before"):
        await world.client.rerun(run.id, from_step="b", with_outputs={"c": 1})


@both
async def test_a_delayed_start_waits(world: Any, until: Any) -> None:
    await world.worker(three_steps)
    run = await world.client.start(three_steps, delay="1h")
    assert (await run.get()).state == "queued"
    await world.skip(3600)
    assert await run.result(timeout=10) == ["a", "b", "c"]


@both
async def test_result_times_out_and_failure_has_its_cause(world: Any) -> None:
    @workflow(name="fails")
    async def fails(ctx: Context) -> None:
        async def boom() -> None:
            raise GiveUp("card declined")

        await ctx.step.run("charge", boom)

    run = await world.client.start(fails)
    with pytest.raises(TimeoutError):
        await run.result(timeout=0.05)
    await world.worker(fails)
    with pytest.raises(RunFailed, match="card declined") as caught:
        await run.result(timeout=10)
    error = caught.value.error
    assert (error["type"], error["step"], error["attempt"]) == ("GiveUp", "charge", 1)
    assert "boom" in error["traceback"]


async def test_the_cache_is_bounded_and_only_an_optimisation(world: Any, until: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("onward.worker.worker.CACHED", 2)

    @workflow(name="naps")
    async def naps(ctx: Context, i: int) -> Any:
        a = await ctx.step.run("a", note, i)
        await ctx.step.sleep("nap", "1h")
        return [a, await ctx.step.run("b", note, -i)]

    worker = await world.worker(naps)
    runs = [await world.client.start(naps, i) for i in range(1, 11)]
    await until(lambda: world.value("select count(*) = 10 from onward.pending"))
    await until(lambda: world.value("select bool_and(owner is null) from onward.message"))
    assert len(worker._cache) <= 2
    await world.skip(3600)
    assert [await run.result(timeout=10) for run in runs] == [[i, -i] for i in range(1, 11)]
    assert sorted(log) == sorted([*range(1, 11), *(-i for i in range(1, 11))])
