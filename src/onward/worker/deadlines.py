"""How long attempts may take: one timer for all of them.

Nearly every attempt ends long before its limit, so a timer of its own (as `asyncio.timeout` sets) costs more than many
a step. Here beginning and ending an attempt is a dictionary entry, and the loop looks through them twenty times a
second while there are any. Cancellation is told apart as `asyncio.timeout` does it: the task that was cancelled here,
and by nobody else, has run out of time; a cancellation from outside goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from onward.core import durations
from onward.errors import OnwardError

TICK = 0.05


class StepTimeout(OnwardError):
    """This attempt took too long. The body gets onward.errors.StepTimeout when it was the last one."""


class Deadlines:
    """The attempts that are executing, and until when they may."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until: dict[int, tuple[float, asyncio.Task[Any]]] = {}
        self._expired: set[int] = set()
        self._next = 0
        self._ticking = False

    async def within(self, limit: float, awaitable: Awaitable[Any], task: asyncio.Task[Any]) -> Any:
        """Awaits, in `task` (the current one), for at most `limit` seconds."""
        number = self._next = self._next + 1
        before = task.cancelling()
        self._until[number] = (self._loop.time() + limit, task)
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(TICK, self._tick)
        try:
            return await awaitable
        except asyncio.CancelledError as error:
            if number in self._expired and task.uncancel() <= before:
                raise StepTimeout(f"it took longer than {durations.show(limit)}") from error
            raise
        finally:
            self._until.pop(number, None)
            self._expired.discard(number)

    def _tick(self) -> None:
        now = self._loop.time()
        for number in [number for number, (until, _) in self._until.items() if until <= now]:
            self._expired.add(number)
            self._until.pop(number)[1].cancel()
        self._ticking = bool(self._until)
        if self._ticking:
            self._loop.call_later(TICK, self._tick)
