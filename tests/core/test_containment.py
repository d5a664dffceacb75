"""Containment is that of `@>`, at any depth."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from core.strategies import few, nested, plain_json
from onward.core.codec import contains


@pytest.mark.parametrize(
    ("value", "pattern", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": 1}, {}, True),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        ([1, 2, 3], [3, 1], True),
        ([1, 2], [1, 1, 1], True),
        ([1, 2], [3], False),
        ([1], [], True),
        ([], [], True),
        ([[1, 2]], [[1]], True),
        ([[1, 2]], [1], False),
        ([1, [2]], [[2]], True),
        ([{"a": 1, "b": 2}, {"a": 2}], [{"a": 2}], True),
        ([{"a": 1}, {"b": 2}], [{"a": 1, "b": 2}], False),
        (["foo", "bar"], "bar", True),
        ("bar", ["bar"], False),
        ([["bar"]], "bar", False),
        ({"a": ["bar"]}, {"a": "bar"}, False),
        ([], None, False),
        ([None], None, True),
        ([{}], {}, False),
        ({}, [], False),
        ("a", [], False),
        ("foo", "foo", True),
        (1, 1.0, True),
        (True, 1, False),
        (1, True, False),
        (False, 0, False),
        (0, None, False),
        (0.0, -0.0, True),
        (10**23, 1e23, True),
        ("1", 1, False),
        ([True], [1], False),
        ({"a": [1, {"b": [2, 3]}]}, {"a": [{"b": [3]}]}, True),
    ],
)
def test_containment_is_that_of_jsonb(value: Any, pattern: Any, expected: bool) -> None:
    assert contains(value, pattern) is expected


def recursively(value: Any, pattern: Any) -> bool:
    """The definition, as in Postgres's manual, without care for depth."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(k in value and recursively(value[k], p) for k, p in pattern.items())
    if isinstance(pattern, list):
        return isinstance(value, list) and all(any(recursively(v, p) for v in value) for p in pattern)
    return isinstance(value, bool) == isinstance(pattern, bool) and value == pattern


@given(few, few)
def test_containment_follows_its_definition(value: Any, pattern: Any) -> None:
    bare = isinstance(value, list) and not isinstance(pattern, (list, dict))
    assert contains(value, pattern) == recursively(value, [pattern] if bare else pattern)


@given(plain_json)
def test_everything_contains_itself_and_its_parts(value: Any) -> None:
    assert contains(value, value)
    if isinstance(value, dict):
        assert all(contains(value, {key: inner}) for key, inner in value.items())
    if isinstance(value, list):
        assert all(contains(value, [inner]) for inner in value)


def test_huge_numbers_are_compared() -> None:
    assert contains([10**5000], 10**5000)
    assert not contains([10**5000], [10**5000 + 1])
    assert not contains([10**5000], 1.5)
    assert not contains([1.5], 10**5000)


def test_containment_goes_a_thousand_levels_deep() -> None:
    assert contains(nested(1000), nested(1000))
    assert not contains(nested(999), nested(1000))
