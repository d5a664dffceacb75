"""Plain JSON read at any depth: what msgspec could not read, or should not be expected to.

Not recursive, as other readers are: the stack of the caller must not decide what can be read. Otherwise a run
would replay from a shallow loop and fail from a deep one, on bytes that were accepted when they were written.
The grammar is a table, from each state to the tokens that may follow. Strings and ordinary numbers are still left
to msgspec, one token at a time, so that both readers mean the same by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from onward.core.encoding import DEEPEST
from onward.core.numerals import integer
from onward.errors import InvalidInput

_decode = msgspec.json.Decoder().decode

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What msgspec raises at a text that `read` should have a look at."""

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


def read(data: bytes | str) -> Any:
    """The value that a text of plain JSON stands for."""
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
    except UNREADABLE as error:
        if token.isdecimal():
            return integer(token)
        if token[1:].isdecimal():
            return -integer(token[1:])
        raise _malformed(f"{error} in {token[:40]!r}") from None


def _malformed(reason: str) -> InvalidInput:
    return InvalidInput(f"this is not JSON that Onward can store: {reason}")
