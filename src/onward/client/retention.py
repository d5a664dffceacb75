"""Removing what retention no longer keeps: rows first, objects after.

What is deleted first decides what a crash leaves. A row without its object is a run that cannot be read; an object
without its row is garbage that a list of what is to do finds. So one transaction removes a run's rows and writes that
its objects are to follow (`removed`), and the objects go afterwards, in batches that may all be repeated:

1. Which runs are due, each with the moment of its removal.
2. Which of their objects others point to: reruns, parents of invoked runs. What is journalled after this look can only
   repeat such a pointer: nobody else has one.
3. All else below their prefixes is deleted.
4. They are done, unless the moment has changed: then one of the others has gone meanwhile, and the look was too old.

A run with objects that others need waits at infinity until one of them goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from onward.client.payloads import Payloads, Place, patiently
from onward.core import pointers
from onward.payloads.layout import Owner
from onward.store.database import Database
from onward.store.references import References
from onward.store.removals import Removals, Removed

RUNS_AT_ONCE = 500
OBJECTS_AT_ONCE = 1000
_SIDE_BY_SIDE = 8


class Counts(NamedTuple):
    """What was removed."""

    runs: int = 0
    objects: int = 0
    size: int = 0

    def __add__(self, other: object) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        return Counts(self.runs + other.runs, self.objects + other.objects, self.size + other.size)


Told = Callable[[Counts], None]
"""Is told what was removed so far."""


async def remove_expired(database: Database, payloads: Payloads, *, told: Told = lambda _: None) -> Counts:
    """Removes all runs that have expired, and the objects of all that are removed. Any number may do this at once."""
    removals, counts, more = Removals(database), Counts(), True
    while more:
        runs, more = await removals.expired(RUNS_AT_ONCE)
        counts += Counts(runs=runs)
        told(counts)
    while due := await removals.removed(RUNS_AT_ONCE):
        place = await payloads.required("deleting the payloads of removed runs")
        counts += await _delete(References(database), removals, place, due)
        told(counts)
    return counts


async def _delete(references: References, removals: Removals, place: Place, due: list[Removed]) -> Counts:
    """The objects of these runs, but for what others need."""
    needed = keys(await references.needed(run.run_id for run in due))
    slots = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def one(run: Removed) -> tuple[Counts, bool]:
        owner = Owner(run.tenant, run.workflow, run.run_id)
        async with slots:
            return await patiently(lambda: _delete_of(place, owner, needed), None)

    done = await asyncio.gather(*map(one, due))
    await removals.finish([(run, kept) for run, (_, kept) in zip(due, done, strict=True)])
    return sum((counts for counts, _ in done), Counts())


async def _delete_of(place: Place, owner: Owner, needed: set[str]) -> tuple[Counts, bool]:
    """Of one run: what was deleted, and whether something was kept."""
    counts, kept = Counts(), False
    for prefix in place.layout.run(owner):
        deleted = Counts(objects=1)
        while deleted.objects:  # a folder that is emptied while it is listed may hide some of what it holds
            deleted, some = await _empty(place, prefix, needed)
            counts, kept = counts + deleted, kept or some
    return counts, kept


async def _empty(place: Place, prefix: str, needed: set[str]) -> tuple[Counts, bool]:
    batch: list[str] = []
    counts, kept = Counts(), False
    async for stored in place.objects.list(prefix):
        if stored.key in needed:
            kept = True
            continue
        batch.append(stored.key)
        counts += Counts(objects=1, size=stored.size)
        if len(batch) == OBJECTS_AT_ONCE:
            await place.objects.delete(batch)
            batch = []
    await place.objects.delete(batch)
    return counts, kept


def keys(journalled: Iterable[bytes]) -> set[str]:
    """What these pointers name."""
    return {pointers.decode(data).key for data in journalled}
