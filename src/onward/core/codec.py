"""Values to bytes and back: what a body sees the first time is what it sees on a replay.

A journalled value is JSON text. Every value makes the trip when it is journalled, and the body is given the
decoded one, so there is nothing that a replay could find changed: what does not survive the trip is refused
before it is sent, with the step and the place inside the value in the error.

Two kinds of codec keep that promise, and the declared type decides which:

- *Plain*, where nothing was declared: JSON and nothing else (`plain`, with its `plain_writer` and `plain_reader`).
- *Typed*, where a function says what it returns (`declarations`): msgspec decodes by the annotation (`typed`),
  pydantic by its own rules (`pydantic_models`). The decoded value is compared with the original, which finds
  whatever got lost (`losses`).

This is the door to all of it: the other layers import from here, and from none of the rooms behind.
"""

from __future__ import annotations

import types
import typing
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from onward.core.canonical_json import canonical
from onward.core.containment import contains
from onward.core.declarations import input_type, return_type
from onward.core.encoding import DEEPEST, Codec
from onward.core.plain import PLAIN
from onward.core.pydantic_models import Pydantic
from onward.core.ref import Ref, Referred
from onward.core.refusals import no_support
from onward.core.search_text import searchable
from onward.core.typed import Shaped, Typed
from onward.errors import InvalidInput

__all__ = [
    "DEEPEST",
    "PLAIN",
    "Codec",
    "Ref",
    "Referred",
    "canonical",
    "codec",
    "codec_of",
    "contains",
    "input_type",
    "is_plain",
    "return_type",
    "searchable",
]

_SHAPES: dict[Any, type] = {t: t for t in (dict, list, str, int, bool, types.NoneType)} | {
    dict[str, Any]: dict,
    dict[str, object]: dict,
    list[Any]: list,
    list[object]: list,
}


def codec(type_: Any = Any) -> Codec:
    """The codec of a type, kept for the next time; an unsupported one says so at the first value. That of `Ref[T]` is a
    `Referred` around that of T."""
    if type_ is Any or type_ is object:
        return PLAIN
    if type_ is Ref or typing.get_origin(type_) is Ref:
        return Referred(codec(*typing.get_args(type_)))
    try:
        return _kept(type_) if _hashable(type_) else _make(type_)
    except Exception as error:  # not kept: a name that is not defined yet may be later
        return _Unsupported(type_, error)


_of: WeakKeyDictionary[Any, Codec] = WeakKeyDictionary()


def codec_of(fn: Any) -> Codec:
    """The codec of what a function returns: asked at every call of a step, so it is kept for plain functions."""
    try:
        return _of[fn]
    except (KeyError, TypeError):
        how = codec(return_type(fn))
    if type(fn) is types.FunctionType and fn.__closure__ is None and not isinstance(how, _Unsupported):
        _of[fn] = how  # not for closures: see declarations.py
    return how


def is_plain(how: Codec) -> bool:
    """Does it give plain JSON: nothing was declared, or only which JSON it is (`dict`, `list[Any] | None`)?"""
    return how is PLAIN or isinstance(how, Shaped)


def _hashable(type_: Any) -> bool:
    try:
        hash(type_)
    except TypeError:
        return False
    return True


@lru_cache(maxsize=2048)
def _kept(type_: Any) -> Codec:
    return _make(type_)


def _make(type_: Any) -> Codec:
    if hasattr(type_, "__pydantic_validator__"):
        return Pydantic(type_)
    shapes = _shapes(type_)
    if shapes is not None:
        return Shaped(type_, shapes)
    try:
        return Typed(type_)
    except TypeError:
        if _mentions_pydantic(type_):
            return Pydantic(type_)
        raise


def _shapes(type_: Any) -> frozenset[type] | None:
    union = typing.get_origin(type_) in (typing.Union, types.UnionType)
    members = typing.get_args(type_) if union else (type_,)
    try:
        return frozenset(_SHAPES[member] for member in members)
    except (KeyError, TypeError):
        return None


def _mentions_pydantic(type_: Any) -> bool:
    return hasattr(type_, "__pydantic_validator__") or any(map(_mentions_pydantic, typing.get_args(type_)))


class _Unsupported(Codec):
    """Stands for an annotation that nothing can decode: it is refused when a value first needs it."""

    __slots__ = ("_reason",)

    def __init__(self, type_: Any, reason: object) -> None:
        super().__init__(type_)
        self._reason = reason

    def trip(self, value: Any, what: str) -> tuple[bytes, Any]:
        raise InvalidInput(f"{what}: {self._message()}")

    def decode(self, data: bytes) -> Any:
        raise InvalidInput(self._message())

    def _message(self) -> str:
        return f"{no_support(self.type)} ({self._reason})"
