"""Values to bytes and back: what a body sees the first time is what it sees on a replay.

A journalled value is JSON text. Every value makes the trip when it is journalled, and the body is given the
decoded one, so there is nothing that a replay could find changed: what does not survive the trip is refused
before it is sent, with the step and the place inside the value in the error.

Two kinds of codec keep that promise:

- *Plain*, where nothing was declared: JSON and nothing else. msgspec alone would not do here. It writes NaN
  as `null`, sets as arrays and dataclasses as objects without a word, and gives up on integers of more than
  4,300 digits and on nesting near Python's recursion limit, which depends on how deep the caller stands. So
  values that msgspec surely writes exactly are recognised first (`_ready`), and everything else goes through
  a writer and a reader of our own that keep their stack on the heap.
- *Typed*, where a function says what it returns: msgspec decodes by the annotation, pydantic by its own
  rules. The decoded value is compared with the original, which finds whatever got lost (`_difference`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from datetime import datetime, time
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from enum import Enum
from functools import lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import msgspec.inspect

from onward.errors import InvalidInput

DEEPEST = 1000
"""Levels of lists and dicts that a value may have."""

_ADVICE = (
    "annotate the function's return type (dataclass, msgspec Struct, pydantic model, datetime, UUID, "
    "Decimal, bytes, enum, set, ...), or pass type="
)
_FINITE = "JSON has no NaN and no infinities; use None or a string"
_NONE_TYPE = type(None)


class Codec:
    """The encoding of one type. Get it with `codec(type)`."""

    __slots__ = ("type",)

    def __init__(self, type_: Any) -> None:
        self.type = type_

    def encode(self, value: Any, what: str) -> bytes:
        """The value's JSON, if it comes back as it was; `what` names it in errors ("step 'charge'")."""
        return self.trip(value, what)[0]

    def trip(self, value: Any, what: str) -> tuple[bytes, Any]:
        """The value's JSON, and the value as a replay will see it."""
        raise NotImplementedError

    def decode(self, data: bytes) -> Any:
        """The value; `InvalidInput` where the stored bytes do not fit the type of today."""
        raise NotImplementedError


# --- plain JSON ---------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
_SAFE = frozenset({str, int, bool, _NONE_TYPE})
_STRINGS = frozenset({str})


class _Plain(Codec):
    __slots__ = ()

    def encode(self, value: Any, what: str) -> bytes:
        if value is None:
            return b"null"
        try:
            if type(value) in _SAFE or _ready(value, 50):
                return _encode(value)
        except (ValueError, RecursionError):  # a huge integer or a lone surrogate; a deep caller
            pass
        return _Writer(what).write(value)

    def trip(self, value: Any, what: str) -> tuple[bytes, Any]:
        if value is None:
            return b"null", None
        data = self.encode(value, what)
        return data, value if type(value) in _SAFE else self.decode(data)

    def decode(self, data: bytes) -> Any:
        try:
            return _decode(data)
        except _UNREADABLE:
            return _read(data)


def _ready(value: Any, room: int) -> bool:
    """Whether msgspec writes this exactly, or says that it cannot: a quick look, False when in doubt."""
    if isinstance(value, dict):
        if not _STRINGS.issuperset(map(type, value)):
            return False
        inner: Iterable[Any] = value.values()
    elif isinstance(value, (list, tuple)):
        inner = value
    else:
        return type(value) in _SAFE or (type(value) is float and math.isfinite(value))
    return _SAFE.issuperset(map(type, inner)) or (room > 0 and all(_ready(item, room - 1) for item in inner))


_Label = str | int
_Step = tuple[_Label, bytes, Any]


class _Writer:
    """Writes plain JSON of any depth, and knows where it is when something does not belong there."""

    def __init__(self, what: str, *, in_order: bool = False) -> None:
        self._what, self._in_order = what, in_order
        self._parts: list[bytes] = []
        self._open: list[tuple[Iterator[_Step], bytes]] = []
        self._path: list[_Label] = []

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
            return _digits(key).decode()
        raise self._invalid(f"a key of type {_name(type(key))}", f"use strings as keys, or {_ADVICE}")

    def _scalar(self, value: Any) -> bytes:
        if value is None or isinstance(value, bool):
            return _encode(value)
        if isinstance(value, Enum):
            raise self._invalid(f"a value of type {_name(type(value))}", _ADVICE)
        if isinstance(value, str):
            return _encode(str.__str__(self._whole(value)))
        if isinstance(value, int):
            return _digits(value)
        if isinstance(value, float):
            return self._float(value)
        raise self._invalid(f"a value of type {_name(type(value))}", _ADVICE)

    def _float(self, value: float) -> bytes:
        if not math.isfinite(value):
            raise self._invalid(float.__repr__(value), _FINITE)
        return _encode(float.__pos__(value))

    def _whole(self, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            advice = 'it is no valid Unicode; clean it with text.encode(errors="replace").decode()'
            raise self._invalid("a string with a lone surrogate", advice) from None
        return text

    def _invalid(self, problem: str, advice: str) -> InvalidInput:
        return InvalidInput(f"{self._what}: {problem} at `{_place(self._path)}` cannot be stored: {advice}")


def _digits(value: int) -> bytes:
    try:
        return _encode(int.__add__(value, 0))
    except ValueError:
        sign = "-" if value < 0 else ""
        return f"{sign}{_decimal(abs(value), value.bit_length()):f}".encode()


# Integers over sys.get_int_max_str_digits(). The guard is there because str() and int() take time that grows
# with the square of the length, and so do Decimal(int) and int(Decimal): half a minute for a million digits.
# Halving the number first, and multiplying the halves, does not; so the guard can be done without, untouched.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_EASY = 600  # digits or bits that any setting of the guard lets pass


def _decimal(value: int, bits: int) -> Decimal:
    if bits <= _EASY:
        return Decimal(value)
    low = bits // 2
    upper = _EXACT.multiply(_decimal(value >> low, bits - low), _EXACT.power(Decimal(2), Decimal(low)))
    return _EXACT.add(upper, _decimal(value & (1 << low) - 1, low))


def _integer(digits: str) -> int:
    if len(digits) <= _EASY:
        return int(digits)
    low = len(digits) // 2
    shift: int = 10**low
    return _integer(digits[:-low]) * shift + _integer(digits[-low:])


def _name(type_: Any) -> str:
    return type_.__qualname__ if isinstance(type_, type) else repr(type_)


def _place(path: Iterable[_Label]) -> str:
    labels = [f"[{x}]" if isinstance(x, int) else f".{x}" if x.isidentifier() else f"[{x!r}]" for x in path]
    shown = "$" + "".join(labels)
    return shown if len(shown) <= 200 else f"{shown[:100]} ... {shown[-80:]}"


_TOKEN = re.compile(
    r"""[ \t\n\r]*(?:([\[\]{},:])|("(?:[^"\\\x00-\x1f]++|\\.)*+")"""
    r"""|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)|\Z)"""
)
_EXPECTED = {
    "value": '[{"0',
    "item": '[{"0]',  # the first of a list, if any
    "member": '"}',  # the first of a dict, if any
    "key": '"',
    "colon": ":",
    "after item": ",]",
    "after member": ",}",
    "end": "",
}


def _read(data: bytes | str) -> Any:
    """Reads plain JSON of any depth: what msgspec could not read, or should not be expected to."""
    # Not recursive, as other readers are: the stack of the caller must not decide what can be read.
    root: list[Any] = []
    open_: list[Any] = [root]
    key: Any = None
    state = "value"
    for kind, token in _tokens(data):
        if kind not in _EXPECTED[state]:
            raise _malformed(f"unexpected {token[:40]!r}")
        if kind == ":":
            state = "value"
        elif kind == ",":
            state = "value" if isinstance(open_[-1], list) else "key"
        elif kind in "]}":
            open_.pop()
            state = _after(open_)
        elif state in ("key", "member"):
            key, state = _leaf(token), "colon"
        else:
            value: Any = [] if kind == "[" else {} if kind == "{" else _leaf(token)
            _hang(open_[-1], key, value)
            if kind in "[{":
                open_.append(value)
            state = _after(open_) if kind in '"0' else "item" if kind == "[" else "member"
        if len(open_) > DEEPEST + 1:
            raise InvalidInput(f"JSON nested over {DEEPEST:,} levels deep")
    if state != "end":
        raise _malformed("it ends too early")
    return root[0]


def _tokens(data: bytes | str) -> Iterator[tuple[str, str]]:
    try:
        text = data if isinstance(data, str) else bytes(data).decode()
    except UnicodeDecodeError as error:
        raise _malformed(str(error)) from None
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _malformed(f"unexpected {text[at : at + 40].strip()!r}")
        mark, string, other = match.groups()
        if mark or string or other:
            yield (mark or ('"' if string else "0")), mark or string or other
        at = match.end()


def _after(open_: list[Any]) -> str:
    return "end" if len(open_) == 1 else "after item" if isinstance(open_[-1], list) else "after member"


def _hang(box: Any, key: Any, value: Any) -> None:
    if isinstance(box, list):
        box.append(value)
    else:
        box[key] = value


def _leaf(token: str) -> Any:
    try:
        return _decode(token)
    except _UNREADABLE as error:
        if token.isdecimal():
            return _integer(token)
        if token[1:].isdecimal():
            return -_integer(token[1:])
        raise _malformed(f"{error} in {token[:40]!r}") from None


def _malformed(reason: str) -> InvalidInput:
    return InvalidInput(f"this is not JSON that Onward can store: {reason}")


# --- typed values -------------------------------------------------------------------------------------


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
        return f"{_no_support(self.type)} ({self._reason})"


def _no_support(type_: Any) -> str:
    return (
        f"values cannot be stored as {_name(type_)}; supported are plain JSON, dataclasses, msgspec Structs, "
        "pydantic models, TypedDict, NamedTuple, datetime, date, time, timedelta, UUID, Decimal, bytes, "
        "enums, set, frozenset, tuple, list and dict of them, Optional, and unions that JSON tells apart"
    )


class _Typed(Codec):
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
            raise InvalidInput(f"{what}: the value does not fit {_name(self.type)}: {error}") from None
        _compare(value, decoded, data, what)
        return data, decoded

    def decode(self, data: bytes) -> Any:
        try:
            return self._load(data)
        except InvalidInput as error:
            raise InvalidInput(f"the stored value does not fit {_name(self.type)}: {error}") from None

    def _load(self, data: bytes) -> Any:
        try:
            return self._decoder.decode(data)
        except _UNREADABLE:
            tree = _read(data)
        try:
            return msgspec.convert(tree, self.type, str_keys=True, dec_hook=_from_json)
        except msgspec.MsgspecError as error:
            raise InvalidInput(str(error)) from None
        except RecursionError:
            raise InvalidInput("nested too deep for a typed value") from None


class _Shaped(_Typed):
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
    raise TypeError(_no_support(type_))


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


class _Pydantic(Codec):
    """For pydantic's own types at the top, and for unions of them, which msgspec cannot tell apart."""

    __slots__ = ("_adapter",)

    def __init__(self, type_: Any) -> None:
        super().__init__(type_)
        self._adapter = sys.modules["pydantic"].TypeAdapter(type_)

    def trip(self, value: Any, what: str) -> tuple[bytes, Any]:
        data = PLAIN.encode(self._tree(value, what), what)
        try:
            decoded = self._adapter.validate_json(data)
        except ValueError as error:
            raise InvalidInput(f"{what}: the value does not fit {_name(self.type)}: {error}") from None
        _compare(value, decoded, data, what)
        return data, decoded

    def _tree(self, value: Any, what: str) -> Any:
        try:
            return self._adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings="error")
        except (ValueError, RecursionError) as error:
            if hasattr(type(value), "__pydantic_validator__"):
                raise InvalidInput(f"{what}: {error}") from None
            return value  # no such object, but perhaps the JSON of one

    def decode(self, data: bytes) -> Any:
        try:
            return self._adapter.validate_json(data)
        except ValueError as error:
            raise InvalidInput(f"the stored value does not fit {_name(self.type)}: {error}") from None


# --- what got lost on the way -------------------------------------------------------------------------

_Pair = tuple[Any, Any, Any]  # the original, what came back, and the way there: (way to the parent, label)


def _compare(value: Any, decoded: Any, data: bytes, what: str) -> None:
    # Equality is deep and quick, but blind for fields left out of comparison; there a NaN would be a null.
    if type(value) is type(decoded) and b"null" not in data and _equal(value, decoded):
        return
    lost = _difference(value, decoded)
    if lost is None:
        return
    original, twin, way = lost
    path: list[_Label] = []
    while way is not None:
        way, label = way
        path.insert(0, label)
    if isinstance(original, float) and not math.isfinite(original):
        raise InvalidInput(f"{what}: {original!r} at `{_place(path)}` cannot be stored: {_FINITE}")
    got, back = _name(type(original)), _name(type(twin))
    raise InvalidInput(
        f"{what}: a value of type {got} at `{_place(path)}` would come back as "
        f"{'another' if got == back else 'one of type'} {back}: {_ADVICE}"
    )


def _difference(value: Any, decoded: Any) -> _Pair | None:
    """The first place where a value did not come back as it was."""
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
        return _digits(original).decode() == twin
    return isinstance(original, str) or bool(original == twin)


def _same(original: Any, twin: Any) -> bool:
    if type(original) is type(twin) or not isinstance(original, (str, int, float, list, tuple, dict, _NONE_TYPE)):
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


# --- which codec --------------------------------------------------------------------------------------

PLAIN: Codec = _Plain(Any)
"""The codec of values about which nothing was declared."""

_SHAPES: dict[Any, type] = {t: t for t in (dict, list, str, int, bool, _NONE_TYPE)} | {
    dict[str, Any]: dict,
    dict[str, object]: dict,
    list[Any]: list,
    list[object]: list,
}


def codec(type_: Any = Any) -> Codec:
    """The codec of a type, kept for the next time; an unsupported one says so at the first value."""
    if type_ is Any or type_ is object:
        return PLAIN
    try:
        return _kept(type_) if _hashable(type_) else _make(type_)
    except Exception as error:  # not kept: a name that is not defined yet may be later
        return _Unsupported(type_, error)


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
        return _Pydantic(type_)
    shapes = _shapes(type_)
    if shapes is not None:
        return _Shaped(type_, shapes)
    try:
        return _Typed(type_)
    except TypeError:
        if _mentions_pydantic(type_):
            return _Pydantic(type_)
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


# --- what a function declares -------------------------------------------------------------------------

_returned: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def return_type(fn: Any) -> Any:
    """What a function says that it returns; Any where it does not say, or what it says cannot be resolved."""
    while isinstance(fn, partial):
        fn = fn.func
    if isinstance(fn, type):
        return fn
    fn = getattr(fn, "__func__", fn)
    if not hasattr(fn, "__annotations__") and not isinstance(fn, types.BuiltinFunctionType):
        fn = getattr(type(fn).__call__, "__func__", type(fn).__call__)
    annotations = getattr(fn, "__annotations__", None) or {}
    if "return" not in annotations:
        return Any
    return _kept_return_type(fn, annotations["return"])


def _kept_return_type(fn: Any, annotation: Any) -> Any:
    if annotation is None or isinstance(annotation, type):
        return annotation or _NONE_TYPE
    if getattr(fn, "__closure__", None) is not None:
        # Made anew for each run, mostly; and classes around it may point back to it, and keep it for ever.
        return _resolved(fn, annotation)
    try:
        found = _returned.get(fn)
        if found is None:
            found = _returned[fn] = _resolved(fn, annotation)
        return found
    except TypeError:  # it cannot be pointed to weakly
        return _resolved(fn, annotation)


def input_type(fn: Any) -> Any:
    """What a workflow's body says of its input, its second parameter."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return Any
    if len(parameters) < 2 or parameters[1].kind > inspect.Parameter.POSITIONAL_OR_KEYWORD:
        return Any
    annotation = parameters[1].annotation
    return Any if annotation is inspect.Parameter.empty else _resolved(fn, annotation)


def _resolved(fn: Any, annotation: Any) -> Any:
    # Alone: with typing.get_type_hints(fn) a parameter that cannot be resolved would take the rest with it.
    while isinstance(fn, partial):
        fn = fn.func
    fn = inspect.unwrap(getattr(fn, "__func__", fn))
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        hints = typing.get_type_hints(holder, getattr(fn, "__globals__", {}), _enclosing(fn), include_extras=True)
        return hints["it"]
    except Exception:
        return Any


def _enclosing(fn: Any) -> dict[str, Any]:
    """The variables that a function has from the functions around it: classes made in a test, for example."""
    if getattr(fn, "__closure__", None) is None:
        return {}
    found = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found


# --- JSON text ----------------------------------------------------------------------------------------

_in_order = msgspec.json.Encoder(order="sorted").encode


def canonical(data: bytes) -> bytes:
    """The same JSON with its keys sorted by code point, numbers as they are: equal for equal inputs."""
    value = PLAIN.decode(data)
    try:
        return _in_order(value)
    except (ValueError, RecursionError):
        return _Writer("JSON", in_order=True).write(value)


_ESCAPE = "\ue000".encode()
_SPECIAL = re.compile(rb"\\(?:u0000|u[eE]000|.)|\xee\x80\x80")
_HUGE = 100_000
_HUGE_NUMBER = re.compile(rb'"(?:[^"\\]++|\\.)*+"|(?<![0-9])-?[0-9]{%d,}' % (_HUGE + 1))


def searchable(data: bytes) -> str:
    """JSON for `jsonb`, which refuses NUL and numbers beyond 131,072 digits; only ever searched, never read.

    Inside strings and keys U+E000 is an escape: NUL becomes U+E000 `0`, and U+E000 itself U+E000 `1`. No two
    strings become one, so `@>` between two mapped values says what it would say of the originals. An integer
    of more than 100,000 digits becomes a string of U+E000, `#` and its SHA-256, which no string is mapped to.
    """
    if b"\\u0000" in data or _ESCAPE in data or b"\\ue000" in data.lower():
        data = _SPECIAL.sub(_escaped, data)
    if len(data) > _HUGE:
        data = _HUGE_NUMBER.sub(_hashed, data)
    return data.decode()


def _escaped(match: re.Match[bytes]) -> bytes:
    found = match[0]
    if found == b"\\u0000":
        return _ESCAPE + b"0"
    return _ESCAPE + b"1" if found == _ESCAPE or found.lower() == b"\\ue000" else found


def _hashed(match: re.Match[bytes]) -> bytes:
    found = match[0]
    if found.startswith(b'"'):
        return found
    return b'"' + _ESCAPE + b"#" + hashlib.sha256(found).hexdigest().encode() + b'"'


# --- containment --------------------------------------------------------------------------------------

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
    # Not recursive, for the same reason as `_read`.
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
