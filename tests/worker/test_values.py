"""Law: what the body saw the first time equals, in type and value, what it sees on replay, failures included."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from onward import Backoff, Context, GiveUp, Retry, Workflow, workflow
from onward.errors import RunFailed, StepFailed, StepTimeout


class Colour(Enum):
    RED = "red"


@dataclass
class Thing:
    when: datetime
    price: Decimal
    tags: set[str]


VALUES: dict[str, tuple[Any, Any]] = {
    "none": (None, type(None)),
    "tuple becomes list": ((1, 2, (3,)), Any),
    "integer keys become strings": ({1: {2: 3}}, Any),
    "NUL and emoji": ("a\x00b 💤", Any),
    "big integer": (7**6000, Any),
    "floats": ([0.1, -0.0, 1e308, 1.0], Any),
    "bytes": (b"\x00\xff", bytes),
    "datetime": (datetime(2026, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=2))), datetime),
    "decimal": (Decimal("1.10"), Decimal),
    "uuid": (UUID(int=7), UUID),
    "enum": (Colour.RED, Colour),
    "set": ({3, 1}, set[int]),
    "dataclass": (Thing(datetime(2026, 1, 1, tzinfo=UTC), Decimal("0.5"), {"a"}), Thing),
    "false": (False, Any),
}
seen: list[Any] = []


@workflow
async def looks(ctx: Context, name: str) -> None:
    value, kind = VALUES[name]

    async def give() -> Any:
        return value

    seen.append(await ctx.step.run("value", give, type=kind))
    await ctx.step.sleep("nap", 0)


@pytest.mark.parametrize("name", VALUES)
async def test_a_value_is_the_same_the_first_time_and_on_replay(world: Any, name: str) -> None:
    seen.clear()
    await world.worker(looks)
    run = await world.client.start(looks, name)
    await run.result(timeout=10)
    await (await world.copy(run, 1)).result(timeout=10)
    first, *again = seen
    assert again
    for value in again:
        assert value == first
        assert type(value) is type(first)
        assert name == "big integer" or repr(value) == repr(first)


WRONG: dict[str, Callable[[], Any]] = {
    "nan": lambda: [1.0, {"x": math.nan}],
    "infinity": lambda: math.inf,
    "a lone surrogate": lambda: "\ud800",
    "a set": lambda: {1},
    "bytes": lambda: b"x",
    "an object": lambda: object(),
    "too deep": lambda: __import__("functools").reduce(lambda v, _: [v], range(1001), 0),
    "too large": lambda: "x" * (1 << 20),
}
attempts: list[int] = []


async def gives(name: str):  # type: ignore[no-untyped-def]  # untyped on purpose: plain JSON
    attempts.append(1)
    return WRONG[name]()


async def fine(i: int) -> int:
    return i


@workflow
async def returns_wrong(ctx: Context, name: str) -> Any:
    others = [ctx.step.run(f"neighbour-{i}", fine, i) for i in range(5)]
    try:
        await asyncio.gather(ctx.step.run("culprit", gives, name), *others)
    except StepFailed as failure:
        return [failure.step, failure.attempt, failure.type, failure.message]
    return None


@pytest.mark.usefixtures("no_store")
@pytest.mark.parametrize("name", WRONG)
async def test_what_cannot_be_stored_fails_that_step_by_name_at_once(world: Any, name: str) -> None:
    attempts.clear()
    await world.worker(returns_wrong)
    run = await world.client.start(returns_wrong, name)
    step, attempt, kind, message = await run.result(timeout=10)
    assert (step, attempt) == ("culprit", 1)
    assert kind == ("PayloadTooLarge" if name == "too large" else "InvalidInput")
    assert "culprit" in message
    assert len(attempts) == 1
    neighbours = [s for s in await run.steps() if s.name.startswith("neighbour") and s.completed_at]
    assert all(s.status == "completed" for s in neighbours)


class Odd(Exception):
    pass


calls: list[int] = []


async def breaks() -> None:
    calls.append(1)
    raise Odd("it broke: ☂")


async def gives_up() -> None:
    calls.append(1)
    raise GiveUp("no use")


async def hangs() -> None:
    calls.append(1)
    await asyncio.sleep(60)


@workflow
async def catches(ctx: Context, what: str) -> Any:
    fn = {"odd": breaks, "give-up": gives_up, "hang": hangs}[what]
    try:
        await ctx.step.run("bad", fn, retry=Retry(attempts=2, backoff=Backoff.fixed("1ms")), timeout="100ms")
    except StepFailed as failure:
        seen.append((type(failure), failure.step, failure.attempt, failure.type, failure.message, str(failure)))
    await ctx.step.sleep("nap", 0)
    return len(seen)


@pytest.mark.parametrize(
    ("what", "kind", "tries"), [("odd", StepFailed, 2), ("give-up", StepFailed, 1), ("hang", StepTimeout, 2)]
)
async def test_a_failure_is_the_same_the_first_time_and_on_replay(
    world: Any, what: str, kind: type, tries: int
) -> None:
    seen.clear()
    calls.clear()
    await world.worker(catches)
    run = await world.client.start(catches, what)
    await run.result(timeout=10)
    assert len(calls) == tries
    await (await world.copy(run, 1)).result(timeout=10)
    assert len(calls) == tries
    assert seen[0][0] is kind
    assert seen[0][2] == tries
    assert all(again == seen[0] for again in seen)


@workflow
async def changes_its_input(ctx: Context, order: dict[str, Any]) -> None:
    order["items"].append("more")


@workflow
async def changes_plain_input(ctx: Context, order) -> None:  # type: ignore[no-untyped-def]
    order["items"].append("more")


@pytest.mark.parametrize("flow", [changes_its_input, changes_plain_input], ids=lambda flow: str(flow.name))
async def test_a_plain_input_raises_when_it_is_changed(world: Any, flow: Workflow[Any, Any]) -> None:
    await world.worker(flow)
    run = await world.client.start(flow, {"items": []})
    with pytest.raises(RunFailed, match="OW104"):
        await run.result(timeout=10)


@workflow
async def forgets_to_await(ctx: Context) -> str:
    ctx.step.run("lost-one", fine, 1)
    return "done"


async def test_a_step_never_awaited_fails_the_run_by_name(world: Any) -> None:
    await world.worker(forgets_to_await)
    with pytest.raises(RunFailed) as caught:
        await (await world.client.start(forgets_to_await)).result(timeout=10)
    assert caught.value.error["type"] == "StepNotAwaited"
    assert "lost-one" in caught.value.error["message"]


@workflow
async def ends_with_a_step_running(ctx: Context) -> str:
    task = asyncio.create_task(ctx.step.run("slow", hangs))
    await ctx.step.run("quick", fine, 1)
    del task
    return "done"


@workflow
async def ends_with_a_sleep_beside(ctx: Context) -> None:
    async def sleeps() -> None:
        try:
            await ctx.step.sleep("long", "1h")
        finally:
            calls.append(2)
            await ctx.step.run("too late", fine, 1)

    await asyncio.gather(sleeps(), ctx.step.run("bad", gives_up))


async def test_what_waits_when_the_body_ends_is_cancelled_with_a_warning(world: Any, until: Any, caplog: Any) -> None:
    calls.clear()
    await world.worker(ends_with_a_sleep_beside)
    run = await world.client.start(ends_with_a_sleep_beside)
    with pytest.raises(RunFailed, match="no use"):
        await run.result(timeout=10)

    async def ended() -> bool:
        return calls == [1, 2]

    await until(ended)
    assert "the body ended while steps were running" in caplog.text
    assert [s.name for s in await run.steps()] == ["bad"]


async def test_a_step_still_running_at_the_end_is_cancelled_with_a_warning(world: Any, caplog: Any) -> None:
    await world.worker(ends_with_a_step_running)
    run = await world.client.start(ends_with_a_step_running)
    assert await run.result(timeout=10) == "done"
    assert "cancelled" in caplog.text
    assert [s.name for s in await run.steps()] == ["quick"]
