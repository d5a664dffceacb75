"""What `ctx.step` refuses when it is called, before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from onward import Client, Context, Worker, workflow
from onward.errors import InvalidInput, InvalidName


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
