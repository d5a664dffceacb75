"""What a client refuses before it reaches the database, and what it leaves as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from onward import Client, Context, Start, Worker, workflow
from onward.errors import InvalidInput, PayloadTooLarge
from rest import serving


@pytest.fixture(params=["database", "server"])
async def client(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        there = url if request.param == "database" else (await stack.enter_async_context(serving(url, auth="none"))).url
        yield await stack.enter_async_context(Client(there))


@workflow
async def steps(ctx: Context) -> list[str]:
    return [await ctx.step.run(name, str, name) for name in ("a", "b")]


async def nothing_was_started(client: Client) -> bool:
    return [run async for run in client.runs()] == []


@pytest.mark.parametrize("version", [0, -1, 2**31, True, 1.0, "1"])
@pytest.mark.parametrize("what", [steps, "steps"], ids=["workflow", "name"])
async def test_a_version_that_no_workflow_can_have_is_refused(client: Client, what: Any, version: Any) -> None:
    with pytest.raises(InvalidInput, match="version"):
        await client.start(what, version=version)
    with pytest.raises(InvalidInput, match="version"):
        await client.start_many(what, [Start(), Start(version=version)])
    assert await nothing_was_started(client)


async def test_the_highest_version_is_taken(client: Client) -> None:
    run = await client.start("steps", version=2**31 - 1)
    assert (await run.get()).version == 2**31 - 1


@pytest.mark.parametrize("key", ["", "a\x00b", "\ud800", "x" * 513, "ä" * 257, 5])
async def test_an_idempotency_key_that_cannot_be_kept_is_refused(client: Client, key: Any) -> None:
    with pytest.raises(InvalidInput, match="idempotency key"):
        await client.start("steps", idempotency_key=key)
    assert await nothing_was_started(client)


@pytest.mark.usefixtures("no_store")
async def test_a_replaced_output_may_be_as_large_as_any_value(client: Client, url: str) -> None:
    async with Worker(steps, url):
        run = await client.start(steps)
        await run.result(timeout=10)
        with pytest.raises(PayloadTooLarge, match="the output of 'a'"):
            await client.rerun(run.id, from_step="b", with_outputs={"a": "x" * (1 << 20)})
        again = await client.rerun(run.id, from_step="b", with_outputs={"a": "x" * ((1 << 20) - 2)})
        assert (await again.steps())[0].output == "x" * ((1 << 20) - 2)


# ---- the input filter ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1])
async def test_a_filter_takes_paths_and_what_is_nested_together(client: Client, order: int) -> None:
    """... in any order, and leaves what it was given as it was."""
    run = await client.start("steps", {"user": {"id": 1, "name": "x", "more": 0}})
    for other in ({"id": 1, "name": "y"}, {"id": 2, "name": "x"}):
        await client.start("steps", {"user": other})
    user = {"id": 1}
    wanted = dict([("user", user), ("user.name", "x")][::order])
    assert [found.id async for found in client.runs(input=wanted)] == [run.id]
    assert (wanted, user) == ({"user": {"id": 1}, "user.name": "x"}, {"id": 1})


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    "pair", [[("a", 1), ("a.b", 2)], [("a", {"b": 1}), ("a.b", 2)], [("a", {"b": 1}), ("a.b.c", 2)]]
)
async def test_a_filter_that_contradicts_itself_is_refused(client: Client, pair: list[Any], order: int) -> None:
    with pytest.raises(InvalidInput, match="two things"):
        client.runs(input=dict(pair[::order]))
