"""The codec of declared types: msgspec decodes by the annotation, and the result is compared with the original.

An annotation is a claim, and nothing makes Python keep it: a function that says `Item` may return a subclass with a
field more, which would come back without it. So each value is decoded at once, while the step that made it can still
be told, and `losses` looks for what is missing.

What msgspec would not write or read, huge integers above all, takes the long way through plain JSON.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import msgspec.inspect

from onward.core.encoding import Codec, may_be_deep
from onward.core.losses import compare
from onward.core.plain import PLAIN
from onward.core.plain_reader import UNREADABLE, read
from onward.core.refusals import no_support, type_name
from onward.errors import InvalidInput


class Typed(Codec):
    __slots__ = ("_decoder", "_encoder")

    def __init__(self, type_: Any) -> None:
        super().__init__(type_)
        self._decoder = msgspec.json.Decoder(type_, dec_hook=_from_json)
        # The order of a set differs between processes, and an input that is sent again must encode the same.
        # The price: in a type with sets, dicts come back with their keys sorted.
        order: Any = "deterministic" if _has_sets(type_) else None
        self._encoder = msgspec.json.Encoder(enc_hook=_to_json, order=order)

    def trip(self, value: Any, what: str) -> tuple[bytes, Any]:
        try:
            data = self._encoder.encode(value)
        except (TypeError, ValueError, RecursionError):
            data = _write_typed(value, what, self._encoder.order)
        try:
            decoded = self._load(data)
        except InvalidInput as error:
            _write_typed(value, what, self._encoder.order)  # a NaN, by now a null, gets its own message
            raise InvalidInput(f"{what}: the value does not fit {type_name(self.type)}: {error}") from None
        compare(value, decoded, data, what)
        return data, decoded

    def decode(self, data: bytes) -> Any:
        try:
            return self._load(data)
        except InvalidInput as error:
            raise InvalidInput(f"the stored value does not fit {type_name(self.type)}: {error}") from None

    def _load(self, data: bytes) -> Any:
        if may_be_deep(data):
            read(data)
        try:
            return self._decoder.decode(data)
        except UNREADABLE:
            tree = read(data)
        try:
            return msgspec.convert(tree, self.type, str_keys=True, dec_hook=_from_json)
        except msgspec.MsgspecError as error:
            raise InvalidInput(str(error)) from None
        except RecursionError:
            raise InvalidInput("nested too deep for a typed value") from None


class Shaped(Typed):
    """A type that only says which plain JSON a value may be: `dict`, `str`, `list[Any] | None`."""

    __slots__ = ("_shapes",)

    def __init__(self, type_: Any, shapes: frozenset[type]) -> None:
        super().__init__(type_)
        self._shapes = shapes

    def trip(self, value: Any, what: str) -> tuple[bytes, Any]:
        return PLAIN.trip(value, what) if type(value) in self._shapes else super().trip(value, what)

    def decode(self, data: bytes) -> Any:
        value = PLAIN.decode(data)
        return value if type(value) in self._shapes else super().decode(data)


_PARTS = (msgspec.inspect.Type, msgspec.inspect.Field)


class _Unstorable(TypeError):
    """Says which type msgspec met and could not write."""


def _to_json(value: Any) -> Any:
    """Called by msgspec for what it does not know."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__add__(value, 0)
    if isinstance(value, float):
        return float.__pos__(value)
    raise _Unstorable(type(value))


def _from_json(type_: Any, value: Any) -> Any:
    """Called by msgspec for annotations that it does not know."""
    if type_ is object or (isinstance(type_, type) and isinstance(value, type_)):
        return value
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(type_, type) and issubclass(type_, pydantic.BaseModel):
        validate = type_.model_validate_json  # type: ignore[attr-defined]  # pydantic is optional
        return validate(PLAIN.encode(value, "value"))
    raise TypeError(no_support(type_))


def _has_sets(type_: Any) -> bool:
    seen: list[Any] = [msgspec.inspect.type_info(type_)]
    for part in seen:
        if isinstance(part, (msgspec.inspect.SetType, msgspec.inspect.FrozenSetType)):
            return True
        for name in part.__struct_fields__:
            inner = getattr(part, name)
            parts = inner if isinstance(inner, tuple) else (inner,)
            seen += [x for x in parts if isinstance(x, _PARTS) and not any(x is y for y in seen)]
    return False


def _write_typed(value: Any, what: str, order: Any) -> bytes:
    """Writes what msgspec would not: huge integers pass, the rest gets an error that says where it is."""
    known: tuple[type, ...] = ()
    while True:
        try:
            tree = msgspec.to_builtins(value, str_keys=True, enc_hook=_to_json, builtin_types=known, order=order)
        except _Unstorable as error:
            known += error.args  # let it pass, for the writer to find the place
        except RecursionError:
            raise InvalidInput(f"{what}: nested too deep for a typed value, or contains itself") from None
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{what}: {error}") from None
        else:
            return PLAIN.encode(tree, what)
