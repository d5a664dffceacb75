"""Objects of the payload store, for people: how large they are, and what stands for them in a line."""

from __future__ import annotations

from onward.core import pointers
from onward.core.pointers import Pointer


def size(count: int) -> str:
    """Bytes with about three digits: "512 B", "66.0 kB", "1.25 MB"."""
    value, units = float(count), iter(("B", "kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while value >= 999.5 and (larger := next(units, None)):
        value, unit = value / 1000, larger
    digits = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def brief(pointer: Pointer) -> str:
    """In place of a value that lies outside."""
    return f"→ {size(pointer.size)} {pointer.key}"


def shown(data: bytes) -> str:
    """A journalled value in one line: its JSON, or where it lies."""
    return brief(pointers.decode(data)) if pointers.is_pointer(data) else data.decode()
