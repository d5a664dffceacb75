"""Which codec a type gets, and what is said of a type that gets none."""

from __future__ import annotations

import typing
from typing import Annotated, Any
from uuid import UUID

import pytest

from core.sample_types import Item, Model, Opaque, Order, Other
from onward.core.codec import PLAIN, codec
from onward.errors import InvalidInput

WHAT = "step 'charge'"


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Opaque, Opaque()),
        (Opaque, {}),
        (list[Opaque], [1]),
        (Opaque | int, 1),
        (Item | Order, Item("a")),
        (typing.NoReturn, 1),
        (typing.Iterator[int], [1]),
        (complex, 1j),
        (Annotated[list[int], []], {}),  # type: ignore[misc]
        ("Unknown", 1),
    ],
    ids=str,
)
def test_an_annotation_without_support_says_what_is_supported(type_: Any, value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^step 'charge': ") as caught:
        codec(type_).encode(value, WHAT)
    if value not in ({}, [1]) and not isinstance(value, (Opaque, complex)):
        assert "supported are plain JSON, dataclasses" in str(caught.value)


@pytest.mark.parametrize("type_", [int, Item, Model, list[Model], Model | Other, Opaque | int, dict, UUID])
@pytest.mark.parametrize("data", [b'"x"', b"[[", b"", b'"\xff"'])
def test_stored_bytes_that_fit_no_more_are_refused_clearly(type_: Any, data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"does not fit|supported|not JSON"):
        codec(type_).decode(data)


def test_a_codec_is_kept_and_the_order_of_asking_does_not_matter() -> None:
    assert codec(Order) is codec(Order)
    assert codec(Any) is codec() is codec(object) is PLAIN
    assert codec(list[int]) is not codec(list[str])


def test_a_type_with_no_hash_is_supported_but_not_kept() -> None:
    type_ = Annotated[int, ["no hash"]]
    assert codec(type_).trip(5, WHAT)[1] == 5
