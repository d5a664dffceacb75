"""Law: a signal is never lost, and it is consumed once, by the first waiter whose match it contains."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from onward import Context, workflow
from onward.errors import Conflict, NotFound, StepFailed
from rest import both

waiting: list[str] = []


@workflow
async def waits(ctx: Context) -> Any:
    return await ctx.step.wait_for_event("go")


@workflow
async def waits_twice(ctx: Context) -> Any:
    a = ctx.step.wait_for_event("go", name="first", match={"to": 1})
    b = ctx.step.wait_for_event("go", name="second")
    return await asyncio.gather(a, b)


@workflow
async def waits_late(ctx: Context) -> Any:
    await ctx.step.sleep("nap", "200ms")
    return await ctx.step.wait_for_event("go")


@workflow
async def times_out(ctx: Context) -> Any:
    return [await ctx.step.wait_for_event("go", timeout="50ms"), await ctx.step.wait_for_event("go")]


@workflow
async def gives_up_then_waits(ctx: Context) -> Any:
    """The loser of a race must not swallow the signal that the next wait is for."""
    won = await ctx.step.race("who", event=ctx.step.wait_for_event("go", name="e1"), nap=ctx.step.sleep("nap", "50ms"))
    return [won, await ctx.step.wait_for_event("go", name="e2")]


@workflow
async def races_two_waits(ctx: Context) -> Any:
    won = await ctx.step.race("who", x=ctx.step.wait_for_event("x"), y=ctx.step.wait_for_event("y"))
    other = "y" if won[0] == "x" else "x"
    return [won, await ctx.step.wait_for_event(other, name="other")]


async def state(world: Any, run: Any) -> str:
    found: str = (await world.client.get(run.id)).state
    return found


async def test_a_thousand_runs_signalled_while_they_suspend_all_wake(world: Any) -> None:
    await world.worker(waits)
    runs = [await world.client.start(waits) for _ in range(300)]
    outcomes = await asyncio.gather(*(run.signal("go", {"n": n}) for n, run in enumerate(runs)))
    assert {o.outcome for o in outcomes} <= {"buffered", "resolved"}
    assert await asyncio.gather(*(run.result(timeout=20) for run in runs)) == [{"n": n} for n in range(300)]


@both
async def test_a_signal_that_came_early_is_kept_for_the_wait(world: Any) -> None:
    await world.worker(waits_late)
    run = await world.client.start(waits_late)
    assert (await run.signal("go", "early")).buffered
    assert await run.result(timeout=10) == "early"


@both
async def test_the_first_waiter_that_matches_gets_it(world: Any, until: Any) -> None:
    await world.worker(waits_twice)
    run = await world.client.start(waits_twice)
    await until(lambda: _is(world, run, "waiting"))
    assert (await run.signal("go", {"to": 2})).resolved
    assert (await run.signal("go", {"to": 1})).resolved
    assert await run.result(timeout=10) == [{"to": 1}, {"to": 2}]


async def _is(world: Any, run: Any, wanted: str) -> bool:
    return await state(world, run) == wanted


MATCHES = [
    ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}, True),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
    ({"a": [1]}, {"a": [3, 1]}, True),
    ({"a": [1, {"x": 2}]}, {"a": [{"x": 2, "y": 0}, 1, 5]}, True),
    ({"a": [1, 2]}, {"a": [1]}, False),
    ({"a": 1}, {"a": 1.0}, True),
    ({"a": True}, {"a": 1}, False),
    ({"a": None}, {"a": None}, True),
    ({"a": None}, {}, False),
    ({}, {"anything": 1}, True),
    ({"a": "x\x00y"}, {"a": "x\x00y"}, True),
    ({"a": "x\x00"}, {"a": "x"}, False),
]


@workflow
async def matches(ctx: Context, pattern: dict[str, Any]) -> Any:
    return await ctx.step.wait_for_event("go", match=dict(pattern))


@pytest.mark.parametrize(("pattern", "payload", "fits"), MATCHES)
async def test_nested_objects_match_as_postgres_contains_does(
    world: Any, until: Any, pattern: Any, payload: Any, fits: bool
) -> None:
    await world.worker(matches)
    run = await world.client.start(matches, pattern)
    await until(lambda: _is(world, run, "waiting"))
    assert (await run.signal("go", payload)).outcome == ("resolved" if fits else "buffered")
    if fits:
        assert await run.result(timeout=10) == payload


@both
async def test_an_unbuffered_signal_is_dropped_when_nobody_waits(world: Any, until: Any) -> None:
    await world.worker(waits)
    run = await world.client.start(waits)
    await until(lambda: _is(world, run, "waiting"))
    assert (await run.signal("other", 1, buffer=False)).dropped
    assert (await run.signal("go", None, buffer=False)).resolved
    assert await run.result(timeout=10) is True  # None would mean that the time-out passed


@both
async def test_none_only_ever_means_that_the_time_out_passed(world: Any, until: Any) -> None:
    await world.worker(times_out)
    run = await world.client.start(times_out)

    async def timed_out() -> bool:
        return any(s.name == "go" and s.completed_at for s in await run.steps())

    await until(timed_out)
    await run.signal("go")
    assert await run.result(timeout=10) == [None, True]


@both
async def test_an_ended_run_cannot_be_signalled(world: Any) -> None:
    await world.worker(waits)
    run = await world.client.start(waits)
    await run.signal("go")
    await run.result(timeout=10)
    with pytest.raises(Conflict):
        await run.signal("go")
    with pytest.raises(NotFound):
        await world.client.signal("01890a5d-ac96-774b-bcce-b302099a8057", "go")


async def test_the_loser_of_a_race_does_not_swallow_the_next_waits_signal(world: Any, until: Any) -> None:
    await world.worker(gives_up_then_waits)
    run = await world.client.start(gives_up_then_waits)

    async def lost() -> bool:
        return any(s.name == "nap" and s.completed_at for s in await run.steps())

    await until(lost)
    await run.signal("go", 7)
    assert await run.result(timeout=10) == [["nap", None], 7]


async def test_a_crash_between_a_lost_race_and_the_next_wait_loses_no_signal(world: Any, until: Any) -> None:
    """The pending of the wait that lost is still there when the next worker claims (model: racenap + crash)."""
    entered = asyncio.Event()

    async def slow() -> None:
        entered.set()
        await asyncio.sleep(60 if len(crashed) == 0 else 0)

    crashed: list[int] = []

    @workflow(name="race-then-crash")
    async def flow(ctx: Context) -> Any:
        async def beside() -> None:  # keeps the run hot, so that nothing is suspended in between
            await ctx.step.run("slow", slow)

        task = asyncio.create_task(beside())
        won = await ctx.step.race(
            "who", event=ctx.step.wait_for_event("go", name="e1"), nap=ctx.step.sleep("nap", "50ms")
        )
        await task
        return [won, await ctx.step.wait_for_event("go", name="e2")]

    first = await world.worker(flow)
    run = await world.client.start(flow)
    await entered.wait()

    async def raced() -> bool:
        return any(s.name == "who" and s.completed_at for s in await run.steps())

    await until(raced)
    crashed.append(1)
    await world.crash(first)
    await world.sql(
        "insert into onward.pending (run_id, name, kind, event, attempt, deadline, since) "
        "values ($1, 'e1', 'wait', 'go', 1, 'infinity', onward.now()) on conflict do nothing",
        run.id,
    )
    await run.signal("go", 9)
    await world.worker(flow)
    assert await run.result(timeout=15) == [["nap", None], 9]


async def test_two_signals_for_two_raced_waits_are_both_delivered(world: Any, until: Any) -> None:
    """One settle may journal one signal only: the other wait is given up once the first has won."""
    await world.worker(races_two_waits)
    runs = [await world.client.start(races_two_waits) for _ in range(20)]
    for run in runs:
        await until(lambda run=run: _is(world, run, "waiting"))
    for run in runs:
        await world.sql(  # both at once, before anybody looks
            "select onward.signal('default', array[gen_random_uuid(), gen_random_uuid()], array[$1, $1]::uuid[], "
            "array['x', 'y'], array['1', '2']::bytea[], array['1', '2'], array[true, true])",
            run.id,
        )
    for run in runs:
        won, other = await run.result(timeout=10)
        assert sorted([won[1], other]) == [1, 2]


@dataclass
class Verdict:
    accepted: bool


@workflow
async def expects_a_verdict(ctx: Context) -> Any:
    while True:
        try:
            verdict = await ctx.step.wait_for_event("verdict", type=Verdict)
            return verdict.accepted
        except StepFailed as failure:
            await ctx.step.run("note", note, failure.type)


async def note(what: str) -> str:
    return what


async def test_a_signal_of_another_shape_is_told_to_the_body_and_the_next_one_counts(world: Any) -> None:
    await world.worker(expects_a_verdict)
    run = await world.client.start(expects_a_verdict)
    await run.signal("verdict", {"accepted": "perhaps"})
    await run.signal("verdict", {"accepted": True})
    assert await run.result(timeout=10) is True
    assert [s.output for s in await run.steps() if s.kind == "run"] == ["InvalidInput"]


@workflow
async def gives_a_wait_up(ctx: Context) -> list[Any]:
    async def long() -> None:
        await asyncio.sleep(1.5)

    raced = await ctx.step.race("race", event=ctx.step.wait_for_event("e"), late=ctx.step.sleep("late", "50ms"))
    await ctx.step.run("long", long)
    return [raced[0], await ctx.step.wait_for_event("e", name="second", timeout="10ms")]


async def test_a_wait_that_was_given_up_takes_no_signal_while_a_step_executes(world: Any, until: Any) -> None:
    await world.worker(gives_a_wait_up)
    run = await world.client.start(gives_a_wait_up)
    await until(lambda: world.value("select 1 from onward.step where kind = 'race'"))
    await until(lambda: world.value("select not exists (select 1 from onward.pending)"))
    assert (await run.signal("e", "nobody waits", buffer=False)).outcome == "dropped"
    assert await run.result(timeout=10) == ["late", None]
