"""What deliverers ask of the database. All tenants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from onward.store.database import Database

CHANNEL = "onward_delivery"
"""Where new deliveries are told."""


class Delivery(NamedTuple):
    """Something to be posted, in its caller's hands. `attempt` counts from 1; `at`: now, in seconds since 1970."""

    id: UUID
    tenant: str
    subscription_id: UUID
    topic: str
    url: str
    secret: str
    body: bytes
    attempt: int
    receipt: int
    at: float


class Deliveries:
    """The deliveries of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self, most: int, each: int, full: Iterable[UUID], visibility: float
    ) -> tuple[list[Delivery], float | None]:
        """Some that are due, at most `each` of a subscription and none of those in `full`; and in how many seconds the
        next one is."""
        rows = await self._database.fetch(
            "select * from onward.claim_deliveries($1, $2, $3, $4)", most, each, list(full), visibility
        )
        return [Delivery(*row[:10]) for row in rows[:-1]], rows[-1]["due_in"]

    async def settle(self, delivery: Delivery, outcome: str, error: str | None = None, delay: float = 0.0) -> bool:
        """`outcome`: done, retry, dead, release. False: it was handed on."""
        settled: bool = await self._database.fetchval(
            "select onward.settle_delivery($1, $2, $3, $4, $5)", delivery.id, delivery.receipt, outcome, error, delay
        )
        return settled

    async def forget_publications(self, limit: int) -> int:
        forgotten: int = await self._database.fetchval("select onward.forget_publications($1)", limit)
        return forgotten
