"""The codec of values about which nothing was declared: JSON and nothing else.

Almost every value is small and made of strings, numbers and None, and msgspec writes those exactly, and fast. So
these are recognised first (`_ready`), and what is left, exact or not, goes the slow and careful way. To recognise
too little costs time; to recognise too much would lose a NaN in silence. When in doubt, the answer is no.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import NoneType
from typing import Any

import msgspec

from onward.core.encoding import Codec, may_be_deep
from onward.core.plain_reader import UNREADABLE, read
from onward.core.plain_writer import Writer

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_SAFE = frozenset({str, int, bool, NoneType})
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
        return Writer(what).write(value)

    def trip(self, value: Any, what: str) -> tuple[bytes, Any]:
        if value is None:
            return b"null", None
        data = self.encode(value, what)
        return data, value if type(value) in _SAFE else self.decode(data)

    def decode(self, data: bytes) -> Any:
        if may_be_deep(data):
            return read(data)
        try:
            return _decode(data)
        except UNREADABLE:
            return read(data)


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


PLAIN: Codec = _Plain(Any)
"""The codec of values about which nothing was declared."""
