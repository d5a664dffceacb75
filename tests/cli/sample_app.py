"""Workflows that come to rest in every state that a run can be in."""

from __future__ import annotations

import asyncio
from typing import Any

from onward import Backoff, Context, Retry, workflow


def double(number: int) -> int:
    return 2 * number


def break_down(why: str) -> None:
    raise ConnectionError(why)


@workflow
async def doubling(ctx: Context, number: int) -> int:
    return await ctx.step.run("double", double, number)


@workflow
async def gate(ctx: Context, match: dict[str, Any]) -> Any:
    await ctx.step.run("knock", double, 1)
    return await ctx.step.wait_for_event("verify", match=match, timeout="2h")


@workflow
async def nap(ctx: Context) -> None:
    await ctx.step.sleep("a long night", "8h")


@workflow
async def flaky(ctx: Context) -> None:
    await ctx.step.run("call-stripe", break_down, "no route", retry=Retry(attempts=5, backoff=Backoff.fixed("40s")))


@workflow
async def doomed(ctx: Context) -> None:
    await ctx.step.run("prepare", double, 1)
    await ctx.step.run("charge", break_down, "card declined", retry=Retry(attempts=1))


@workflow
async def parent(ctx: Context) -> Any:
    return await ctx.step.invoke("ask the gate", gate, {"userId": 42})


@workflow
async def nested(ctx: Context) -> int:
    async def outer() -> int:
        return await ctx.step.run("内側", double, 2)

    return await ctx.step.run("外側", outer)


@workflow
async def deep(ctx: Context) -> int:
    async def b() -> int:
        return await ctx.step.run("c", double, 2)

    async def a() -> int:
        return await ctx.step.run("b", b)

    return await ctx.step.run("a", a)


@workflow
async def busy(ctx: Context) -> None:
    await ctx.step.run("begin", double, 1)
    await ctx.step.run("compute", asyncio.sleep, 60)


MANY = [doubling, nap]
