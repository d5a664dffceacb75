"""Values about which nothing was declared: exact, or refused with their place."""

from __future__ import annotations

import json
import math
import sys
import typing
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sample_types import Colour, Item, Level, Model, Opaque, Point, Struct, Word
from core.strategies import exactly, json_of, levels, nested, plain_json, scalars, texts
from onward.core.codec import PLAIN, codec
from onward.core.frozen import freeze
from onward.errors import InvalidInput

WHAT = "step 'charge'"


@given(plain_json)
def test_what_survives_survives_exactly(value: Any) -> None:
    data, seen = PLAIN.trip(value, WHAT)
    assert exactly(seen) == exactly(value)
    assert exactly(PLAIN.decode(data)) == exactly(value)
    assert PLAIN.encode(value, WHAT) == data


@given(json_of(st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts))
def test_what_is_written_is_json_for_any_reader(value: Any) -> None:
    assert json.loads(PLAIN.encode(value, WHAT)) == value


@given(plain_json)
def test_the_careful_writer_and_the_quick_one_write_the_same(value: Any) -> None:
    # A deep value takes the careful way: the depth must not show in the bytes of what is around it.
    deep = PLAIN.encode([value, nested(900)], WHAT)
    assert deep == b"[" + PLAIN.encode(value, WHAT) + b"," + b"[" * 900 + b"]" * 900 + b"]"
    assert exactly(PLAIN.decode(deep)[0]) == exactly(value)


@pytest.mark.parametrize("value", [1.0, -0.0, 1e308, 5e-324, 1e16, 1e22, 0.1 + 0.2, -1e-7, 123456789.123], ids=repr)
def test_floats_stay_floats_to_the_last_bit(value: float) -> None:
    seen = PLAIN.trip([value], WHAT)[1][0]
    assert type(seen) is float
    assert seen.hex() == value.hex()


@pytest.mark.parametrize("bits", [31, 63, 64, 100, 2000, 14_300, 40_000])
@pytest.mark.parametrize("type_", [Any, int, list[int], dict[str, int], int | None], ids=str)
def test_integers_of_any_size_are_exact(bits: int, type_: Any) -> None:
    limit = sys.get_int_max_str_digits()
    for number in (2**bits, -(2**bits) - 1):
        value: Any = {"list": [number], "dict": {"a": number}}.get(
            getattr(typing.get_origin(type_), "__name__", ""), number
        )
        data, seen = codec(type_).trip(value, WHAT)
        assert seen == value
        assert codec(type_).decode(data) == value
    assert sys.get_int_max_str_digits() == limit


def test_nul_characters_and_long_strings_are_exact() -> None:
    text = "a\0b" * 400_000
    assert PLAIN.trip({text: text}, WHAT)[1] == {text: text}


def test_tuples_become_lists_and_subclasses_their_base() -> None:
    class Text(str):
        __slots__ = ()

    class Number(int):
        pass

    class Share(float):
        pass

    given_value = {
        Text("text"): Text("x"),
        "number": Number(3),
        "share": Share(1.5),
        "tuple": (1, (2,)),
        "named": Point(1, 2),
        "default": defaultdict(list, a=[1]),
        "ordered": OrderedDict(b=1, a=2),
        "count": Counter("aab"),
        "frozen": freeze({"a": [1]}),
    }
    seen = PLAIN.trip(given_value, WHAT)[1]
    assert exactly(seen) == exactly(
        {
            "text": "x",
            "number": 3,
            "share": 1.5,
            "tuple": [1, [2]],
            "named": [1, 2],
            "default": {"a": [1]},
            "ordered": {"b": 1, "a": 2},
            "count": {"a": 2, "b": 1},
            "frozen": {"a": [1]},
        }
    )
    assert {type(x) for x in seen.values()} == {str, int, float, list, dict}


@given(st.dictionaries(st.integers(-(2**70), 2**70), scalars))
def test_integer_keys_become_strings(value: dict[int, Any]) -> None:
    assert PLAIN.trip(value, WHAT)[1] == {str(key): inner for key, inner in value.items()}


@pytest.mark.parametrize("type_", [Any, dict, dict[str, Any], Mapping[str, Any], dict[Any, Any]], ids=str)
def test_keys_that_become_one_are_refused(type_: Any) -> None:
    with pytest.raises(InvalidInput, match="step 'charge'"):
        codec(type_).encode({1: "a", "1": "b"}, WHAT)


BAD_LEAVES: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "lone surrogate": "a\ud800",
    "set": {1},
    "frozenset": frozenset(),
    "bytes": b"a",
    "bytearray": bytearray(b"a"),
    "dataclass": Item("a"),
    "Struct": Struct(1),
    "Model": Model(n=1),
    "Decimal": Decimal(1),
    "datetime": datetime(2030, 1, 1),
    "date": date(2030, 1, 1),
    "UUID": UUID(int=1),
    "Colour": Colour.RED,
    "Level": Level.LOW,
    "Word": Word.YES,
    "Opaque": Opaque(),
    "complex": 1j,
    "generator": (x for x in ()),
    "ValueError": ValueError("x"),
    "type": int,
}


@pytest.mark.parametrize("type_", [Any, dict, dict[str, Any], dict[str, Any] | None], ids=str)
@pytest.mark.parametrize(("name", "bad"), BAD_LEAVES.items(), ids=BAD_LEAVES)
def test_what_is_no_json_is_refused_with_its_place(name: str, bad: Any, type_: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        codec(type_).encode({"items": [1, {"price": bad}]}, WHAT)
    message = str(caught.value)
    assert message.startswith("step 'charge': ")
    assert "$.items[1].price" in message
    assert name in message
    assert len(message) < 500


@pytest.mark.parametrize("name", ["set", "bytes", "dataclass", "Decimal", "Colour", "Opaque"])
def test_a_refused_object_is_told_what_to_annotate(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"annotate the function's return type .*or pass type="):
        PLAIN.encode(BAD_LEAVES[name], WHAT)


@pytest.mark.parametrize("key", [True, None, 1.5, (1,), b"a", Colour.RED, Word.YES, date(2030, 1, 1)])
@pytest.mark.parametrize("type_", [Any, dict[str, Any]], ids=str)
def test_other_keys_are_refused(key: Any, type_: Any) -> None:
    with pytest.raises(InvalidInput, match=r"key of type .*\$\.a"):
        codec(type_).encode({"a": {key: 1}}, WHAT)


@pytest.mark.parametrize("type_", [Any, dict[str, int], dict], ids=str)
def test_a_lone_surrogate_in_a_key_is_refused(type_: Any) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        codec(type_).encode({"\udfff": 1}, WHAT)


def test_a_place_with_odd_keys_can_be_read() -> None:
    with pytest.raises(InvalidInput, match=r"`\$\['a b'\]\[0\]\.c`"):
        PLAIN.encode({"a b": [{"ok": 1, "c": math.nan}]}, WHAT)


@pytest.mark.parametrize("type_", [Any, list, list[Any], dict[str, Any] | list[Any] | None], ids=str)
def test_a_thousand_levels_survive_and_no_more(type_: Any) -> None:
    data, seen = codec(type_).trip(nested(1000), WHAT)
    assert data == b"[" * 1000 + b"]" * 1000
    assert levels(seen) == levels(codec(type_).decode(data)) == 1000
    with pytest.raises(InvalidInput, match=r"step 'charge': nested over 1,000 levels"):
        codec(type_).encode(nested(1001), WHAT)


def test_a_thousand_levels_survive_for_a_caller_who_stands_deep() -> None:
    value = {"a": nested(999)}

    def deeper(frames: int) -> Any:
        return deeper(frames - 1) if frames else PLAIN.trip(value, WHAT)[1]

    assert levels(deeper(700)["a"]) == 999


def test_a_value_that_contains_itself_is_refused() -> None:
    as_list: list[Any] = []
    as_list.append(as_list)
    as_dict: dict[str, Any] = {}
    as_dict["a"] = [as_dict]
    for type_ in (Any, list, dict, dict[str, list[Any]], list[list[Any]]):
        for value in (as_list, as_dict):
            with pytest.raises(InvalidInput, match=WHAT):
                codec(type_).encode(value, WHAT)


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"{", b"[1", b"[1,]", b'{"a"}', b'{"a":1,}', b"{1:2}", b"[1 2]", b"1 2", b"nul", b"NaN",
     b"01", b"'a'", b'"\\ud800"',
     b'"\\x"', b'"a', b'"\n"', b'"\xff"', b'"\xed\xa0\x80"', b"1e400", b"[", b"]", b",",
     b'{"a":[1}', b"[1}", b"\xef\xbb\xbf1", b'{,"a":1}', b'["a":1]', b"-", b"1.", b"[" * 1001 + b"]" * 1001,
     b"[" * 200_000],
    ids=repr,
)  # fmt: skip
def test_text_that_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="JSON"):
        PLAIN.decode(data)
    with pytest.raises(InvalidInput, match="JSON"):
        PLAIN.decode(b"[" * 990 + (data.strip() or b",") + b"]" * 990)


@given(json_of(scalars.filter(lambda x: not isinstance(x, int) or abs(x) < 2**1000)), st.integers(0, 3))
def test_json_of_other_writers_is_read_alike_at_any_depth(value: Any, indent: int) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=bool(indent % 2)).encode()
    assert exactly(PLAIN.decode(text)) == exactly(value)
    around = 1000 - levels_of(value)
    seen = PLAIN.decode(b"[" * around + text + b"]" * around)
    for _ in range(around):
        [seen] = seen
    assert exactly(seen) == exactly(value)


def levels_of(value: Any) -> int:
    if isinstance(value, (list, dict)):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(levels_of, inner), default=0)
    return 0


def test_integers_of_a_million_digits_do_not_take_minutes() -> None:
    number = 7**1_000_000
    assert PLAIN.trip([number], WHAT)[1] == [number]
