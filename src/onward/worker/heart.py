"""Keeps a worker alive in the eyes of the others, and buries those that died.

A worker's lease is one row, extended every half second. It may begin steps only while its lease surely stands: the
time counts from when the heartbeat was *sent*, on this machine's monotonic clock, and ends a fifth early. That is
no decision about anybody's state (the database decides, with its own clock, who is dead); it only keeps a worker
that cannot reach the database from executing what nobody will let it record.

Death is noticed by the session lock, which goes with the connection, within about a second; the lease running out is
the fallback, behind a pooler for instance. A worker that was declared dead learns it from its next heartbeat, claim
or commit: it drops everything and registers under a new id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from onward.store.database import TRANSIENT
from onward.store.handouts import HandOuts, hold_session
from onward.store.listener import Listener

_log = logging.getLogger("onward")

BEAT = 0.5
SWEEP = 20
"""How many rounds of the reaper to one sweep for parents that nobody has woken."""


class Heart:
    """Registers the worker, beats, reaps. `start` registers; `stop` may be called twice."""

    def __init__(
        self,
        store: HandOuts,
        listener: Listener,
        lease: float,
        register: Callable[[], Awaitable[int]],
        on_dead: Callable[[], None],
        on_revived: Callable[[], None],
    ) -> None:
        self._store, self._listener, self._lease = store, listener, lease
        self._register, self._on_dead, self._on_revived = register, on_dead, on_revived
        self.worker_id = 0
        self._dead = False
        self._held_on = 0  # which of the listener's connections holds the session lock; 0: none
        self._until = 0.0
        self._loop = asyncio.get_running_loop()
        self.tasks: list[asyncio.Task[None]] = []
        self._reaps = 0

    @property
    def may_begin(self) -> bool:
        """Does the lease surely stand?"""
        return not self._dead and self._loop.time() < self._until

    async def start(self) -> None:
        await self._enlist()
        await self._hold()
        self.tasks = [
            asyncio.create_task(self._every(self._beat), name="onward-heartbeat"),
            asyncio.create_task(self._every(self._reap), name="onward-reaper"),
            asyncio.create_task(self._every(self._hold), name="onward-holder"),
        ]

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = []

    def declared_dead(self, worker: int) -> bool:
        """Another call, made as `worker`, was told so. It may be an answer to an incarnation before this one."""
        self._dead = self._dead or worker == self.worker_id
        return worker == self.worker_id

    async def _enlist(self) -> None:
        asked = self._loop.time()
        self.worker_id = await self._register()
        self._held_on = 0
        self._until = asked + self._lease * 0.8
        self._dead = False

    async def _hold(self) -> None:
        """The session lock goes with the connection: a new one has to take it again. Never in a heartbeat's way:
        the listening connection may be half-open while the others are well."""
        connection, worker = self._listener.connections, self.worker_id
        if (
            self._held_on != connection
            and await self._listener.use(lambda c: hold_session(c, worker))
            and worker == self.worker_id
        ):
            self._held_on = connection

    async def _every(self, beat: Callable[[], Awaitable[None]]) -> None:
        pause = min(BEAT, self._lease / 6)
        while True:
            await asyncio.sleep(pause)
            try:
                await beat()
            except TRANSIENT as error:
                _log.warning("the database does not answer: %s", error or type(error).__name__)

    async def _beat(self) -> None:
        asked = self._loop.time()
        stood = self.may_begin
        if not self._dead:
            self._dead = not await self._store.heartbeat(self.worker_id)
        if self._dead:
            _log.warning("worker %s was declared dead; it drops its runs and registers anew", self.worker_id)
            self._on_dead()  # before anything may begin again: others hold the runs
            await self._enlist()
            self._on_revived()
            return
        stood = stood and self.may_begin  # it may have lapsed while this was asked
        self._until = asked + self._lease * 0.8
        if not stood:
            self._on_revived()

    async def _reap(self) -> None:
        if freed := await self._store.reap():
            _log.info("freed %s runs of a dead worker", freed)
        self._reaps += 1
        if self._reaps % SWEEP == 1:
            await self._store.wake_parents()
