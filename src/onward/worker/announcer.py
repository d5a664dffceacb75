"""Tells whoever waits for results that runs have ended.

Outside the commits that ended them: a NOTIFY makes committing sessions wait for each other. If it is lost, or this
process dies first, those who wait find out by polling.
"""

from __future__ import annotations

import asyncio
import contextlib
from uuid import UUID

from onward.store.database import TRANSIENT
from onward.store.handouts import HandOuts


class Announcer:
    """Collects ended runs while one announcement is on its way, and announces them together."""

    def __init__(self, store: HandOuts) -> None:
        self._store = store
        self._runs: list[UUID] = []
        self._parents = False
        self._ready = asyncio.Event()

    def add(self, run_id: UUID, parent: UUID | None) -> None:
        self._runs.append(run_id)
        self._parents = self._parents or parent is not None
        self._ready.set()

    async def loop(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            await self.flush()

    async def flush(self, *, work: bool = False) -> None:
        """`work`: also tell the other workers that there is something to claim."""
        runs, self._runs = self._runs, []
        parents, self._parents = self._parents, False
        with contextlib.suppress(*TRANSIENT):
            await self._store.announce(runs, parents or work)
