"""Decoding what holds values of users, which may be nested as deep as a value may be (core/encoding.py).

msgspec goes as deep as the interpreter's stack has room, about 900 levels below a server's calls, even over what it
only has to skip. So where that is not enough, the deep insides are taken out first, and put back into the values that
were skipped. What is ours has three levels at the most: `{"runs": [{"input": …`.
"""

from __future__ import annotations

import os
import re
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

T = TypeVar("T")

_OURS = 3
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


def decode(data: bytes, type_: type[T]) -> T:
    """As msgspec does; RecursionError where it is no value's depth that is too much."""
    try:
        return msgspec.json.decode(data, type=type_)
    except RecursionError:
        mark = os.urandom(8).hex().encode()
        shallow, insides = _taken_out(data, mark)
        found = msgspec.json.decode(shallow, type=type_)
    placeholder = re.compile(b'"%s ([0-9]+)"' % mark)
    put_back: T = _walk(found, lambda raw: Raw(placeholder.sub(lambda at: insides[int(at[1])], raw)))
    return put_back


def _taken_out(data: bytes, mark: bytes) -> tuple[bytes, list[bytes]]:
    parts: list[bytes] = []
    insides: list[bytes] = []
    depth = last = begin = 0
    for token in _TOKEN.finditer(data):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == _OURS + 1:
                begin = token.start()
        elif token[0] in (b"]", b"}"):
            if depth == _OURS + 1:
                parts += [data[last:begin], b'"%s %d"' % (mark, len(insides))]
                insides.append(data[begin : token.end()])
                last = token.end()
            depth -= 1
    return b"".join([*parts, data[last:]]), insides


def _walk(value: Any, change: Any) -> Any:
    """With every `Raw` in it changed."""
    if isinstance(value, Raw):
        return change(bytes(value))
    if isinstance(value, Struct):
        return type(value)(**{name: _walk(getattr(value, name), change) for name in value.__struct_fields__})
    if isinstance(value, list):
        return [_walk(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _walk(item, change) for key, item in value.items()}
    return value
