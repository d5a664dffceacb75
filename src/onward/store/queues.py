"""What clients ask of users' queues."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from onward.store.database import Database

CHANNEL = "onward_queue"
"""Where queues that somebody waits for are told, as `tenant/queue`."""


class NewMessage(NamedTuple):
    """A message to be sent. `search`: where its body is no JSON for `jsonb`, the same for a search."""

    msg_id: UUID
    group: str | None
    delay: float | None
    body: bytes
    search: str | None
    headers: bytes | None


class MessageRecord(NamedTuple):
    """A message that was handed out, or looked at (`receipt` 0). `dead`: JSON about a dead letter's past."""

    msg_id: UUID
    body: bytes
    headers: bytes | None
    dead: str | None
    group: str | None
    read_count: int
    enqueued_at: datetime
    visible_at: datetime
    receipt: int


class StatsRecord(NamedTuple):
    queue: str
    ready: int
    delayed: int
    in_flight: int
    dead: int
    oldest: datetime | None


class Due(NamedTuple):
    """A queue with a message that is ready in so many seconds."""

    tenant: str
    queue: str
    seconds: float


class Queues:
    """The queues of one tenant."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database, self._tenant = database, tenant

    async def send(self, queue: str, messages: Sequence[NewMessage]) -> None:
        ids, groups, delays, bodies, searches, headers = (list(column) for column in zip(*messages, strict=True))
        await self._database.fetch(
            "select onward.send_messages($1, $2, $3, $4, $5, $6, $7, $8)",
            self._tenant,
            [queue] * len(ids),
            ids,
            groups,
            delays,
            bodies,
            searches,
            headers,
        )

    async def receive(
        self, queue: str, most: int, visibility: float, max_receives: int | None, match: str | None
    ) -> list[MessageRecord]:
        rows = await self._database.fetch(
            "select * from onward.receive_messages($1, $2, $3, $4, $5, $6)",
            self._tenant,
            queue,
            most,
            visibility,
            max_receives,
            match,
        )
        return [MessageRecord(*row) for row in rows]

    async def delete(self, queue: str, ids: Sequence[UUID], receipts: Sequence[int]) -> list[str]:
        """A word each: deleted, stale, gone."""
        rows = await self._database.fetch(
            "select * from onward.delete_messages($1, $2, $3, $4)", self._tenant, queue, ids, receipts
        )
        return [row[0] for row in rows]

    async def change_visibility(
        self, queue: str, msg_id: UUID, receipt: int, seconds: float
    ) -> tuple[str, datetime | None]:
        """A word (changed, stale, gone) and until when the message is out now."""
        row = await self._database.fetchrow(
            "select * from onward.change_visibility($1, $2, $3, $4, $5)", self._tenant, queue, msg_id, receipt, seconds
        )
        assert row is not None
        return row["outcome"], row["ends_at"]

    async def give_back(self, queue: str, messages: Iterable[tuple[UUID, int]], unfit: str | None = None) -> None:
        """Hand-outs that do not count, by id and receipt."""
        held = list(messages)
        await self._database.fetch(
            "select onward.give_back($1, $2, $3, $4, $5)",
            self._tenant,
            queue,
            [msg_id for msg_id, _ in held],
            [receipt for _, receipt in held],
            unfit,
        )

    async def bury(self, queue: str, msg_id: UUID, receipt: int, reason: str) -> bool:
        buried: bool = await self._database.fetchval(
            "select onward.bury_letter($1, $2, $3, $4, $5)", self._tenant, queue, msg_id, receipt, reason
        )
        return buried

    async def resend(self, queue: str, limit: int) -> int:
        """Dead letters of the queue: how many were sent again."""
        sent: int = await self._database.fetchval(
            "select onward.resend_letters($1, $2, $3)", self._tenant, queue, limit
        )
        return sent

    async def purge(self, queue: str, until: int | None, limit: int) -> tuple[int, int]:
        """How many were deleted, and until where this purge goes: the next call is given that."""
        row = await self._database.fetchrow(
            "select * from onward.purge_queue($1, $2, $3, $4)", self._tenant, queue, until, limit
        )
        assert row is not None
        return row["purged"], row["until"]

    async def peek(self, queue: str, limit: int) -> list[MessageRecord]:
        rows = await self._database.fetch("select * from onward.list_messages($1, $2, $3)", self._tenant, queue, limit)
        return [MessageRecord(*row) for row in rows]

    async def stats(self, queue: str) -> StatsRecord:
        row = await self._database.fetchrow("select * from onward.queue_stats($1, $2)", self._tenant, queue)
        assert row is not None
        return StatsRecord(*row)

    async def all(self) -> list[StatsRecord]:
        rows = await self._database.fetch("select * from onward.list_queues($1)", self._tenant)
        return [StatsRecord(*row) for row in rows]


async def due(database: Database, queues: Iterable[tuple[str, str]], seconds: float) -> list[Due]:
    """Which of these (tenant, queue) have a message that is ready, or soon will. With `seconds`, they are told on
    CHANNEL for so long."""
    wanted = list(queues)
    rows = await database.fetch(
        "select * from onward.await_messages($1, $2, $3)",
        [tenant for tenant, _ in wanted],
        [queue for _, queue in wanted],
        seconds,
    )
    return [Due(*row) for row in rows]
