"""The one connection of a process that listens, and comes back by itself.

A notification is never more than a reason to look: whoever listens also polls. So a gap in listening (a restart of
the database, a pooler that swallows LISTEN) costs latency, not correctness, and nothing is replayed after a gap.
A worker also takes its session lock on this connection (`use`): it is the one that lives as long as the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import asyncpg

from onward.store.database import BROKEN, REFUSED, Database

_log = logging.getLogger("onward")


class Listener:
    """Calls `on_event(payload)` for each notification on `channel`. `start` once, `stop` may be called twice."""

    def __init__(
        self,
        database: Database,
        channel: str,
        on_event: Callable[[str], None],
    ) -> None:
        self._database, self._channel, self._on_event = database, channel, on_event
        self.tasks: list[asyncio.Task[None]] = []
        self._up = asyncio.Event()
        self._connection: asyncpg.Connection | None = None
        self.connections = 0  # how many there have been
        self._using = asyncio.Lock()  # a connection does one thing at a time

    async def start(self) -> None:
        """Returns when it listens, or when the first try has failed (it keeps trying)."""
        self.tasks = [asyncio.create_task(self._run(), name=f"onward-listen-{self._channel}")]
        await self._up.wait()

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def use(self, call: Callable[[asyncpg.Connection], Awaitable[bool]]) -> bool:
        """Calls with the listening connection; False while there is none."""
        async with self._using:
            if self._connection is None:
                return False
            try:
                async with asyncio.timeout(5):
                    return await call(self._connection)
            except BROKEN:
                if self._connection is not None:
                    self._connection.terminate()  # `_listen` opens another
                return False

    async def _run(self) -> None:
        pause = 0.1
        while True:
            try:
                await self._listen()
                pause = 0.1
            except (*BROKEN, REFUSED) as error:
                _log.debug("listening on %s was interrupted: %s", self._channel, error)
            finally:
                self._up.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def _listen(self) -> None:
        connection = await self._database.connect()
        gone = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: gone.set())
            await connection.add_listener(self._channel, lambda _c, _pid, _ch, payload: self._on_event(payload))
            self._connection = connection
            self.connections += 1
            self._up.set()
            self._on_event("")  # whatever came while nobody listened
            while not gone.is_set():
                # a half-open connection says nothing for ever: ask it now and then
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(10):
                        await gone.wait()
                if not gone.is_set():
                    async with self._using:
                        await connection.fetchval("select 1", timeout=5)
        except TimeoutError as error:
            raise OSError("the connection does not answer") from error
        finally:
            self._connection = None
            connection.terminate()
