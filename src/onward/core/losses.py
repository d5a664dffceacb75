"""What a typed value lost on its way to JSON and back, and where.

To ask whether the two are equal is not enough in either direction. Equality is blind for fields left out of
comparison, where a NaN may have become a null (`test_nan_is_found_in_fields_that_are_left_out_of_comparison`); and it
says no to what is meant to change, such as the string "2030-01-01" that was declared to be a date. So both are walked
side by side down to the leaves: of the same type they must be equal, of another they must have been JSON before.
"""

from __future__ import annotations

import dataclasses
import math
from datetime import datetime, time
from types import NoneType
from typing import Any

from onward.core.numerals import digits
from onward.core.refusals import ADVICE, FINITE, Label, place, type_name
from onward.errors import InvalidInput

_Pair = tuple[Any, Any, Any]  # the original, what came back, and the way there: (way to the parent, label)


def compare(value: Any, decoded: Any, data: bytes, what: str) -> None:
    """Raises `InvalidInput` for the first place where a value did not come back as it was."""
    # Equality is deep and quick, but blind for fields left out of comparison; there a NaN would be a null.
    if type(value) is type(decoded) and b"null" not in data and _equal(value, decoded):
        return
    lost = _difference(value, decoded)
    if lost is None:
        return
    original, twin, way = lost
    path: list[Label] = []
    while way is not None:
        way, label = way
        path.insert(0, label)
    if isinstance(original, float) and not math.isfinite(original):
        raise InvalidInput(f"{what}: {original!r} at `{place(path)}` cannot be stored: {FINITE}")
    got, back = type_name(type(original)), type_name(type(twin))
    raise InvalidInput(
        f"{what}: a value of type {got} at `{place(path)}` would come back as "
        f"{'another' if got == back else 'one of type'} {back}: {ADVICE}"
    )


def _difference(value: Any, decoded: Any) -> _Pair | None:
    """The first place that differs."""
    pairs: list[_Pair] = [(value, decoded, None)]
    while pairs:
        original, twin, way = pairs.pop()
        inner = _inside(original, twin, way)
        if inner is not None:
            pairs.extend(inner)
        elif not _same(original, twin):
            return original, twin, way
    return None


def _inside(original: Any, twin: Any, way: Any) -> list[_Pair] | None:
    if isinstance(original, dict) and isinstance(twin, dict):
        if len(original) != len(twin) or not all(map(_same_key, original, twin)):
            return None
        return [(a, b, (way, key)) for a, (key, b) in zip(original.values(), twin.items(), strict=True)]
    if isinstance(original, (list, tuple)) and isinstance(twin, (list, tuple)):
        if len(original) != len(twin):
            return None
        return [(a, b, (way, i)) for i, (a, b) in enumerate(zip(original, twin, strict=True))]
    if type(original) is not type(twin):
        return None
    names = _fields(type(original))
    if not names:
        return None
    return [(getattr(original, n, None), getattr(twin, n, None), (way, n)) for n in names]


def _fields(type_: Any) -> list[str] | None:
    if dataclasses.is_dataclass(type_):
        return [field.name for field in dataclasses.fields(type_)]
    if hasattr(type_, "__struct_fields__"):
        return list(type_.__struct_fields__) or None
    return [*type_.model_fields, "__pydantic_extra__"] if hasattr(type_, "model_fields") else None


def _same_key(original: Any, twin: Any) -> bool:
    if type(original) is int and type(twin) is str:
        return digits(original).decode() == twin
    return isinstance(original, str) or bool(original == twin)


def _same(original: Any, twin: Any) -> bool:
    if type(original) is type(twin) or not isinstance(original, (str, int, float, list, tuple, dict, NoneType)):
        return _equal(original, twin)
    if isinstance(original, dict) and isinstance(twin, dict):
        return False
    return _finite(original)  # JSON that was read as what it stands for, such as "2030-01-01" as a date


def _equal(original: Any, twin: Any) -> bool:
    if isinstance(original, (datetime, time)) and isinstance(twin, type(original)):
        # Moments in the hour that a zone repeats equal nothing outside of it.
        bare = original.replace(tzinfo=None) == twin.replace(tzinfo=None)
        return bare and original.utcoffset() == twin.utcoffset()
    try:
        return bool(original == twin)
    except Exception:
        return False


def _finite(value: Any) -> bool:
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if isinstance(value, (list, tuple, set, frozenset)):
            values.extend(value)
        elif isinstance(value, dict):
            values.extend(value.values())
    return True
