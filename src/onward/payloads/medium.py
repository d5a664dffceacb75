"""What a payload store is made of: a folder (`disk`) or a bucket (`cloud`). One conformance suite holds for both.

Calls block, for seconds at most where they are small; `objects` has threads for them. Every one raises
`StoreUnavailable` where the medium cannot be used, which includes that its bucket or folder is not there: an empty
answer always means that the object is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol


class Stored(NamedTuple):
    """An object as a listing shows it."""

    key: str
    size: int
    modified: datetime


class Found(NamedTuple):
    """An object that is there. `data` is empty where the size is not the expected one: nobody could use it."""

    size: int
    data: bytes


class Medium(Protocol):
    """Keeps bytes under keys."""

    threads: int
    """How many calls may run at once."""

    def put(self, key: str, data: bytes, content_type: str) -> bool:
        """Creates the object, whole and for good, before it returns; False where the key is taken."""

    def get(self, key: str, size: int) -> Found | None:
        """The object that should have this size."""

    def head(self, key: str) -> int | None:
        """Its size."""

    def list(self, prefix: str) -> Iterator[Sequence[Stored]]:
        """All objects below a prefix, which ends in a slash."""

    def delete(self, keys: Sequence[str]) -> None:
        """Deletes these; what is not there is fine."""

    def sign(self, key: str, expires: timedelta) -> str | None:
        """An address where anybody may read it until then, where there is such a thing."""

    def probe(self, key: str) -> None:
        """Raises unless objects can be written and read here, and are created only once."""
