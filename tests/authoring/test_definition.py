"""What `@workflow` takes, and what it refuses."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from onward import Client, Context, Worker, workflow
from onward.errors import InvalidInput, InvalidName, RunFailed


async def body(ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("function", "name"),
    [("charge_card", "charge-card"), ("charge_", "charge-"), ("_charge", "charge"), ("__x_", "x-")],
)
def test_a_workflow_is_called_as_its_function_with_hyphens(function: str, name: str) -> None:
    async def body(ctx: Context) -> None: ...

    body.__name__ = function
    assert workflow(body).name == name


@pytest.mark.parametrize("name", ["", "Charge", 5])
def test_a_name_that_is_given_is_taken_or_refused_but_never_replaced(name: Any) -> None:
    with pytest.raises(InvalidName, match="lower-case"):
        workflow(name=name)(body)
    with pytest.raises(InvalidName, match="lower-case"):
        workflow(name)(body)


def test_a_time_limit_over_30_minutes_warns_where_it_is_written() -> None:
    with pytest.warns(UserWarning, match="'body'.*OW108.*wait_for_event") as caught:
        workflow(step_timeout="45m")(body)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert workflow(step_timeout="30m")(body).step_timeout == 1800


@pytest.mark.parametrize("limit", [0, "0s", 0.0])
def test_a_time_limit_of_nothing_is_refused(limit: Any) -> None:
    with pytest.raises(InvalidInput, match="more than nothing"):
        workflow(step_timeout=limit)(body)


@workflow
async def counts(ctx: Context, step: int = 7) -> int:
    return step + 1


@workflow
async def counts_twice(ctx: Context) -> list[int]:
    return [await ctx.step.invoke("usual", counts), await ctx.step.invoke("given", counts, 1)]


async def test_an_input_that_has_a_default_may_be_left_out(url: str) -> None:
    async with Worker([counts, counts_twice], url), Client(url) as client:
        assert await (await client.start(counts)).result(timeout=10) == 8
        assert await (await client.start("counts")).result(timeout=10) == 8
        assert await (await client.start(counts, 1)).result(timeout=10) == 2
        assert await (await client.start(counts_twice)).result(timeout=10) == [8, 2]


async def test_an_input_that_does_not_fit_is_called_the_input(url: str) -> None:
    async with Worker(counts, url), Client(url) as client:
        with pytest.raises(RunFailed, match=r"the input of workflow .counts.*int"):
            await (await client.start("counts", "seven")).result(timeout=10)
