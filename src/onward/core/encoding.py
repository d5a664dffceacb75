"""The contract of every codec: a value comes back as it was, or is refused before it is sent.

A body is given the value that `trip` decoded and not the one it made, so what it sees the first time is what it
sees on a replay, by construction. `encode` refuses what `trip` refuses: bytes that nobody could read back must
not reach the journal, whoever wrote them.

It stands apart from `codec`, which chooses among the codecs and has to know them all, as each has to know this.
"""

from __future__ import annotations

from typing import Any

DEEPEST = 1000
"""Levels of lists and dicts that a value may have."""


def may_be_deep(data: bytes) -> bool:
    """Could this JSON be nested deeper? msgspec goes as deep as the interpreter's stack, which since Python 3.12 is far
    deeper: somebody has to count."""
    return len(data) > DEEPEST and data.count(b"[") + data.count(b"{") > DEEPEST


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
