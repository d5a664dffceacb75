"""What an object holds for a value, so that any program can read it: text as text, bytes as bytes, the rest as JSON.

The journal's own encoding is JSON throughout, so an object is turned back into that before it is decoded, and a value
is the same whichever way it came.
"""

from __future__ import annotations

import msgspec

from onward.core.pointers import BINARY, JSON, TEXT
from onward.errors import PayloadCorrupt

_encode = msgspec.json.Encoder().encode
_decode_text = msgspec.json.Decoder(str).decode


def content(data: bytes, value: object) -> tuple[bytes, str]:
    """An object's bytes and content type, for a value and its JSON."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value), BINARY
    if type(value) is str and data.startswith(b'"'):
        return _decode_text(data).encode(), TEXT
    return data, JSON


def journalled(content: bytes, content_type: str, key: str) -> bytes:
    """The JSON of what an object holds."""
    if content_type == BINARY:
        return _encode(content)
    if content_type == TEXT:
        try:
            return _encode(content.decode())
        except UnicodeDecodeError as error:
            raise PayloadCorrupt(f"the payload {key} is no text in UTF-8: {error}") from error
    return content
