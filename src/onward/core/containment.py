"""Containment as `@>` has it in Postgres, for values at hand.

The database's answer is the authoritative one, so this one must agree with it, oddities included: a list contains a
bare scalar, but only at the top, and numbers are compared as they are written and not as floats.

Not recursive, for the same reason as `plain_reader`: the stack of the caller must not decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

_Question = bool | tuple[bool, Iterator[Any]]  # the answer, or (all of these, or any of these)


def contains(value: Any, pattern: Any) -> bool:
    """Whether plain JSON contains a pattern, as `value @> pattern` says in Postgres.

    A dict contains the keys of the pattern with values that contain the pattern's; a list contains each
    element of the pattern in some element, in any order and any number. At the top, and only there, a list
    also contains a bare scalar.
    """
    if isinstance(value, list) and not isinstance(pattern, (list, dict)):
        return _answer(_among(value, pattern))
    return _answer(_contains(value, pattern))


def _answer(question: _Question) -> bool:
    asked: list[tuple[bool, Iterator[Any]]] = []
    while True:
        if not isinstance(question, bool):
            asked.append(question)
        elif not asked:
            return question
        elif question is not asked[-1][0]:  # one No settles "all of these", one Yes "any of these"
            asked.pop()
            continue
        every, rest = asked[-1]
        following: _Question | None = next(rest, None)
        if following is None:
            asked.pop()
            question = every
        else:
            question = following


def _contains(value: Any, pattern: Any) -> _Question:
    if isinstance(pattern, dict):
        if not isinstance(value, dict) or not value.keys() >= pattern.keys():
            return False
        return True, (_contains(value[key], inner) for key, inner in pattern.items())
    if isinstance(pattern, list):
        if not isinstance(value, list):
            return False
        return True, (_among(value, inner) for inner in pattern)
    return not isinstance(value, (dict, list)) and _alike(value, pattern)


def _among(items: list[Any], pattern: Any) -> _Question:
    return False, (_contains(item, pattern) for item in items)


def _alike(value: Any, pattern: Any) -> bool:
    if isinstance(value, bool) or isinstance(pattern, bool):
        return value is pattern
    if isinstance(value, float) != isinstance(pattern, float):
        return _written(value) == _written(pattern) is not None
    return bool(value == pattern)


def _written(value: Any) -> Decimal | None:
    # Postgres compares what is written: 1e23 is 10**23 there, but to Python it is the nearest float.
    if isinstance(value, float):
        return Decimal(repr(value))
    return Decimal(value) if isinstance(value, int) and value.bit_length() < 1100 else None
