"""Values of a declared type come back equal and of their type, or do not fit and say where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sample_types import (
    Checked,
    Colour,
    Item,
    Level,
    Mixed,
    Model,
    Order,
    Other,
    Point,
    Struct,
    T,
    Typed,
    UserId,
    Word,
)
from core.strategies import exactly, json_of, scalars, texts
from onward.core.codec import PLAIN, codec
from onward.errors import InvalidInput

WHAT = "step 'charge'"

aware = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]))
decimals = st.decimals(allow_nan=False)
a_little = json_of(scalars, max_leaves=5)
keys = st.text(max_size=5).filter(lambda x: x.isprintable())
TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (str, texts),
    (bool, st.booleans()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (None, st.none()),
    (datetime, st.datetimes() | aware),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, st.timedeltas()),
    (UUID, st.uuids()),
    (Decimal, decimals),
    (bytes, st.binary()),
    (bytearray, st.binary().map(bytearray)),
    (Colour, st.just(Colour.RED)),
    (Level, st.just(Level.LOW)),
    (Word, st.just(Word.YES)),
    (Literal["a", "b", 3], st.sampled_from(["a", "b", 3])),
    (set[int], st.sets(st.integers())),
    (frozenset[str], st.frozensets(texts)),
    (set[datetime], st.sets(aware)),
    (tuple[int, str], st.tuples(st.integers(), texts)),
    (tuple[int, ...], st.lists(st.integers()).map(tuple)),
    (list[bytes], st.lists(st.binary())),
    (dict[int, str], st.dictionaries(st.integers(), texts)),
    (dict[UUID, date], st.dictionaries(st.uuids(), st.dates())),
    (dict[str, Decimal], st.dictionaries(texts, decimals)),
    (int | str | None, st.integers() | texts | st.none()),
    (Optional[Item], st.none() | st.builds(Item, keys)),  # noqa: UP045  what users still write
    (Order, st.builds(Order, st.uuids(), aware, st.lists(st.builds(Item, keys)), decimals)),
    (Struct, st.builds(Struct, st.integers(), st.binary())),
    (Point, st.builds(Point, st.integers(), st.integers())),
    (Typed, st.fixed_dictionaries({"a": st.integers()}, optional={"b": st.floats(0, 1)})),
    (UserId, st.integers()),
    (Annotated[int, "cents"], st.integers()),
    (dict[str, Any], st.dictionaries(texts, a_little)),
    (dict, st.dictionaries(texts, a_little)),
    (list[dict[str, Any]], st.lists(st.dictionaries(texts, a_little))),
    (Model, st.builds(Model, n=st.integers(), at=st.none() | aware, tags=st.sets(st.integers()))),
    (list[Model], st.lists(st.builds(Model, n=st.integers(), at=st.none() | aware))),
    (Model | None, st.none() | st.builds(Model, n=st.integers())),
    (Model | Other, st.builds(Other, other=texts) | st.builds(Model, n=st.integers())),
    (Mixed, st.builds(Mixed, st.builds(Model, n=st.integers()), st.just({"a": Model(n=1)}))),
    (Checked, st.builds(Checked, st.integers(1), st.frozensets(texts))),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values"), TYPED, ids=[str(type_) for type_, _ in TYPED])
def test_a_typed_value_comes_back_equal_and_of_its_type(type_: Any, values: st.SearchStrategy[Any]) -> None:
    @given(values)
    def law(value: Any) -> None:
        data, seen = codec(type_).trip(value, WHAT)
        assert seen == value
        assert type(seen) is type(value)
        again = codec(type_).decode(data)
        assert again == value
        assert type(again) is type(value)
        assert codec(type_).encode(value, WHAT) == data
        assert codec(type_).decode(codec(type_).encode(seen, WHAT)) == value
        PLAIN.decode(data)

    law()


def test_the_scale_of_a_decimal_and_the_offset_of_a_datetime_are_kept() -> None:
    for text in ("1.10", "1E+5", "-0.00", "1e-400"):
        assert str(codec(Decimal).trip(Decimal(text), WHAT)[1]) == str(Decimal(text))
    local = datetime(2030, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    for type_ in (datetime, list[datetime], Model):
        value: Any = {datetime: local, Model: Model(n=1, at=local)}.get(type_, [local])
        seen = codec(type_).trip(value, WHAT)[1]
        seen = seen[0] if isinstance(seen, list) else getattr(seen, "at", seen)
        assert seen.replace(tzinfo=None) == local.replace(tzinfo=None)
        assert seen.utcoffset() == local.utcoffset() == timedelta(hours=1)


def test_bytes_are_base64() -> None:
    assert codec(bytes).encode(b"\xff\0", WHAT) == b'"/wA="'


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        (int, "a", "Expected `int`, got `str`"),
        (int, True, "Expected `int`, got `bool`"),
        (int, 1.0, "Expected `int`, got `float`"),
        (str, None, "Expected `str`, got `null`"),
        (dict, [], "Expected `object`, got `array`"),
        (dict[str, int], {"age": "x"}, r"Expected `int`, got `str` - at `\$\[...\]`"),
        (list[Item], [Item("a"), Item(3)], r"Expected `str`, got `int` - at `\$\[1\].name`"),  # type: ignore[arg-type]
        (Item, {"price": 1}, "missing required field `name`"),
        (Literal["a"], "b", "Invalid enum value 'b'"),
        (Model, {"n": "x"}, "valid integer"),
        (list[Model], [{"n": "x"}], "valid integer"),
        (Checked, {"n": 0}, "greater than 0"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(type_: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=rf"(?s)^step 'charge': .*does not fit.*{message}"):
        codec(type_).encode(value, WHAT)


def test_equal_sets_encode_the_same_whatever_their_history() -> None:
    @dataclass
    class Tagged:
        tags: set[str]
        by: frozenset[int] | None = None

    names = [f"tag-{n}" for n in range(50)]
    makers: dict[Any, Any] = {
        set[str]: set,
        Tagged: lambda x: Tagged(set(x)),
        list[set[str]]: lambda x: [set(x)],
    }
    for type_, make in makers.items():
        assert codec(type_).encode(make(names), WHAT) == codec(type_).encode(make(names[::-1]), WHAT)
        assert codec(type_).encode(make(["b", "a"]), WHAT) == codec(type_).encode(make(["a", "b"]), WHAT)
    assert codec(set[int]).encode({8, 0}, WHAT) == codec(set[int]).encode({0, 8}, WHAT) == b"[0,8]"


@pytest.mark.parametrize(
    ("type_", "value", "seen"),
    [
        (float, 1, 1.0),
        (datetime, "2030-01-01T00:00:00Z", datetime(2030, 1, 1, tzinfo=UTC)),
        (Item, {"name": "a"}, Item("a")),
        (list[Item], ({"name": "a"},), [Item("a")]),
        (Order, {"id": UUID(int=1), "at": datetime(2030, 1, 1)}, Order(UUID(int=1), datetime(2030, 1, 1))),
        (tuple[int, int], Point(1, 2), (1, 2)),
        (set[int], [1, 1], {1}),
        (frozenset[int], {1}, frozenset({1})),
        (int, Level.LOW, 1),
        (str, Word.YES, "yes"),
        (Model, {"n": 1}, Model(n=1)),
        (dict[str, int], {1: 2}, {"1": 2}),
        (Sequence[int], (1, 2), [1, 2]),
        (T, [1], [1]),
    ],
)
def test_json_and_close_relatives_are_read_as_what_was_declared(type_: Any, value: Any, seen: Any) -> None:
    data, decoded = codec(type_).trip(value, WHAT)
    assert exactly(decoded) == exactly(seen)
    assert codec(type_).decode(data) == seen


def test_deep_typed_values_are_refused_and_do_not_crash() -> None:
    value = None
    for _ in range(5000):
        value = Node(value)
    with pytest.raises(InvalidInput, match=WHAT):
        codec(Node).encode(value, WHAT)
    del value


class Node(msgspec.Struct, eq=False):
    inner: Node | None = None
