"""Plain JSON written with care: of any depth, with a place for whatever does not belong in JSON.

msgspec alone would not do. It writes NaN as `null`, sets as arrays and dataclasses as objects without a word, and
gives up on integers of more than 4,300 digits and on nesting near Python's recursion limit, which depends on how
deep the caller stands. This writer keeps its stack on the heap, so depth is decided by `DEEPEST` and nothing else,
and beside it the way to where it stands, which is the place that an error names.

It is slow. `plain` comes here only with what msgspec might change; both write the same bytes
(`test_the_careful_writer_and_the_quick_one_write_the_same`), so which of them wrote a value never shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec

from onward.core.encoding import DEEPEST
from onward.core.numerals import digits
from onward.core.refusals import ADVICE, FINITE, Label, place, type_name
from onward.errors import InvalidInput

_encode = msgspec.json.Encoder().encode

_Step = tuple[Label, bytes, Any]


class Writer:
    """Writes plain JSON of any depth, and knows where it is when something does not belong there."""

    def __init__(self, what: str, *, in_order: bool = False) -> None:
        self._what, self._in_order = what, in_order
        self._parts: list[bytes] = []
        self._open: list[tuple[Iterator[_Step], bytes]] = []
        self._path: list[Label] = []

    def write(self, value: Any) -> bytes:
        self._put(value)
        while self._open:
            steps, end = self._open[-1]
            self._path.pop()
            for label, before, inner in steps:
                self._path.append(label)
                self._parts.append(before)
                self._put(inner)
                break
            else:
                self._open.pop()
                self._parts.append(end)
        return b"".join(self._parts)

    def _put(self, value: Any) -> None:
        if isinstance(value, dict):
            self._enter(b"{", self._members(value), b"}")
        elif isinstance(value, (list, tuple)):
            self._enter(b"[", self._items(value), b"]")
        else:
            self._parts.append(self._scalar(value))

    def _enter(self, start: bytes, steps: Iterator[_Step], end: bytes) -> None:
        if len(self._open) == DEEPEST:
            raise self._invalid(f"nested over {DEEPEST:,} levels deep, or contains itself,", "flatten it")
        self._parts.append(start)
        self._open.append((steps, end))
        self._path.append("")  # stands for the step before the first

    def _items(self, values: Iterable[Any]) -> Iterator[_Step]:
        for index, value in enumerate(values):
            yield index, b"," if index else b"", value

    def _members(self, value: dict[Any, Any]) -> Iterator[_Step]:
        members: dict[str, Any] = {}
        for key, inner in value.items():
            text = self._key(key)
            if text in members:
                raise self._invalid(f"two keys that are both {text[:80]!r} in JSON", "keep one of them")
            members[text] = inner
        comma = b""
        for text in sorted(members) if self._in_order else members:
            yield text, comma + _encode(text) + b":", members[text]
            comma = b","

    def _key(self, key: Any) -> str:
        if isinstance(key, str) and not isinstance(key, Enum):
            return str.__str__(self._whole(key))
        if isinstance(key, int) and not isinstance(key, (bool, Enum)):
            return digits(key).decode()
        raise self._invalid(f"a key of type {type_name(type(key))}", f"use strings as keys, or {ADVICE}")

    def _scalar(self, value: Any) -> bytes:
        if value is None or isinstance(value, bool):
            return _encode(value)
        if isinstance(value, Enum):
            raise self._invalid(f"a value of type {type_name(type(value))}", ADVICE)
        if isinstance(value, str):
            return _encode(str.__str__(self._whole(value)))
        if isinstance(value, int):
            return digits(value)
        if isinstance(value, float):
            return self._float(value)
        raise self._invalid(f"a value of type {type_name(type(value))}", ADVICE)

    def _float(self, value: float) -> bytes:
        if not math.isfinite(value):
            raise self._invalid(float.__repr__(value), FINITE)
        return _encode(float.__pos__(value))

    def _whole(self, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            advice = 'it is no valid Unicode; clean it with text.encode(errors="replace").decode()'
            raise self._invalid("a string with a lone surrogate", advice) from None
        return text

    def _invalid(self, problem: str, advice: str) -> InvalidInput:
        return InvalidInput(f"{self._what}: {problem} at `{place(self._path)}` cannot be stored: {advice}")
