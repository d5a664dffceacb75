"""What a worker counts in its memory: steps, how long they took, how often they were tried again.

The database counts what it decides itself, with each start, end and signal. Steps are too many for that, so they are
counted here and added about once a second. A worker that is killed takes at most that second of counts with it; the
counts never go back, since only what is new is ever added.

Steps are counted by name, without the number of a repeated one, and at most 200 names a workflow: names that are made
up at run time would else be without end (the database bounds the sum over all workers in the same way).
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Sequence

from onward.core import names
from onward.store.database import TRANSIENT
from onward.store.tallies import Added, Tallies

PAUSE = 1.0
FOLD = 5
"""Additions to one fold of what all workers added."""
FOLDED_AT_ONCE = 5000
MOST = 200
OTHER = "(other)"

_COUNT = re.compile(r"#[0-9]+\Z")


class Entry:
    """One step's counts since they were last added."""

    __slots__ = ("buckets", "count", "retries", "seconds")

    def __init__(self, bounds: int) -> None:
        self.buckets = [0] * (bounds + 1)
        self.clear()

    def clear(self) -> None:
        self.count, self.retries, self.seconds = 0, 0, 0.0
        self.buckets = [0] * len(self.buckets)


class Counts:
    """Of one workflow and tenant. Looked up by path, which is the same string for every run."""

    __slots__ = ("_bounds", "_by_name", "_by_path")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._by_path: dict[str, Entry] = {}
        self._by_name: dict[str, Entry] = {}

    def step(self, path: str, seconds: float) -> None:
        entry = self._by_path.get(path) or self._entry(path)
        entry.count += 1
        entry.seconds += seconds
        entry.buckets[bisect_left(self._bounds, seconds)] += 1

    def retry(self, path: str) -> None:
        (self._by_path.get(path) or self._entry(path)).retries += 1

    def taken(self, tenant: str, workflow: str) -> list[Added]:
        """What is new; it counts as added from here on."""
        added = []
        for name, entry in self._by_name.items():
            if entry.count:
                added.append(Added(tenant, workflow, "step", name, entry.count, entry.seconds, entry.buckets))
            if entry.retries:
                added.append(Added(tenant, workflow, "retry", name, entry.retries, 0.0, None))
            if entry.count or entry.retries:
                entry.clear()
        return added

    def _entry(self, path: str) -> Entry:
        name = _COUNT.sub("", names.split(path)[1])
        if name not in self._by_name and len(self._by_name) >= MOST:
            name = OTHER
        entry = self._by_name.setdefault(name, Entry(len(self._bounds)))
        if len(self._by_path) < 10 * MOST:
            self._by_path[path] = entry
        return entry


class Tally:
    """The counts of a worker. `stop` adds what is left."""

    def __init__(self, store: Tallies) -> None:
        self._store = store
        self._bounds: list[float] = []
        self._counts: dict[tuple[str, str], Counts] = {}
        self._additions = 0

    async def start(self) -> None:
        self._bounds = await self._store.buckets()

    def of(self, tenant: str, workflow: str) -> Counts:
        found = self._counts.get((tenant, workflow))
        if found is None:
            found = self._counts[tenant, workflow] = Counts(self._bounds)
        return found

    async def loop(self) -> None:
        while True:
            await asyncio.sleep(PAUSE)
            try:
                await self.add()
            except TRANSIENT:  # counted, and not added: the outcome is unknown, and twice would be worse
                continue

    async def add(self) -> None:
        new = [one for (tenant, workflow), counts in self._counts.items() for one in counts.taken(tenant, workflow)]
        if new:
            await self._store.add(new)
        self._additions += 1
        if self._additions % FOLD == 0:
            while await self._store.fold(FOLDED_AT_ONCE) >= FOLDED_AT_ONCE:
                pass
