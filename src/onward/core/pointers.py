"""What the journal holds in place of a value that was put into the payload store.

A pointer and a user's value share one column, so telling them apart must be certain, and cheap, for it is asked of
every value of every replay. A pointer is journalled compact and begins with `{"$payload":`; a user's own value that
would begin so gets a space in front, which JSON ignores (`literal`). So the first bytes decide, with nothing to parse,
and no value of a user is ever taken for a pointer.

A newline at the end, which JSON ignores as well, says that the body asked for the reference and not for the value:
a replay need not fetch it ahead. That is a hint and never more; a reader that does not know it loses nothing.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from onward.errors import PayloadCorrupt

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"

_MARK = b'{"$payload":'
_HELD = b"\n"


class Pointer(msgspec.Struct, frozen=True, rename="camel"):
    """Which object holds a value, and how to know that it still does."""

    key: str
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}\\Z")]
    size: Annotated[int, Meta(ge=0)]
    content_type: str


class _Journalled(msgspec.Struct, frozen=True, rename={"payload": "$payload"}):
    payload: Pointer


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Journalled).decode


def encode(pointer: Pointer, *, held: bool = False) -> bytes:
    """What is journalled; `held` where the body asked for the reference and not for the value."""
    data = _encode(_Journalled(pointer))
    return data + _HELD if held else data


def is_pointer(data: bytes) -> bool:
    """Do these journalled bytes stand for an object of the store?"""
    return data.startswith(_MARK)


def is_held(data: bytes) -> bool:
    """Did the body ask for the reference only? A hint: the value need not be fetched ahead."""
    return data.endswith(_HELD) and is_pointer(data)


def decode(data: bytes) -> Pointer:
    """The pointer that was journalled."""
    try:
        return _decode(data).payload
    except msgspec.DecodeError as problem:
        raise PayloadCorrupt(
            f"the journal holds a payload pointer that cannot be read ({problem}): "
            "if a newer Onward wrote it, upgrade this one; else restore the journal from a backup"
        ) from None


def literal(data: bytes) -> bytes:
    """What a user's own encoded value is journalled as: the same JSON, never looking like a pointer."""
    return b" " + data if is_pointer(data) else data
