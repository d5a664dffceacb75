"""The workflows that are measured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from onward import Context, workflow


async def noop() -> dict[str, Any]:
    return {"i": 1, "ok": True}


@workflow
async def steps(ctx: Context, n: int) -> int:
    """n steps in a row."""
    for i in range(n):
        await ctx.step.run(f"s{i}", noop)
    return n


@workflow
async def steps_then_signal(ctx: Context, n: int) -> int:
    for i in range(n):
        await ctx.step.run(f"s{i}", noop)
    await ctx.step.wait_for_event("go")
    return n


@workflow
async def sleeper(ctx: Context, due: float) -> None:
    """Sleeps until a moment of this machine's clock, which is the database's here."""
    await ctx.step.sleep_until("nap", datetime.fromtimestamp(due, UTC))
