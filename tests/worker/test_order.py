"""Law: what a body does with results, it does again on replay, in the same order, and nothing runs twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from onward import Context, GiveUp, Retry, Workflow, workflow
from onward.errors import RunFailed, StepFailed
from onward.worker import tasks
from onward.worker.tasks import Body, Counting

ran: Counter[str] = Counter()
gates: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()
    gates.clear()


def opened(*names: str) -> None:
    for name in names:
        gates.setdefault(name, asyncio.Event()).set()


async def gated(name: str) -> str:
    """Ends when the test says so: the order of commits is the test's."""
    ran[name] += 1
    await gates.setdefault(name, asyncio.Event()).wait()
    return name.upper()


async def failing(name: str) -> str:
    ran[name] += 1
    await gates.setdefault(name, asyncio.Event()).wait()
    raise GiveUp(f"{name} broke")


@workflow
async def gathers(ctx: Context) -> Any:
    return await asyncio.gather(*(ctx.step.run(n, gated, n) for n in "abc"))


@workflow
async def takes_the_first(ctx: Context) -> Any:
    tasks = {asyncio.create_task(ctx.step.run(n, gated, n), name=n) for n in "abc"}
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    first = sorted(task.get_name() for task in done)
    return [first, await ctx.step.run("then-" + "".join(first), gated, "then")]


@workflow
async def as_they_complete(ctx: Context) -> Any:
    order = []
    for next_one in asyncio.as_completed([ctx.step.run(n, gated, n) for n in "abc"]):
        order.append(await next_one)
        order.append(await ctx.step.run("after-" + order[-1], gated, "after"))
    return order


@workflow
async def a_group_that_breaks(ctx: Context) -> Any:
    async def two_steps(first: str) -> None:
        await ctx.step.run(first, gated, first)
        await ctx.step.run(first + "-again", gated, first + "-again")

    broken: list[str] = []
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(two_steps("b"))
            group.create_task(two_steps("c"))
            group.create_task(ctx.step.run("a", failing, "a"))
    except* StepFailed as failures:
        broken = [str(failure) for failure in failures.exceptions]
    return [broken, await ctx.step.run("tidy", gated, "tidy")]


@workflow
async def races(ctx: Context) -> Any:
    won = await ctx.step.race(
        "who", a=ctx.step.run("a", gated, "a"), b=ctx.step.run("b", gated, "b"), nap=ctx.step.sleep("nap", "1h")
    )
    moment = ctx.now().isoformat()
    return [won, moment, await ctx.step.run("then-" + won[0], gated, "then")]


@workflow
async def a_race_that_fails(ctx: Context) -> Any:
    try:
        return await ctx.step.race("who", a=ctx.step.run("a", failing, "a"), b=ctx.step.run("b", gated, "b"))
    except StepFailed as failure:
        return [failure.step, failure.message, await ctx.step.run("tidy", gated, "tidy")]


@workflow
async def a_race_that_breaks_by_itself(ctx: Context) -> Any:
    async def breaks() -> None:
        raise KeyError("no step at all")

    try:
        await ctx.step.race("who", broken=breaks(), a=ctx.step.run("a", gated, "a"))
    except KeyError:
        moment = ctx.now().isoformat()
        return [moment, await ctx.step.run("tidy", gated, "tidy")]


@workflow
async def nests_in_tasks(ctx: Context) -> Any:
    async def outer(name: str) -> str:
        return str(await ctx.step.run("inner", gated, name))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.step.run("outer-" + n, outer, n)) for n in "ab"]
    raced = await ctx.step.race("who", a=ctx.step.run("outer-c", outer, "c"), nap=ctx.step.sleep("nap", "1h"))
    return [*(task.result() for task in tasks), *raced]


@workflow
async def repeats_and_nests(ctx: Context) -> Any:
    async def outer() -> list[str]:
        ran["outer"] += 1
        return [await ctx.step.run("same", gated, "x"), await ctx.step.run("same", gated, "x")]

    first = await ctx.step.run("outer", outer)
    same = [await ctx.step.run("same", gated, "x") for _ in range(3)]
    return first + same


@workflow
async def deep_groups(ctx: Context) -> Any:
    async def level(n: int, name: str) -> str:
        if n == 0:
            return await ctx.step.run(name, gated, name)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(level(n - 1, name))
        return task.result()

    tasks = [asyncio.create_task(level(10, n), name=n) for n in "ab"]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    seen = sorted(task.get_name() for task in done)
    await asyncio.wait(pending)
    return seen


@workflow
async def coroutines_as_they_complete(ctx: Context) -> Any:
    async def one(name: str) -> str:
        return str(await ctx.step.run(name, gated, name)) + str(await ctx.step.run("again", gated, "x"))

    return [await next_one for next_one in asyncio.as_completed([one("a"), one("b"), one("c")])]


CASES: list[tuple[Workflow[Any, Any], list[str]]] = [
    (gathers, ["c", "a", "b"]),
    (takes_the_first, ["b", "then"]),
    (takes_the_first, ["abc", "then"]),
    (as_they_complete, ["b", "after", "c", "a"]),
    (as_they_complete, ["cba", "after"]),
    (coroutines_as_they_complete, ["b", "ca"]),
    (a_group_that_breaks, ["b", "a", "tidy"]),
    (a_group_that_breaks, ["bca", "tidy"]),
    (races, ["b", "then"]),
    (races, ["ba", "then"]),
    (a_race_that_fails, ["a", "tidy"]),
    (a_race_that_breaks_by_itself, ["tidy"]),
    (nests_in_tasks, ["ba", "c"]),
    (repeats_and_nests, ["x"]),
    (deep_groups, ["b", "a"]),
    (deep_groups, ["ba"]),
]


@pytest.mark.parametrize(("flow", "order"), CASES, ids=[f"{f.name}-{''.join(o)}" for f, o in CASES])
async def test_a_replay_from_every_commit_gives_what_the_first_run_gave(
    world: Any, until: Any, flow: Workflow[Any, Any], order: list[str]
) -> None:
    """The journal cut after every row: what is in it does not run again, and with all of it the outcome is the same."""
    await world.worker(flow)
    run = await world.client.start(flow)
    for names in order:
        together = [names] if names in ("then", "after", "tidy") or "-" in names else list(names)

        async def begun(together: list[str] = together) -> bool:
            return all(ran[name] for name in together)

        await until(begun)
        opened(*together)
    opened("a", "b", "c", "x", "then", "after", "tidy", "b-again", "c-again")
    outcome = await run.result(timeout=10)
    journal = [s for s in await run.steps() if s.completed_at]

    for rows in range(len(journal) + 1):
        ran.clear()
        again = await world.copy(run, rows)
        repeated = await again.result(timeout=10)
        for name in {s.name for s in journal[:rows] if s.kind == "run" and not s.parent}:
            plain = name.split("#")[0]
            if plain in ("a", "b", "c", "outer", "tidy"):
                assert ran[plain] == 0, f"{name} ran again after {rows} rows"
        if rows == len(journal):
            assert repeated == outcome
            assert not ran, f"a full journal ran {dict(ran)}"


@workflow
async def one_name_in_any_order(ctx: Context, tasks: bool) -> list[list[str]]:
    async def one(name: str) -> list[str]:
        return [name, await ctx.step.run("fetch", gated, name)]

    coroutines = [one(name) for name in "abc"]
    started = [asyncio.create_task(c) for c in coroutines] if tasks else coroutines
    return sorted([await next_one for next_one in asyncio.as_completed(started)])


async def test_coroutines_that_begin_in_any_order_must_not_share_a_name(world: Any) -> None:
    """The names of steps are counted; asyncio.as_completed would count them differently on each replay."""
    opened("a", "b", "c")
    await world.worker(one_name_in_any_order)
    run = await world.client.start(one_name_in_any_order, True)
    assert await run.result(timeout=10) == [["a", "A"], ["b", "B"], ["c", "C"]]
    for rows in range(4):
        assert await (await world.copy(run, rows)).result(timeout=10) == [["a", "A"], ["b", "B"], ["c", "C"]]
    run = await world.client.start(one_name_in_any_order, False)
    with pytest.raises(RunFailed, match=r"give it tasks, \[asyncio.create_task"):
        await run.result(timeout=10)


async def test_a_race_whose_winner_is_gone_from_the_code_parks_the_run(world: Any, until: Any) -> None:
    def racing(*branches: str) -> Workflow[Any, Any]:
        @workflow(name="renamed")
        async def flow(ctx: Context) -> Any:
            return await ctx.step.race("quickest", **{n: ctx.step.run(n, gated, n) for n in branches})

        return flow

    opened("a")
    worker = await world.worker(racing("a", "b"))
    run = await world.client.start("renamed")
    await run.result(timeout=10)
    await worker.stop()
    await world.worker(racing("b", "c"))
    opened("b", "c")
    again = await world.copy(run, 2)

    async def parked() -> bool:
        return bool((await again.get()).state == "parked")

    await until(parked)
    assert "'a' won the race 'quickest'" in (await again.get()).reason


async def test_the_bodys_time_is_the_same_on_replay_whatever_the_servers_zone(world: Any) -> None:
    @workflow(name="tells-the-time")
    async def tells(ctx: Context) -> list[str]:
        await ctx.step.sleep("nap", 0)
        return [ctx.now().isoformat()]

    name = await world.value("select current_database()")
    await world.sql(f"alter database {name} set timezone = 'Asia/Kolkata'")
    await world.worker(tells)
    run = await world.client.start(tells)
    said = await run.result(timeout=10)
    assert said[0].endswith("+00:00")
    assert await (await world.copy(run, 1)).result(timeout=10) == said


@workflow
async def counts_siblings(ctx: Context) -> Any:
    async def chain() -> None:
        for i in range(50):
            await ctx.step.run(f"link-{i}", gated, f"link-{i}")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(chain())
            group.create_task(ctx.step.run("bad", failing, "bad", retry=Retry(attempts=1)))
    except* StepFailed:
        pass
    return "over"


async def test_a_cancelled_siblings_next_step_does_not_begin_on_replay(world: Any) -> None:
    opened("bad", *(f"link-{i}" for i in range(50)))
    await world.worker(counts_siblings)
    run = await world.client.start(counts_siblings)
    assert await run.result(timeout=10) == "over"
    rows = len(await run.steps())
    ran.clear()
    again = await world.copy(run, rows)
    assert await again.result(timeout=10) == "over"
    assert not ran


async def test_a_task_counts_before_it_is_made() -> None:
    """An eager task runs while it is made: the body that makes it is not alone any more."""
    loop, mine, seen = asyncio.get_running_loop(), Body(), list[int]()

    def eager(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        seen.append(mine.others)
        return asyncio.Task(coroutine, loop=loop, **options)

    before = loop.get_task_factory()
    loop.set_task_factory(eager)
    counting = Counting.install(loop)
    token = tasks.body.set(mine)
    try:
        assert counting.knows_single(mine)
        await asyncio.create_task(asyncio.sleep(0))
        await asyncio.sleep(0)
        assert counting.knows_single(mine)
    finally:
        tasks.body.reset(token)
        counting.uninstall()
        loop.set_task_factory(before)
    assert seen == [1]


@workflow
async def fans_out_in_one(ctx: Context) -> list[Any]:
    async def one() -> list[Any]:
        return await asyncio.gather(*(asyncio.create_task(ctx.step.run("sub", gated, n)) for n in "ab"))

    async def named(name: str) -> Any:
        return await ctx.step.run("sub", gated, name)

    async def group() -> list[Any]:
        async with asyncio.TaskGroup() as tasks:
            both = [tasks.create_task(named(n)) for n in "ab"]
        return [task.result() for task in both]

    return [await one(), *[await each for each in asyncio.as_completed([group()])]]


async def test_tasks_of_one_coroutine_begin_in_one_order(world: Any) -> None:
    opened("a", "b")
    await world.worker(fans_out_in_one)
    run = await world.client.start(fans_out_in_one)
    assert await run.result(timeout=10) == [["A", "B"], ["A", "B"]]
