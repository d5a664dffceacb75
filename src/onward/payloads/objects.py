"""The payload store: objects that are created, read and deleted, and never changed.

A pointer in the journal is right for as long as the journal holds it, whoever else writes. So:

- An object is created where nothing is, or not at all. Where its key is taken, the object there is read: the same bytes
  are taken as written (a retry, a replay, a second worker), and for other bytes the key is `{name}~{sha256[:12]}`. A
  stale worker can thus add an object, and never change what a newer one journalled.
- `create` returns once the object is there for good; only then is its pointer journalled. A crash in between leaves an
  object that nobody points to, which a sweep finds, and nothing else.
- Every read is checked, size and SHA-256, and gives the whole value or an error: `PayloadMissing`, `PayloadCorrupt`.
- Whatever the store itself does is `StoreUnavailable`, after seconds (see `trouble`): the caller tries again.

Work with the store, hashing included, is done in threads of its own, so that the event loop goes on meanwhile. A call
that is cancelled may still write its object, which does no harm.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from onward.core.pointers import Pointer
from onward.errors import InvalidInput, PayloadCorrupt, PayloadMissing
from onward.payloads import address, layout
from onward.payloads.disk import Disk
from onward.payloads.medium import Medium, Stored
from onward.payloads.trouble import StoreUnavailable

__all__ = ["Objects", "StoreUnavailable", "Stored"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_DELETED_AT_ONCE = 1000


class Objects:
    """A store. Every method raises `StoreUnavailable` for what passes or can be mended."""

    def __init__(self, medium: Medium, address: str) -> None:
        self.address = address
        """Where it is, in one form however it was written, and without secrets."""
        self._medium = medium
        self._threads = ThreadPoolExecutor(medium.threads, "payloads")

    def __repr__(self) -> str:
        return f"Objects({self.address})"

    @classmethod
    def open(cls, url: str) -> Objects:
        """The store at `file:///…` (the folder is created), `s3://…`, `gs://…` or `az://…`; `InvalidInput` for anything
        else. Asks no server; credentials and endpoint are taken from the environment."""
        place = address.parse(url)
        if isinstance(place, Path):
            return cls(Disk(place), place.as_uri())
        from onward.payloads.cloud import Cloud  # who keeps payloads in a folder need not load a client for buckets

        return cls(Cloud(place), place.url)

    async def create(self, key: str, data: bytes, content_type: str) -> Pointer:
        """Writes an object, which is there for good when this returns; the pointer says under which key."""
        return await self._run(self._create, _checked(key), data, content_type)

    async def read(self, pointer: Pointer) -> bytes:
        """The whole object, checked: `PayloadMissing`, `PayloadCorrupt`."""
        return await self._run(self._read, pointer, _checked(pointer.key))

    async def copy(self, source: Pointer, target: str) -> Pointer:
        """The same value under another key. It is read, checked and created there: a copy within the store would copy
        whatever lies there by now, and the pointer would not fit."""
        return await self.create(target, await self.read(source), source.content_type)

    async def head(self, key: str) -> int | None:
        """Its size, or None where there is none."""
        return await self._run(self._medium.head, _checked(key))

    async def list(self, prefix: str) -> AsyncIterator[Stored]:
        """All objects below this prefix of `layout` (it ends in a slash), in no order; "" is everything."""
        if prefix:
            _checked(prefix.removesuffix("/"))
        batches = self._medium.list(prefix)
        while batch := await self._run(lambda: next(batches, ())):
            for stored in batch:
                yield stored

    async def delete(self, keys: Iterable[str]) -> None:
        """Deletes them; one that is not there is fine."""
        rest = iter(keys)
        while batch := [_checked(key) for key in islice(rest, _DELETED_AT_ONCE)]:
            await self._run(self._medium.delete, batch)

    async def url(self, key: str, expires: timedelta) -> str | None:
        """An address where anybody can read it until then; None where the store has none (a folder)."""
        return await self._run(self._medium.sign, _checked(key), expires)

    async def check(self, key: str) -> None:
        """Can it be reached, written and read (`key` is `Layout.probe`)? `StoreUnavailable` says what to mend."""
        await self._run(self._medium.probe, _checked(key))

    # ---- in a thread -------------------------------------------------------------------------------------

    def _create(self, key: str, data: bytes, content_type: str) -> Pointer:
        digest = hashlib.sha256(data).hexdigest()
        for name in (key, layout.beside(key, digest)):
            if self._settled(name, data, content_type):
                return Pointer(name, digest, len(data), content_type)
        raise PayloadCorrupt(
            f"the payload {name} is named after its content and holds another ({self.address}): "
            "it was damaged; restore it from a backup, or delete it, and it is written anew"
        )

    def _settled(self, key: str, data: bytes, content_type: str) -> bool:
        """Is this what lies there, written now or before?"""
        if self._medium.put(key, data, content_type):
            return True
        found = self._medium.get(key, len(data))
        if found is None:  # it was deleted in between, or the store refused two who came at once
            return self._medium.put(key, data, content_type)
        return found.size == len(data) and found.data == data

    def _read(self, pointer: Pointer, key: str) -> bytes:
        found = self._medium.get(key, pointer.size)
        if found is None:
            raise PayloadMissing(f"the payload {key} is not in {self.address}: restore it from a backup or a version")
        if found.size != pointer.size:
            raise _corrupt(key, self.address, f"it has {found.size:,} bytes and should have {pointer.size:,}")
        if hashlib.sha256(found.data).hexdigest() != pointer.sha256:
            raise _corrupt(key, self.address, "its SHA-256 is another than when it was written")
        return found.data

    async def _run(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)


def _checked(key: str) -> str:
    if layout.is_key(key):
        return key
    raise InvalidInput(f"{key[:80]!r} is no key of a payload: a key has no empty parts, and none that are `.` or `..`")


def _corrupt(key: str, address: str, what: str) -> PayloadCorrupt:
    return PayloadCorrupt(f"the payload {key} in {address} was damaged: {what}; restore it from a backup or a version")
