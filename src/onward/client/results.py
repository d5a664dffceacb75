"""Waiting for results: told by a notification, looking every second in case one was lost.

A wait looks for itself at its beginning, once more soon after, and when it was told. Between these one poll a second
looks for all waits of the client together, so that a thousand of them cost one query a second. It knows run ids only:
whose they are was seen at each wait's first look. What the poll meets, a database that stays away for instance, is
raised in all waits, as if each had looked for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Iterable
from uuid import UUID

from onward.errors import DatabaseUnavailable, NotFound
from onward.store.database import Database
from onward.store.listener import Listener
from onward.store.runs import ResultRecord, Runs

SOON = 0.05
"""Seconds until the first look that nothing asked for: a run may end just while the wait is being written."""
POLL = 1.0
HOLDS = 60.0
"""Seconds that a wait holds in the database unless it is written again."""


class Wait:
    """Somebody who waits for a run's end, to be woken when it may have come. `error`: nobody looks any more."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._error: Exception | None = None

    def wake(self, error: Exception | None = None) -> None:
        self._error = error
        self._woken.set()

    async def sleep(self, seconds: float) -> None:
        """For at most so long; returns at once where it was woken since it slept last."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._woken.wait()
        self._woken.clear()
        if self._error is not None:
            raise self._error


class Results:
    """The waits of one client. It has a channel of its own, so it is told of its own runs only."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = f"onward_client_{os.urandom(8).hex()}"
        self._waits: dict[UUID, set[Wait]] = {}
        self._written = 0.0  # when all waits were written last
        self._listener: Listener | None = None
        self._starting = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        self._wake(self._waits, _closed())
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None

    async def wait(self, runs: Runs, run_id: UUID, seconds: float | None) -> ResultRecord:
        """The end of a run. TimeoutError where it does not come in time."""
        wait = Wait()
        self._waits.setdefault(run_id, set()).add(wait)
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        holds, pause = HOLDS, SOON
        try:
            await self._listen()
            while True:
                found = await runs.await_result(run_id, self._channel, holds)
                if found is None:
                    raise NotFound(f"no run {run_id}")
                if found.status != "running":
                    return found
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"run {run_id} has not ended after {seconds:g} seconds")
                self._keep_polling(runs)
                await wait.sleep(min(left, pause))
                holds, pause = 0.0, math.inf
        finally:
            waits = self._waits.get(run_id, set())
            waits.discard(wait)
            if not waits:
                self._waits.pop(run_id, None)

    def _keep_polling(self, runs: Runs) -> None:
        if self._poller is None or self._poller.done():
            self._written = time.monotonic()
            self._poller = asyncio.create_task(self._poll(runs), name="onward-results")

    async def _poll(self, runs: Runs) -> None:
        """While anybody waits."""
        while True:
            await asyncio.sleep(POLL)
            waiting = list(self._waits)
            if not waiting:
                return
            now, holds = time.monotonic(), 0.0
            if now - self._written > HOLDS / 2:
                self._written, holds = now, HOLDS
            try:
                self._wake(await runs.await_results(waiting, self._channel, holds))
            except Exception as error:
                self._wake(waiting, error)

    def _wake(self, run_ids: Iterable[UUID], error: Exception | None = None) -> None:
        for run_id in run_ids:
            for wait in self._waits.get(run_id, ()):
                wait.wake(error)

    async def _listen(self) -> None:
        async with self._starting:
            if self._closed:
                raise _closed()
            if self._listener is None:
                self._listener = Listener(self._database, self._channel, self._told)
                await self._listener.start()

    def _told(self, payload: str) -> None:
        if payload:
            self._wake([UUID(payload)])
        else:  # it listens again: what came meanwhile is lost, and where the server crashed, the waits in it too
            self._written = -math.inf


def _closed() -> DatabaseUnavailable:
    return DatabaseUnavailable("this client is closed")
