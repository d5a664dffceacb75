"""Waiting for results: told by a notification, looking every second in case one was lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from uuid import UUID

from onward.errors import NotFound
from onward.store.database import Database
from onward.store.listener import Listener
from onward.store.runs import ResultRecord, Runs

SOON = 0.05
"""Seconds until the first look that nothing asked for: a run may end just while the wait is being written."""
POLL = 1.0
HOLDS = 60.0
"""Seconds that a wait holds in the database unless it is written again."""


class Results:
    """The waits of one client. It has a channel of its own, so it is told of its own runs only."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = f"onward_client_{os.urandom(8).hex()}"
        self._waits: dict[UUID, set[asyncio.Event]] = {}
        self._listener: Listener | None = None
        self._starting = asyncio.Lock()

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None

    async def wait(self, runs: Runs, run_id: UUID, seconds: float | None) -> ResultRecord:
        """The end of a run. TimeoutError where it does not come in time."""
        told = asyncio.Event()
        self._waits.setdefault(run_id, set()).add(told)
        deadline = None if seconds is None else time.monotonic() + seconds
        try:
            await self._listen()
            written = -HOLDS  # when the wait was written last
            pause = SOON
            while True:
                told.clear()
                again = time.monotonic() - written > HOLDS / 2
                found = await runs.await_result(run_id, self._channel, HOLDS if again else 0)
                written = time.monotonic() if again else written
                if found is None:
                    raise NotFound(f"no run {run_id}")
                if found.status != "running":
                    return found
                left = pause if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"run {run_id} has not ended after {seconds:g} seconds")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, pause)):
                        await told.wait()
                pause = POLL
        finally:
            waits = self._waits.get(run_id, set())
            waits.discard(told)
            if not waits:
                self._waits.pop(run_id, None)

    async def _listen(self) -> None:
        async with self._starting:
            if self._listener is None:
                self._listener = Listener(self._database, self._channel, self._told)
                await self._listener.start()

    def _told(self, payload: str) -> None:
        if not payload:  # listening (again): anything may have ended meanwhile
            for waits in self._waits.values():
                for event in waits:
                    event.set()
            return
        for event in self._waits.get(UUID(payload), ()):
            event.set()
