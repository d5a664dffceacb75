"""The words in which a value is refused: what was there, at which place inside the value, what to do instead.

The writer finds what is no JSON, the comparison afterwards what JSON changed; to the user both are one mistake,
so both tell it alike. The place is what counts: "a set cannot be stored" helps nobody who returned a tree of a
thousand nodes. Long places are cut in the middle, because the ends are what one looks for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Label = str | int
"""One step into a value: a key, a field's name or an index."""

ADVICE = (
    "annotate the function's return type (dataclass, msgspec Struct, pydantic model, datetime, UUID, "
    "Decimal, bytes, enum, set, ...), or pass type="
)
FINITE = "JSON has no NaN and no infinities; use None or a string"


def type_name(type_: Any) -> str:
    return type_.__qualname__ if isinstance(type_, type) else repr(type_)


def place(path: Iterable[Label]) -> str:
    labels = [f"[{x}]" if isinstance(x, int) else f".{x}" if x.isidentifier() else f"[{x!r}]" for x in path]
    shown = "$" + "".join(labels)
    return shown if len(shown) <= 200 else f"{shown[:100]} ... {shown[-80:]}"


def no_support(type_: Any) -> str:
    return (
        f"values cannot be stored as {type_name(type_)}; supported are plain JSON, dataclasses, msgspec Structs, "
        "pydantic models, TypedDict, NamedTuple, datetime, date, time, timedelta, UUID, Decimal, bytes, "
        "enums, set, frozenset, tuple, list and dict of them, Optional, and unions that JSON tells apart"
    )
