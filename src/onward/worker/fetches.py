"""Payloads on their way to bodies: each is fetched once, a few ahead of the one that is needed, and kept for a while.

Nothing here is authoritative: an object never changes, so what was read once may be given again. A store that does not
answer is asked until it does; the run waits meanwhile, and `onward why` says for what.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from onward.client.payloads import Payloads, Told, patiently
from onward.core import pointers
from onward.core.pointers import Pointer

KEPT = 64 << 20
"""Bytes of payloads that a worker keeps in memory."""
AHEAD = 16
"""Objects that are fetched before they are needed, of a run, and of the worker at once."""
AHEAD_BYTES = KEPT // 2


class Fetches:
    """What a worker reads from the payload store, for all of its runs."""

    def __init__(self, payloads: Payloads) -> None:
        self._payloads = payloads
        self._kept: OrderedDict[Pointer, bytes] = OrderedDict()
        self._size = 0
        self._coming: dict[Pointer, asyncio.Task[bytes]] = {}

    async def whole(self, data: bytes, told: Told) -> bytes:
        """The JSON of a value that was journalled like this."""
        return await self.load(pointers.decode(data), told) if pointers.is_pointer(data) else data

    async def load(self, pointer: Pointer, told: Told | None) -> bytes:
        """The JSON of the value that an object holds."""
        return await patiently(lambda: self._once(pointer), told)

    async def content(self, pointer: Pointer, told: Told) -> bytes:
        """The object as it lies there."""
        return await patiently(lambda: self._payloads.read(pointer), told)

    def ahead(self, journalled: Iterable[bytes]) -> None:
        """Begins to fetch what will be needed soon. What goes wrong is told when it is needed."""
        room = AHEAD_BYTES
        for data in journalled:
            if len(self._coming) >= AHEAD:
                return
            pointer = pointers.decode(data)
            room -= pointer.size
            if room < 0:
                return
            if pointer not in self._kept:
                self._fetch(pointer)

    async def stop(self) -> None:
        tasks = list(self._coming.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _once(self, pointer: Pointer) -> bytes:
        kept = self._kept.get(pointer)
        if kept is not None:
            self._kept.move_to_end(pointer)
            return kept
        return await asyncio.shield(self._fetch(pointer))

    def _fetch(self, pointer: Pointer) -> asyncio.Task[bytes]:
        task = self._coming.get(pointer)
        if task is None:
            task = self._coming[pointer] = asyncio.create_task(self._read(pointer))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # told to who needs it
        return task

    async def _read(self, pointer: Pointer) -> bytes:
        try:
            data = await self._payloads.load_once(pointer)
        finally:
            del self._coming[pointer]
        self._keep(pointer, data)
        return data

    def _keep(self, pointer: Pointer, data: bytes) -> None:
        if len(data) > AHEAD_BYTES or pointer in self._kept:
            return
        self._kept[pointer] = data
        self._size += len(data)
        while self._size > KEPT:
            self._size -= len(self._kept.popitem(last=False)[1])
