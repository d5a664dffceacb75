"""`jsonb` takes every text, and a search in it finds what a search in the original would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.strategies import exactly, few, plain_json
from onward.core.codec import PLAIN, contains, searchable

WHAT = "step 'charge'"


def unmapped(value: Any) -> Any:
    """The inverse of what `searchable` does to strings; that it exists proves that nothing is merged."""
    if isinstance(value, dict):
        return {unmapped(key): unmapped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [unmapped(inner) for inner in value]
    if isinstance(value, str):
        head, *rest = value.split("\ue000")
        return head + "".join({"0": "\0", "1": "\ue000"}[part[0]] + part[1:] for part in rest)
    return value


@given(plain_json, st.booleans())
def test_searchable_json_has_no_nul_and_merges_nothing(value: Any, escaped: bool) -> None:
    data = PLAIN.encode(value, WHAT)
    if escaped:
        data = data.replace("\ue000".encode(), b"\\uE000")
    text = searchable(data)
    mapped = PLAIN.decode(text.encode())
    assert "\0" not in str_of(mapped)
    assert exactly(unmapped(mapped)) == exactly(value)


def str_of(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(key + str_of(inner) for key, inner in value.items())
    return "".join(map(str_of, value)) if isinstance(value, list) else value if isinstance(value, str) else ""


@given(few, few)
def test_searching_what_is_mapped_finds_what_searching_the_original_does(value: Any, pattern: Any) -> None:
    def mapped(x: Any) -> Any:
        return PLAIN.decode(searchable(PLAIN.encode(x, WHAT)).encode())

    assert contains(mapped(value), mapped(pattern)) == contains(value, pattern)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\0b", '"a\ue0000b"'),
        ("\ue000", '"\ue0001"'),
        ("\\u0000", '"\\\\u0000"'),
        ("\\\0", '"\\\\\ue0000"'),
        ({"\0": "\ue0000"}, '{"\ue0000":"\ue00010"}'),
        ("plain", '"plain"'),
    ],
)
def test_nul_and_the_escape_character_are_mapped(value: Any, text: str) -> None:
    assert searchable(PLAIN.encode(value, WHAT)) == text


def test_numbers_that_jsonb_cannot_hold_become_a_marker() -> None:
    fits, huge = 10**99_999, 10**100_000
    untouched = ["9" * 200_000, '\\"' + "9" * 100_001]
    text = searchable(PLAIN.encode([fits, huge, -huge, huge, {"a": huge + 1}, *untouched], WHAT))
    kept, first, negative, again, inner, *rest = PLAIN.decode(text.encode())
    assert kept == fits
    assert first == again
    assert len({first, negative, inner["a"]}) == 3
    assert first.startswith("\ue000#")
    assert rest == untouched
