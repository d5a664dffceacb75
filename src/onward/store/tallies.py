"""What happened, counted: workers add what they saw, anybody folds, metrics read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onward.store.database import Database


class Counted(NamedTuple):
    """Of one workflow: `label` is a status, a step or an event; `buckets` are those of `onward.buckets`."""

    workflow: str
    metric: str
    label: str
    number: int
    seconds: float
    buckets: list[int] | None


class Added(NamedTuple):
    """What a worker counted since it last said so."""

    tenant: str
    workflow: str
    metric: str
    label: str
    number: int
    seconds: float
    buckets: list[int] | None


class Tallies:
    """The counts of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, added: Sequence[Added]) -> None:
        columns = [list(column) for column in zip(*added, strict=True)]
        columns[-1] = [None if b is None else "{" + ",".join(map(str, b)) + "}" for b in columns[-1]]
        await self._database.fetch("select onward.add_tallies($1, $2, $3, $4, $5, $6, $7)", *columns)

    async def fold(self, limit: int) -> int:
        """How many rows were folded; fewer than `limit` means that there are no more for now."""
        folded: int = await self._database.fetchval("select onward.fold_tally($1)", limit)
        return folded

    async def all(self, tenant: str | None = None) -> list[Counted]:
        """Of all tenants together, or of one."""
        return [Counted(*row) for row in await self._database.fetch("select * from onward.list_tallies($1)", tenant)]

    async def buckets(self) -> list[float]:
        bounds: list[float] = await self._database.fetchval("select onward.buckets()")
        return bounds
