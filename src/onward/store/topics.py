"""What clients ask of topics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from onward.store.database import Database


class Publication(NamedTuple):
    """Something to be published. `search`: of the body, as in a queue; `input_search`: of the input of runs.
    `runs` and `inputs`: where the body lies outside, its copy for each run; else None."""

    id: UUID
    key: str | None
    hash: bytes
    body: bytes
    search: str | None
    input_search: str | None
    runs: Sequence[UUID] | None = None
    inputs: Sequence[bytes] | None = None


class Published(NamedTuple):
    """`outcome`: done; known (under this key it was done before); conflict (the key belongs to another body); again (a
    run is missing among those prepared)."""

    outcome: str
    delivered: int


class Subscribed(NamedTuple):
    """A subscription that a topic reaches, and the id of what comes of it: message, run or delivery."""

    subscription_id: UUID
    kind: str
    target: str
    id: UUID


class SubscriptionRecord(NamedTuple):
    """`target`: the name of the queue or workflow, or the URL. `waiting`: deliveries that are to be made."""

    subscription_id: UUID
    pattern: str
    kind: str
    target: str
    created_at: datetime
    waiting: int
    trouble: str | None


class Topics:
    """The topics of one tenant."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database, self._tenant = database, tenant

    async def publish(self, topic: str, publication: Publication) -> Published:
        row = await self._database.fetchrow(
            "select * from onward.publish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", self._tenant, topic, *publication
        )
        assert row is not None
        return Published(*row)

    async def subscribed(self, topic: str, publication: UUID) -> list[Subscribed]:
        rows = await self._database.fetch(
            "select * from onward.list_subscribed($1, $2, $3)", self._tenant, topic, publication
        )
        return [Subscribed(*row) for row in rows]

    async def subscribe(
        self, subscription: UUID, pattern: str, kind: str, target: str, secret: str | None, new_secret: str | None
    ) -> tuple[UUID, str | None, datetime]:
        """Its id, the secret that this call has set, and since when it is there. `new_secret`: where none is given."""
        row = await self._database.fetchrow(
            "select * from onward.subscribe($1, $2, $3, $4, $5, $6, $7)",
            self._tenant,
            subscription,
            pattern,
            kind,
            target,
            secret,
            new_secret,
        )
        assert row is not None
        return row["subscription_id"], row["secret"], row["created_at"]

    async def unsubscribe(self, subscription: UUID) -> bool:
        gone: bool = await self._database.fetchval("select onward.unsubscribe($1, $2)", self._tenant, subscription)
        return gone

    async def subscriptions(self, pattern: str | None) -> list[SubscriptionRecord]:
        rows = await self._database.fetch("select * from onward.list_subscriptions($1, $2)", self._tenant, pattern)
        return [SubscriptionRecord(*row) for row in rows]
