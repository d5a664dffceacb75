"""Finding objects that nobody needs: those that belong to a run and are named by no row.

A crash between an object and its journal row leaves one; so does an attempt whose worker was fenced off, and a start
that never came to its row. A sweep lists what belongs to runs, holds it against the rows, and deletes what is left. It
must never delete an object whose pointer is committed, not even in the moment after the look:

- What is younger than a day is left: its row may be on its way, or its run about to be started.
- Of a run that has ended, or is gone, nothing is journalled any more: what no row names now, none ever will.
- A run that goes on may still adopt what an earlier attempt left, because an equal object under the same key is taken
  as written (payloads/objects.py). So the object of a step that is not journalled yet is told, and left. Once the step
  is journalled, its pointer is final, and what else was written for it is garbage.
- Pointers are read last, after what decides what they mean: which runs have ended, which steps are journalled.

Inputs and outputs of a run that is there stay, whatever its rows say: ONWARD_PAYLOAD_PERSIST=all writes them beside
the rows. What lies under `tmp/` goes by age: by a rule of the bucket, or here, where the store is a folder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from onward.client.payloads import Payloads, patiently
from onward.client.retention import keys
from onward.payloads.layout import EXTENSIONS, Layout, Owner, first
from onward.payloads.objects import Objects, Stored
from onward.payloads.rules import TMP_DAYS
from onward.store.database import Database
from onward.store.references import OwnerRecord, References

AGE = timedelta(days=1)
"""How old an object has to be before it counts as left behind."""
_AT_ONCE = 10_000


class Swept(NamedTuple):
    """A part of a sweep: how many objects were looked at, and which were deleted (or would have been).

    `orphans`: no row names them; `unsettled`: nor these, but their run goes on and may yet, so they were left;
    `outdated`: from below `tmp/`."""

    looked_at: int
    orphans: Sequence[Stored] = ()
    unsettled: Sequence[Stored] = ()
    outdated: Sequence[Stored] = ()


class _Owned(NamedTuple):
    stored: Stored
    owner: Owner


async def sweep(
    database: Database, payloads: Payloads, *, older_than: timedelta = AGE, dry_run: bool = False
) -> AsyncIterator[Swept]:
    """Goes through the whole store, batch by batch; nothing where none is configured."""
    place = await payloads.place()
    if place is None:
        return
    now = datetime.now(UTC)
    for prefix in place.layout.swept:
        async for looked_at, old in _batches(place.objects, prefix, now - older_than):
            swept = await _judged(References(database), place.layout, old)
            await _delete(place.objects, swept.orphans, dry_run)
            yield swept._replace(looked_at=looked_at)
    if place.objects.address.startswith("file:"):
        async for looked_at, old in _batches(place.objects, place.layout.tmp, now - timedelta(days=TMP_DAYS)):
            await _delete(place.objects, old, dry_run)
            yield Swept(looked_at, outdated=old)


async def _batches(objects: Objects, prefix: str, before: datetime) -> AsyncIterator[tuple[int, list[Stored]]]:
    """How many objects lie there, and those of them that are older."""
    looked_at, old = 0, []
    async for stored in objects.list(prefix):
        looked_at += 1
        if stored.modified <= before:
            old.append(stored)
        if looked_at == _AT_ONCE:
            yield looked_at, old
            looked_at, old = 0, []
    yield looked_at, old


async def _delete(objects: Objects, stored: Sequence[Stored], dry_run: bool) -> None:
    if stored and not dry_run:
        await patiently(lambda: objects.delete(one.key for one in stored), None)


async def _judged(references: References, layout: Layout, stored: Sequence[Stored]) -> Swept:
    """Which of these nobody needs."""
    owned = [_Owned(one, owner) for one in stored if (owner := layout.owner(one.key)) is not None]
    runs = {run.run_id: run for run in await references.owners({o.owner.run_id for o in owned})}
    left = [o for o in await _unneeded(references, owned) if not (_run(runs, o) and _is_record(layout, o))]
    running = {run.run_id: o.owner for o in left if (run := _run(runs, o)) is not None and not run.is_over}
    settled = await _settled(references, layout, running)
    if settled:
        left = await _unneeded(references, left)  # without what was journalled before that look
    orphans: list[Stored] = []
    unsettled: list[Stored] = []
    for o in left:
        final = o.owner.run_id not in running or _is_final(layout, o, settled)
        (orphans if final else unsettled).append(o.stored)
    return Swept(0, orphans, unsettled)


async def _unneeded(references: References, owned: Sequence[_Owned]) -> list[_Owned]:
    needed = keys(await references.needed({o.owner.run_id for o in owned})) if owned else set()
    return [o for o in owned if o.stored.key not in needed]


async def _settled(references: References, layout: Layout, running: Mapping[UUID, Owner]) -> set[str]:
    """Under which keys nothing is journalled any more, of runs that go on: those of journalled steps."""
    paths = await references.paths(running) if running else []
    return {layout.step(running[run_id], path, kind) for run_id, path in paths for kind in EXTENSIONS.values()}


def _run(runs: Mapping[UUID, OwnerRecord], owned: _Owned) -> OwnerRecord | None:
    """The run that an object lies below, if it is there."""
    run = runs.get(owned.owner.run_id)
    return run if run is not None and (run.tenant, run.workflow, run.run_id) == owned.owner else None


def _is_record(layout: Layout, owned: _Owned) -> bool:
    """Is it an input or an output?"""
    return first(owned.stored.key) in (layout.input(owned.owner), layout.output(owned.owner))


def _is_final(layout: Layout, owned: _Owned, settled: set[str]) -> bool:
    """Of a run that goes on: is this certain never to be journalled? A signal's key is used once."""
    key, (_, executions) = owned.stored.key, layout.run(owned.owner)
    return key.endswith(".part") or key.startswith(f"{executions}signals/") or first(key) in settled
