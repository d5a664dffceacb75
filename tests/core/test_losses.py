"""What JSON cannot carry is refused and named, never changed in silence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from core.sample_types import Colour, Item, Model, Other, Struct, Typed, Word
from onward.core.codec import codec
from onward.errors import InvalidInput

WHAT = "step 'charge'"
NAMED = rf"^{WHAT}: "


def test_an_offset_that_iso_8601_cannot_write_is_refused() -> None:
    odd = datetime(1880, 1, 1, tzinfo=timezone(timedelta(minutes=53, seconds=28)))
    for value in (odd, [odd]):
        with pytest.raises(InvalidInput, match="would come back as another datetime"):
            codec(datetime if value is odd else list[datetime]).encode(value, WHAT)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (list[int], {1, 2}),
        (str, datetime(2030, 1, 1)),
        (str, UUID(int=1)),
        (str, b"abcd"),
        (dict[str, Any], Item("a")),
        (dict, Struct(1)),
        (list[Any], [{1}]),
        (Any | None, {1}),
        (dict[str, list[Any]], {"a": [b"abcd"]}),
        (Mapping[str, Any], {"a": Decimal(1)}),
        (Model, Model(n=1, anything={1})),
        (list[Model], [Model(n=1, anything=datetime(2030, 1, 1))]),
        (Typed, {"a": 1, "unknown": 2}),
        (Decimal, Decimal("NaN")),
        (Decimal, Decimal("sNaN")),
        (dict[str, Colour], {"a": Word.YES}),
    ],
)
def test_nothing_is_changed_or_lost_in_silence(type_: Any, value: Any) -> None:
    with pytest.raises(InvalidInput, match=NAMED):
        codec(type_).encode(value, WHAT)


def test_a_subclass_does_not_come_back_as_its_base() -> None:
    @dataclass
    class More(Item):
        extra: int = 1

    class MoreModel(Model):
        extra: int = 1

    for type_, value in ((Item, More("a")), (list[Item], [More("a")]), (Model, MoreModel(n=1))):
        with pytest.raises(InvalidInput, match=WHAT):
            codec(type_).encode(value, WHAT)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("type_", "make"),
    [
        (float, lambda x: x),
        (float | None, lambda x: x),
        (Item, lambda x: Item("a", x)),
        (list[Item], lambda x: [Item("a", x)]),
        (Item, lambda x: {"name": "a", "price": x}),
        (set[float | None], lambda x: {x}),
        (set[float | None], lambda x: [x]),
        (dict[str, float | None], lambda x: {"a": x}),
        (Model, lambda x: Model(n=1, share=x)),
        (Model, lambda x: Model(n=1, anything=[x])),
        (list[Model], lambda x: [Model(n=1, share=x)]),
        (Model | Other, lambda x: Model(n=1, share=x)),
    ],
)
def test_nan_is_refused_and_named(type_: Any, make: Callable[[float], Any], bad: float) -> None:
    with pytest.raises(InvalidInput, match=NAMED):
        codec(type_).encode(make(bad), WHAT)


def test_nan_is_named_and_not_the_null_that_it_became() -> None:
    with pytest.raises(InvalidInput, match=r"nan at `\$\[1\]\.share` cannot be stored: JSON has no NaN"):
        codec(list[Priced]).encode([Priced(1.0), Priced(math.nan)], WHAT)


@dataclass
class Priced:
    share: float


def test_nan_is_found_in_fields_that_are_left_out_of_comparison() -> None:
    @dataclass
    class Blind:
        price: float | None = field(default=None, compare=False)

    with pytest.raises(InvalidInput, match=r"nan at `\$\.price`"):
        codec(Blind).encode(Blind(math.nan), WHAT)
