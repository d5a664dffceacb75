"""What a function declares is found through wrappers, methods and closures; the rest is Any."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial, wraps
from typing import Annotated, Any

import msgspec
import pytest

from core.sample_types import Item, Order
from onward.core.codec import codec, input_type, return_type
from onward.errors import InvalidInput

WHAT = "step 'charge'"


def test_the_annotation_of_a_function_is_its_type() -> None:
    async def order() -> Order: ...  # type: ignore[empty-body]

    def nothing() -> None: ...

    def silent(): ...  # type: ignore[no-untyped-def]

    class Service:
        def charge(self) -> dict[str, int]: ...  # type: ignore[empty-body]

        @classmethod
        def make(cls) -> set[int]: ...  # type: ignore[empty-body]

        @staticmethod
        def load() -> Item: ...  # type: ignore[empty-body]

        def __call__(self) -> Decimal: ...  # type: ignore[empty-body]

    service = Service()
    assert return_type(order) is Order
    assert return_type(nothing) is type(None)
    assert return_type(silent) is Any
    assert return_type(lambda: 1) is Any
    assert return_type(service.charge) == dict[str, int]
    assert return_type(Service.make) == set[int]
    assert return_type(Service.load) is Item
    assert return_type(service) is Decimal
    assert return_type(partial(partial(order))) is Order
    assert return_type(partial(service.charge)) == dict[str, int]
    assert return_type(partial(service)) is Decimal
    assert return_type(len) is Any
    assert return_type(str.upper) is Any
    assert return_type(Item) is Item
    assert return_type(math.floor) is Any
    assert return_type(object()) is Any


def test_an_annotation_survives_wrapping() -> None:
    def noisy(fn: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fn)
        def inner(*args: Any) -> Any:
            return fn(*args)

        return inner

    @noisy
    def order(unknown: Nowhere) -> list[Item]: ...  # type: ignore[name-defined,empty-body]  # noqa: F821

    @lru_cache
    def cached() -> list[Item]: ...  # type: ignore[empty-body]

    for fn in (order, cached):
        assert return_type(fn) == list[Item]
        assert return_type(fn) == list[Item]


def test_what_cannot_be_resolved_is_any() -> None:
    def unknown() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    assert return_type(unknown) is Any


def test_a_class_of_the_function_around_is_found() -> None:
    @dataclass
    class Local:
        a: int

    def make() -> list[Local]:
        return [Local(1)]

    assert return_type(make) == list[Local]
    assert codec(return_type(make)).trip(make(), WHAT)[1] == [Local(1)]


def test_annotated_keeps_its_extras() -> None:
    def age() -> Annotated[int, msgspec.Meta(ge=0)]: ...  # type: ignore[empty-body]

    with pytest.raises(InvalidInput, match="Expected `int` >= 0"):
        codec(return_type(age)).encode(-1, WHAT)


def test_the_second_parameter_of_a_body_is_its_input() -> None:
    async def body(ctx: Nowhere, order: Order) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    async def bare(ctx, order): ...  # type: ignore[no-untyped-def]

    async def alone(ctx: object) -> None: ...

    async def rest(ctx: object, *more: int) -> None: ...

    async def named(ctx: object, *, order: int) -> None: ...

    class Flow:
        async def run(self, ctx: object, order: Order | None) -> None: ...

    assert input_type(body) is Order
    assert input_type(bare) is input_type(alone) is input_type(rest) is input_type(named) is Any
    assert input_type(Flow().run) == Order | None
    assert input_type(partial(body)) is Order
    assert input_type(len) is input_type(dict) is Any
