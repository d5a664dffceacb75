"""What retention asks of the database: to remove the rows of expired runs, and to tell whose objects are to follow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from onward.store.database import Database


class Removed(NamedTuple):
    """A run whose rows are gone and whose objects are to be deleted. `removed_at`: which removal."""

    run_id: UUID
    tenant: str
    workflow: str
    removed_at: datetime


class Removable(NamedTuple):
    """How many runs have expired, and how many are removed but for their objects."""

    expired: int
    removed: int


class Removals:
    """The runs of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def expired(self, limit: int) -> tuple[int, bool]:
        """Removes some: how many, and whether there are more."""
        row = await self._database.fetchrow("select * from onward.remove_expired($1)", limit)
        assert row is not None
        return row["removed"], row["looked_at"] == limit

    async def begin_sweep(self, interval: timedelta) -> bool:
        """May the caller sweep now? One may, an interval."""
        may: bool = await self._database.fetchval("select onward.begin_sweep($1)", interval)
        return may

    async def set_ceiling(self, days: int) -> None:
        """How long any run is kept at the most."""
        await self._database.fetch("select onward.set_ceiling($1)", days)

    async def removed(self, limit: int) -> list[Removed]:
        return [Removed(*row) for row in await self._database.fetch("select * from onward.list_removed($1)", limit)]

    async def finish(self, done: Sequence[tuple[Removed, bool]]) -> None:
        """Their objects are deleted; `True` where some are left that others point to."""
        await self._database.fetch(
            "select onward.finish_removed($1, $2, $3)",
            [run.run_id for run, _ in done],
            [run.removed_at for run, _ in done],
            [kept for _, kept in done],
        )

    async def count(self) -> Removable:
        row = await self._database.fetchrow("select * from onward.count_removable()")
        assert row is not None
        return Removable(*row)
