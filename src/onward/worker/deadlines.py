"""How long attempts may take: one timer for all of them.

Nearly every attempt ends long before its limit, so a timer of its own (as `asyncio.timeout` sets) costs more than many
a step. Here beginning and ending an attempt is a dictionary entry, and the loop looks through them twenty times a
second while there are any. Cancellation is told apart as `asyncio.timeout` does it: the task that was cancelled here,
and by nobody else, has run out of time; a cancellation from outside goes on.
"""

from __future__ import annotations

import asyncio
from typing import Any

TICK = 0.05


class Deadlines:
    """The attempts that are executing, and until when they may. Who calls `begin` must call `end`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until: dict[int, tuple[float, asyncio.Task[Any]]] = {}
        self._expired: dict[int, int] = {}  # and how often the task had been cancelled before that
        self._last = 0
        self._ticking = False

    def begin(self, limit: float, task: asyncio.Task[Any]) -> int:
        """From now on `task` has `limit` seconds; then it is cancelled."""
        self._last = number = self._last + 1
        self._until[number] = (self._loop.time() + limit, task)
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(TICK, self._tick)
        return number

    def expired(self, number: int, task: asyncio.Task[Any]) -> bool:
        """The task caught a CancelledError: because its time is over, and for no other reason?"""
        before = self._expired.pop(number, None)
        return before is not None and task.uncancel() <= before

    def end(self, number: int, task: asyncio.Task[Any]) -> None:
        self._until.pop(number, None)
        if self._expired.pop(number, None) is not None:
            task.uncancel()  # whoever was told that time is over did not pass it on

    def _tick(self) -> None:
        now = self._loop.time()
        for number in [number for number, (until, _) in self._until.items() if until <= now]:
            _, task = self._until.pop(number)
            self._expired[number] = task.cancelling()
            task.cancel()
        self._ticking = bool(self._until)
        if self._ticking:
            self._loop.call_later(TICK, self._tick)
