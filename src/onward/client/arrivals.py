"""Waiting for messages, without a database connection for each who waits.

Those who wait for the same (a queue of a tenant, with the same match) stand in a line. The first of a line asks the
database for all: when it joins, when it was told that something came, and when something is due. Whoever gets
something leaves, and the next one asks, since there may be more. So a thousand waits cost one listening connection, one
question when something comes, and one a second for all queues together, in case a notification was lost or a message
became ready by the clock alone. What that question meets, a database that stays away for instance, is raised in all
waits.

A question is never cut off in the middle: its messages would be out, and nobody would have them. Where the asker is
cancelled meanwhile, they are given back as soon as they come (`test_a_cancelled_wait_loses_nothing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from onward.errors import DatabaseUnavailable
from onward.store import queues
from onward.store.database import Database
from onward.store.listener import Listener

T = TypeVar("T")

POLL = 1.0
SOON = 0.05
"""Seconds until the first look that nothing asked for: a message may come just while the wait is being written."""
HOLDS = 60.0
"""Seconds that a wait holds in the database unless it is written again."""
PATIENCE = 5.0
"""Seconds that closing waits for messages to be given back."""

Place = tuple[str, str]
"""A tenant and a queue."""


class Asker(Protocol[T]):
    """What one wait asks the database, and how it gives back what it cannot use."""

    def take(self) -> Coroutine[Any, Any, list[T]]: ...
    async def give_back(self, taken: list[T]) -> None: ...


class _Line:
    """Those who wait for the same. `stirred`: there may be something that nobody has asked for."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Event] = deque()
        self.stirred = False
        self.error: Exception | None = None

    def stir(self) -> None:
        self.stirred = True
        self.wake_first()

    def wake_first(self) -> None:
        if self.stirred and self.waiting:
            self.waiting[0].set()

    def fail(self, error: Exception) -> None:
        self.error = error
        for event in self.waiting:
            event.set()


class Arrivals:
    """The waits of one client. `close` may be called twice; a wait after it begins anew."""

    def __init__(self, connect: Callable[[], Awaitable[Database]]) -> None:
        self._connect = connect
        self._lines: dict[Place, dict[Any, _Line]] = {}
        self._held: dict[Place, float] = {}  # when a wait for the queue was written
        self._fresh = False  # one was written since the last look
        self._listener: Listener | None = None
        self._starting = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        for line in self._all():
            line.fail(_closed())
        poller, self._poller = self._poller, None
        if poller is not None:
            poller.cancel()
            await asyncio.gather(poller, return_exceptions=True)
        async with _at_most(PATIENCE):
            while self._asking:  # whoever asked gets it, and what was asked for nobody is given back
                await asyncio.wait(self._asking)
        for task in self._asking:
            task.cancel()
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop()
        self._held.clear()

    async def ask(self, asker: Asker[T]) -> list[T]:
        """Once, without waiting."""
        taking = self._begin(asker.take())
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            self._begin(_return(taking, asker))
            raise

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name="onward-receive")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task

    async def wait(self, place: Place, kind: Any, asker: Asker[T], seconds: float) -> list[T]:
        """Until there is something; an empty list where nothing came in time. `kind`: what else tells lines apart."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        line = self._lines.setdefault(place, {}).setdefault(kind, _Line())
        event = asyncio.Event()
        line.waiting.append(event)
        line.stir()
        try:
            while True:
                if line.error is not None:
                    raise line.error
                if line.stirred and line.waiting[0] is event:
                    if found := await self._ask_first(line, asker):
                        return found
                    await self._hold(place, line)
                    continue
                if (left := deadline - loop.time()) <= 0:
                    return []
                event.clear()
                async with _at_most(left):
                    await event.wait()
        finally:
            line.waiting.remove(event)
            line.wake_first()
            self._clear(place, kind, line)

    async def _ask_first(self, line: _Line, asker: Asker[T]) -> list[T]:
        line.stirred = False
        try:
            found = await self.ask(asker)
        except BaseException:
            line.stirred = True  # the next one has to ask
            raise
        line.stirred = line.stirred or bool(found)
        return found

    # ---- being told ----------------------------------------------------------------------------------------

    async def _hold(self, place: Place, line: _Line) -> None:
        """From the first question of a queue on that found nothing, its senders tell."""
        if place in self._held:
            return
        began = asyncio.get_running_loop().time()
        try:
            database = await self._connect()
            await self._listen(database, line)
            self._told_of(await queues.due(database, [place], HOLDS))
        except BaseException:
            line.stirred = True  # the next one has to see to it
            raise
        self._held[place], self._fresh = began, True
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll(database), name="onward-arrivals")

    async def _listen(self, database: Database, line: _Line) -> None:
        async with self._starting:
            if line.error is not None:  # closed meanwhile
                raise line.error
            if self._listener is None:
                self._listener = Listener(database, queues.CHANNEL, self._told)
                await self._listener.start()

    def _told(self, payload: str) -> None:
        if payload:
            tenant, _, queue = payload.partition("/")
            self._stir((tenant, queue))
        else:  # it listens again: what came meanwhile is lost, and where the server crashed, the waits in it too
            self._held = dict.fromkeys(self._held, -math.inf)
            for place in list(self._lines):
                self._stir(place)

    async def _poll(self, database: Database) -> None:
        """While anybody waits."""
        loop = asyncio.get_running_loop()
        while self._held:
            await asyncio.sleep(SOON if self._fresh else POLL)
            self._fresh = False
            now = loop.time()
            self._held = {at: since for at, since in self._held.items() if at in self._lines or now - since < HOLDS / 2}
            waiting = list(self._lines)
            if not waiting:
                continue
            holds = 0.0
            if any(now - self._held.get(place, -math.inf) > HOLDS / 2 for place in waiting):
                self._held.update(dict.fromkeys(waiting, now))
                holds = HOLDS
            try:
                self._told_of(await queues.due(database, waiting, holds))
            except Exception as error:
                for line in self._all():
                    line.fail(error)

    def _told_of(self, found: Iterable[queues.Due]) -> None:
        for tenant, queue, seconds in found:
            if seconds <= 0:
                self._stir((tenant, queue))
            elif seconds < POLL:
                asyncio.get_running_loop().call_later(seconds, self._stir, (tenant, queue))

    # ---- lines ---------------------------------------------------------------------------------------------

    def _all(self) -> list[_Line]:
        return [line for lines in self._lines.values() for line in lines.values()]

    def _stir(self, place: Place) -> None:
        for line in self._lines.get(place, {}).values():
            line.stir()

    def _clear(self, place: Place, kind: Any, line: _Line) -> None:
        lines = self._lines.get(place, {})
        if not line.waiting and lines.get(kind) is line:
            del lines[kind]
            if not lines:
                del self._lines[place]


@contextlib.asynccontextmanager
async def _at_most(seconds: float) -> AsyncIterator[None]:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            yield


async def _return(taking: asyncio.Task[list[T]], asker: Asker[T]) -> None:
    """What was taken for somebody who is gone."""
    with contextlib.suppress(Exception):  # nothing was taken; or it comes back when its visibility is over
        if taken := await taking:
            await asker.give_back(taken)


def _closed() -> DatabaseUnavailable:
    return DatabaseUnavailable("this client is closed")
