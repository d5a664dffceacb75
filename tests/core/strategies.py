"""Generated values that several tests share."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["", "\0", "\ue000", "\ue0000", "\\u0000", "\\", '"', "\u2028", "a\0b", "\ue0001", "\x7f"]
)
huge = st.sampled_from([63, 64, 1000, 15_000]).map(lambda bits: 2**bits + 1)
integers = st.integers() | huge | huge.map(lambda value: -value)
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | integers | floats | texts
"""What JSON has at its leaves, the awkward ones included."""


def json_of(leaves: st.SearchStrategy[Any], max_leaves: int = 30) -> st.SearchStrategy[Any]:
    """Plain JSON over the given leaves."""
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=max_leaves)


plain_json = json_of(scalars)

few = json_of(st.sampled_from([None, True, False, 0, 1, 1.0, "a", "\0", "\ue000"]), max_leaves=8)
"""JSON from so few leaves that two of them often have something in common."""


def exactly(value: Any) -> Any:
    """The value with its types beside it, so that 1, 1.0 and True, and 0.0 and -0.0, are told apart."""
    if isinstance(value, dict):
        return {key: exactly(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [exactly(inner) for inner in value]
    return type(value), value.hex() if isinstance(value, float) else value


def nested(levels: int) -> Any:
    """A list in a list in a list ..."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def levels(value: Any) -> int:
    """How deep `nested` went."""
    count = 0
    while isinstance(value, list):
        count += 1
        value = value[0] if value else None
    return count
