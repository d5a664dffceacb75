from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.strategies import plain_json
from onward.core import pointers
from onward.core.codec import PLAIN
from onward.core.pointers import Pointer
from onward.errors import PayloadCorrupt

SHA = "0123456789abcdef" * 4
POINTER = Pointer("onward/a%20b.json", SHA, 66_000, pointers.JSON)

sizes = st.integers(0, 1 << 62)
any_pointer = st.builds(
    Pointer,
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    sizes,
    st.sampled_from([pointers.JSON, pointers.TEXT, pointers.BINARY]),
)


def test_a_pointer_is_journalled_exactly_so() -> None:
    assert pointers.encode(POINTER) == (
        b'{"$payload":{"key":"onward/a%20b.json","sha256":"' + SHA.encode() + b'","size":66000,'
        b'"contentType":"application/json"}}'
    )


@given(any_pointer, st.booleans())
def test_a_pointer_comes_back_and_its_hint_with_it(pointer: Pointer, held: bool) -> None:
    data = pointers.encode(pointer, held=held)
    assert pointers.is_pointer(data)
    assert pointers.is_held(data) is held
    assert pointers.decode(data) == pointer
    assert json.loads(data) == json.loads(pointers.encode(pointer, held=not held))


values = plain_json | st.dictionaries(st.sampled_from(["$payload", "$payload ", "payload"]), plain_json, min_size=1)


@given(values)
def test_no_value_of_a_user_is_ever_taken_for_a_pointer(value: object) -> None:
    data = PLAIN.encode(value, "value")
    journalled = pointers.literal(data)
    assert not pointers.is_pointer(journalled)
    assert not pointers.is_held(journalled)
    assert PLAIN.decode(journalled) == PLAIN.decode(data)


def test_only_what_looks_like_a_pointer_is_changed() -> None:
    assert pointers.literal(b'{"$payload":1}') == b' {"$payload":1}'
    assert pointers.literal(pointers.encode(POINTER)) == b" " + pointers.encode(POINTER)
    for data in (b"null", b'{"a":{"$payload":1}}', b'{ "$payload":1}', b'{"$payload ":1}', b""):
        assert pointers.literal(data) is data


def test_a_value_that_ends_in_a_newline_is_not_held() -> None:
    assert not pointers.is_held(b"[1]\n")


@pytest.mark.parametrize(
    "damage",
    [
        {"sha256": SHA[:-1]},
        {"sha256": SHA.upper()},
        {"sha256": SHA + "\n"},
        {"size": -1},
        {"size": "1"},
        {"key": None},
        {"contentType": 1},
    ],
)
def test_a_pointer_that_cannot_be_right_is_not_followed(damage: dict[str, object]) -> None:
    good = msgspec.json.decode(pointers.encode(POINTER))
    with pytest.raises(PayloadCorrupt, match="cannot be read"):
        pointers.decode(msgspec.json.encode({"$payload": good["$payload"] | damage}))


def test_half_a_pointer_is_not_followed() -> None:
    with pytest.raises(PayloadCorrupt, match="cannot be read"):
        pointers.decode(pointers.encode(POINTER)[:-1])
