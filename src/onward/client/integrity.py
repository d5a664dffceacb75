"""Is what the journal points to still there, and still what it was? Every object is read whole and hashed.

Nothing is repaired: what a person restores from a backup or a version of the bucket is read by the next check, and by
the runs that are parked for it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from onward.client.payloads import Payloads, patiently
from onward.core import names, pointers
from onward.core.pointers import Pointer
from onward.errors import PayloadCorrupt, PayloadMissing
from onward.store.database import Database
from onward.store.references import Reference, References

_AT_ONCE = 8
_BYTES_AT_ONCE = 64 << 20


class Damage(NamedTuple):
    """A pointer that does not resolve. `where`: the step, or which other value of the run."""

    run_id: UUID
    where: str
    key: str | None
    problem: str


class Checked(NamedTuple):
    """A part of a check: how many pointers, how many bytes were read, and what was wrong."""

    pointers: int
    size: int
    damaged: Sequence[Damage]


class _Target(NamedTuple):
    reference: Reference
    pointer: Pointer


async def verify(
    database: Database,
    payloads: Payloads,
    *,
    tenant: str | None,
    run_id: UUID | None = None,
    sample: int | None = None,
) -> AsyncIterator[Checked]:
    """Reads what the rows point to: of one run, of a tenant, of all tenants (None); or so many of them, at random."""
    references = References(database)
    pages = references.all(tenant) if run_id is None else _one(await references.of([run_id]))
    if sample is not None:
        pages = _one(await _sampled(pages, sample))
    async for page in pages:
        targets, damaged = _decoded(page)
        if damaged:
            yield Checked(len(damaged), 0, damaged)
        for group in _groups(targets):
            found = await asyncio.gather(*(_check(references, payloads, target) for target in group))
            size = sum(target.pointer.size for target in group)
            yield Checked(len(group), size, [damage for damage in found if damage is not None])


async def _one(page: list[Reference]) -> AsyncIterator[list[Reference]]:
    yield page


async def _sampled(pages: AsyncIterator[list[Reference]], count: int) -> list[Reference]:
    """So many of all, each as likely as any other: with one pass, and no more in memory than these."""
    kept: list[Reference] = []
    seen = 0
    async for page in pages:
        for reference in page:
            seen += 1
            if len(kept) < count:
                kept.append(reference)
            elif (place := random.randrange(seen)) < count:
                kept[place] = reference
    return kept


def _decoded(page: Iterable[Reference]) -> tuple[list[_Target], list[Damage]]:
    targets, damaged = [], []
    for reference in page:
        try:
            targets.append(_Target(reference, pointers.decode(reference.pointer)))
        except PayloadCorrupt as error:
            damaged.append(Damage(reference.run_id, _where(reference), None, str(error)))
    return targets, damaged


def _groups(targets: Sequence[_Target]) -> Iterator[list[_Target]]:
    """Those that are read side by side: few, and not too large together."""
    group: list[_Target] = []
    for target in targets:
        size = sum(other.pointer.size for other in group) + target.pointer.size
        if group and (len(group) == _AT_ONCE or size > _BYTES_AT_ONCE):
            yield group
            group = []
        group.append(target)
    if group:
        yield group


async def _check(references: References, payloads: Payloads, target: _Target) -> Damage | None:
    reference = target.reference
    try:
        await patiently(lambda: payloads.read(target.pointer), None)
    except (PayloadMissing, PayloadCorrupt) as error:
        if reference in await references.of([reference.run_id]):  # and its run was not removed meanwhile
            return Damage(reference.run_id, _where(reference), target.pointer.key, str(error))
    return None


def _where(reference: Reference) -> str:
    if reference.part == "step":
        return f"step {names.shown(reference.name or '')}"
    return f"signal {reference.name!r}" if reference.part == "signal" else reference.part
