"""Equal inputs have one canonical text, different ones two."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.strategies import exactly, few, nested, plain_json
from onward.core.codec import PLAIN, canonical

WHAT = "step 'charge'"


@given(plain_json, st.randoms())
def test_canonical_json_is_the_same_for_equal_inputs_only(value: Any, chance: Any) -> None:
    data = PLAIN.encode(value, WHAT)
    assert canonical(PLAIN.encode(shuffled(value, chance), WHAT)) == canonical(data)
    assert exactly(PLAIN.decode(canonical(data))) == exactly(value)
    assert canonical(canonical(data)) == canonical(data)


@given(few, few)
def test_canonical_json_tells_different_inputs_apart(one: Any, two: Any) -> None:
    same = canonical(PLAIN.encode(one, WHAT)) == canonical(PLAIN.encode(two, WHAT))
    assert same == (exactly(one) == exactly(two))


@given(plain_json)
def test_canonical_json_does_not_depend_on_depth(value: Any) -> None:
    flat = canonical(PLAIN.encode([value], WHAT))
    deep = canonical(PLAIN.encode([value, nested(990)], WHAT))
    assert deep[: len(flat) - 1] == flat[:-1]


def test_canonical_json_keeps_numbers_as_they_are() -> None:
    assert canonical(b'{"b": 1, "a": [1.0, 1e2, -0.0]}') == b'{"a":[1.0,100.0,-0.0],"b":1}'
    assert canonical('{"😀":1,"\uffff":2,"z":3,"":4}'.encode()) == '{"":4,"z":3,"\uffff":2,"😀":1}'.encode()


def shuffled(value: Any, chance: Any) -> Any:
    if isinstance(value, dict):
        members = [(key, shuffled(inner, chance)) for key, inner in value.items()]
        chance.shuffle(members)
        return dict(members)
    return [shuffled(inner, chance) for inner in value] if isinstance(value, list) else value
