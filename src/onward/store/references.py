"""Which rows point to objects, for whoever deletes objects or looks after them. All tenants, unless one is named."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple
from uuid import UUID

from onward.store.database import Database

_PAGE = 1000


class Reference(NamedTuple):
    """A pointer in a row of a run. `part`: step, input, output or signal; `name`: the step's path, or the event."""

    run_id: UUID
    part: str
    name: str | None
    pointer: bytes


class OwnerRecord(NamedTuple):
    """A run that is there. `is_over`: nothing of it is journalled any more."""

    run_id: UUID
    tenant: str
    workflow: str
    is_over: bool


class References:
    """Of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, run_ids: Iterable[UUID]) -> list[Reference]:
        """Every pointer in the rows of these runs."""
        rows = await self._database.fetch("select * from onward.list_pointers($1)", list(run_ids))
        return [Reference(*row) for row in rows]

    async def all(self, tenant: str | None) -> AsyncIterator[list[Reference]]:
        """Page by page; `None` is all tenants."""
        last: UUID | None = None
        while True:
            rows = await self._database.fetch("select onward.list_ids($1, $2, $3)", tenant, last, _PAGE)
            if not rows:
                return
            ids = [row[0] for row in rows]
            last = ids[-1]
            yield await self.of(ids)

    async def needed(self, owners: Iterable[UUID]) -> list[bytes]:
        """The pointers that keep objects of these runs, wherever they are. Read it last (see the function)."""
        return [row[0] for row in await self._database.fetch("select onward.list_needed($1)", list(owners))]

    async def owners(self, run_ids: Iterable[UUID]) -> list[OwnerRecord]:
        """Those that are there."""
        rows = await self._database.fetch("select * from onward.list_owners($1)", list(run_ids))
        return [OwnerRecord(*row) for row in rows]

    async def paths(self, run_ids: Iterable[UUID]) -> list[tuple[UUID, str]]:
        """Of all journalled steps of these runs."""
        rows = await self._database.fetch("select * from onward.list_paths($1)", list(run_ids))
        return [(row[0], row[1]) for row in rows]
