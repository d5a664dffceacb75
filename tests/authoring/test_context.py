"""What `ctx.step` refuses when it is called, before anything is written."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from onward import Client, Context, Worker, workflow
from onward.errors import InvalidInput, InvalidName, RunFailed


@workflow
async def misnaming(ctx: Context, how: list[Any]) -> str:
    verb, child = how
    try:
        await getattr(ctx.step, verb)("child", body if child == "a function" else child)
    except (InvalidName, InvalidInput) as error:
        return type(error).__name__
    return "started"


async def body(ctx: Context) -> None: ...


@pytest.mark.parametrize("verb", ["start", "invoke"])
@pytest.mark.parametrize(("child", "refused"), [("Bad Name", "InvalidName"), ("a function", "InvalidInput")])
async def test_a_child_that_nobody_could_serve_is_not_started(url: str, verb: str, child: str, refused: str) -> None:
    async with Worker(misnaming, url), Client(url) as client:
        run = await client.start(misnaming, [verb, child])
        assert await run.result(timeout=10) == refused
        assert [found.id async for found in client.runs()] == [run.id]


@workflow
async def waiting(ctx: Context) -> str:
    try:
        await ctx.step.wait_for_event("verify", name="", timeout=0)
    except InvalidName:
        return "refused"
    return "waited"


async def test_a_wait_with_an_empty_name_is_refused(url: str) -> None:
    async with Worker(waiting, url), Client(url) as client:
        assert await (await client.start(waiting)).result(timeout=10) == "refused"


@workflow
async def mistaken(ctx: Context, what: str) -> str:
    step: Any = ctx.step
    calls = {
        "retry": lambda: step.run("a", len, [], retry=3),
        "match": lambda: step.wait_for_event("e", match=[1, 2]),
        "race": lambda: step.race("r", good=step.sleep("s", 1), bad=len),
    }
    try:
        await calls[what]()
    except InvalidInput as error:
        return str(error)
    return "taken"


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    ("what", "says"),
    [("retry", "retry=Retry(attempts=3)"), ("match", 'match={"userId": 42}'), ("race", "'bad' must be a coroutine")],
)
async def test_a_mistaken_argument_is_told_what_to_write(url: str, what: str, says: str) -> None:
    async with Worker(mistaken, url), Client(url) as client:
        if what == "race":  # the good branch was made, and nobody awaits it
            with pytest.raises(RunFailed, match="never awaited"):
                await (await client.start(mistaken, what)).result(timeout=10)
        else:
            assert says in await (await client.start(mistaken, what)).result(timeout=10)


@workflow
async def sleeps_at_the_ends_of_the_calendar(ctx: Context) -> str:
    await ctx.step.sleep_until("long ago", datetime.min.replace(tzinfo=timezone(timedelta(hours=5))))
    branch, _ = await ctx.step.race(
        "race",
        never=ctx.step.sleep_until("never", datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))),
        soon=ctx.step.sleep("soon", 0),
    )
    return branch


async def test_a_sleep_may_end_at_the_ends_of_the_calendar(url: str) -> None:
    async with Worker(sleeps_at_the_ends_of_the_calendar, url), Client(url) as client:
        assert await (await client.start(sleeps_at_the_ends_of_the_calendar)).result(timeout=10) == "soon"
