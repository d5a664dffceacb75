"""When has a body come to rest?

A body is given one result at a time, the next only when it has done with the last one whatever it could: otherwise
`asyncio.wait` would return one result the first time and two on a replay. The loop does not tell when a body is done,
but what a body can do without a new result is a chain of callbacks, one turn of the loop each: a future wakes a task,
the task's end wakes a group, the group wakes its parent. So after a fixed number of turns it has come to rest, and
fixed means: the same the first time and on replay. TURNS bounds how deep groups may nest, at two turns a level.

A body of one task has nothing else to do once it awaits a step: one turn will do (see tasks.py).

One callback a turn serves all runs, and none is scheduled while all of them rest: a loop that turns for nobody takes
the processor from the database that it waits for.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

TURNS = 32

_STALE = 256
"""Entries of those who rest that may stay in the ring while it stands still: they keep ended runs in memory."""


class Restless(Protocol):
    """Something that is told when it has come to rest: `stir` was counted up last so many turns ago."""

    stir: int
    watched: bool

    def at_rest(self) -> None: ...
    def failed(self, error: Exception) -> None: ...


class Turns:
    """Counts the loop's turns for those who wait to come to rest."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Who is stirred again leaves an entry behind, which is passed over when its turn comes.
        self._ring: list[list[tuple[Restless, int]]] = [[] for _ in range(TURNS + 1)]
        self._turn = 0
        self._watched = 0  # those, not entries
        self._entries = 0  # since the ring was last emptied
        self._ticking = False

    def watch(self, who: Restless, turns: int = TURNS) -> None:
        """`who` was stirred: so many turns from now it has come to rest, unless it is stirred again."""
        who.stir += 1
        self._entries += 1
        self._ring[(self._turn + turns) % (TURNS + 1)].append((who, who.stir))
        if not who.watched:
            who.watched = True
            self._watched += 1
        if not self._ticking:
            self._ticking = True
            self._loop.call_soon(self._tick)

    def forget(self, who: Restless) -> None:
        """It has come to rest, as can be told without waiting."""
        who.stir += 1
        if who.watched:
            who.watched = False
            self._watched -= 1

    def _tick(self) -> None:
        self._turn = (self._turn + 1) % (TURNS + 1)
        slot = self._ring[self._turn]
        if slot:
            self._ring[self._turn] = []
            for who, stir in slot:
                if who.stir == stir:
                    who.watched = False
                    self._watched -= 1
                    try:
                        who.at_rest()
                    except Exception as error:  # a mistake with one run must not keep the others from coming to rest
                        who.failed(error)
        self._ticking = self._watched > 0
        if self._ticking:
            self._loop.call_soon(self._tick)
        elif self._entries > _STALE:
            self._entries = 0
            self._ring = [[] for _ in self._ring]
