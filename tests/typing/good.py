"""What an editor must accept, and which types it must know. Checked by test_types.py, never executed."""

import asyncio
from dataclasses import dataclass
from typing import assert_type

from onward import Backoff, Client, Context, Ref, Retry, RunHandle, Start, Worker, Workflow, workflow


@dataclass
class Signup:
    email: str


async def create(email: str) -> dict[str, int]:
    return {"id": len(email)}


def render(user: dict[str, int], times: int = 1) -> str:
    return str(user) * times


@workflow(name="onboard-user", version=1, retention="30d")
async def onboard(ctx: Context, signup: Signup) -> int:
    user = await ctx.step.run("create", create, signup.email)
    assert_type(user, dict[str, int])
    text = await ctx.step.run("render", render, user, retry=Retry(attempts=5, backoff=Backoff.exponential("2s")))
    assert_type(text, str)
    typed = await ctx.step.run("typed", lambda: {"email": "x"}, type=Signup, timeout="30s")
    assert_type(typed, Signup)
    rows = await ctx.step.run("rows", create, "x", ref=True)
    assert_type(rows, Ref[dict[str, int]])
    assert_type(await rows.load(), dict[str, int])
    event = await ctx.step.wait_for_event("verify", type=Signup, timeout="7d")
    assert_type(event, Signup | None)
    both = await asyncio.gather(ctx.step.run("a", create, "x"), ctx.step.run("b", render, user))
    assert_type(both, tuple[dict[str, int], str])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ctx.step.run("c", create, "y"))
    assert_type(task.result(), dict[str, int])
    length = await ctx.step.invoke("child", measure, "abc")
    assert_type(length, int)
    assert_type(await ctx.step.start("free", measure, "abc"), str)
    return user["id"]


@workflow
async def measure(ctx: Context, text: str) -> int:
    return len(text)


@workflow
async def bare(ctx: Context) -> None: ...


assert_type(onboard, Workflow[Signup, int])
assert_type(bare, Workflow[None, None])


async def main() -> None:
    async with Client() as client, Worker([onboard, measure]):
        run = await client.start(onboard, Signup("a@b.c"), idempotency_key="user-42")
        assert_type(run, RunHandle[int])
        assert_type(await run.result(timeout=60), int)
        many = await client.start_many(measure, [Start("a"), Start("b", idempotency_key="k")])
        assert_type(many, list[RunHandle[int]])
        async for found in await client.runs(onboard, status="running"):
            print(found.id)
