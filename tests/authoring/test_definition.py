"""What `@workflow` takes, and what it refuses."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from onward import Context, workflow
from onward.errors import InvalidInput, InvalidName


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
