"""What `onward doctor` and `onward migrate` ask: is the server fit, does the schema fit, which runs stand still.

Unlike the rest of the store, these calls must answer on a database that is not fit for use, so they go over one
connection of their own and never set anything up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import NamedTuple
from uuid import UUID

import asyncpg

from onward.store import schema
from onward.store.database import BROKEN, connect, unavailable
from onward.store.runs import WorkerRecord


class Server(NamedTuple):
    """The server's own word on itself."""

    version: int
    name: str
    replica: bool
    fsync: bool
    max_connections: int
    connections: int


class Trouble(NamedTuple):
    """Runs of one workflow's version that stand still for one cause, with an example."""

    trouble: str
    workflow: str
    version: int | None
    runs: int
    run_id: UUID
    tenant: str
    reason: str | None


class Health:
    """One database, asked over one connection. Get it with `examine`."""

    def __init__(self, url: str, connection: asyncpg.Connection) -> None:
        self._url, self._connection = url, connection

    async def server(self) -> Server:
        row = await self._connection.fetchrow(
            "select current_setting('server_version_num')::int / 10000, current_setting('server_version'), "
            "pg_is_in_recovery(), current_setting('fsync')::boolean, "
            "current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, "
            "(select count(*) from pg_stat_activity where backend_type = 'client backend')"
        )
        return Server(*row)

    async def schema(self) -> int:
        """The schema's number; 0 where there is none."""
        return await schema.version(self._connection)

    async def migrate(self, *, dry_run: bool) -> list[int]:
        """Brings the schema up to this release; the numbers that were (or would be) applied."""
        return await schema.migrate(self._connection, dry_run=dry_run)

    async def workers(self) -> list[WorkerRecord]:
        return [WorkerRecord(*row) for row in await self._connection.fetch("select * from onward.list_workers()")]

    async def troubles(self) -> list[Trouble]:
        return [Trouble(*row) for row in await self._connection.fetch("select * from onward.list_troubles()")]

    async def hears(self, seconds: float = 2.0) -> bool:
        """Does a notification arrive? Behind a pooler that shares sessions it does not."""
        channel, heard = f"onward_doctor_{os.urandom(8).hex()}", asyncio.Event()
        await self._connection.add_listener(channel, lambda *_: heard.set())
        teller = await connect(self._url, "onward doctor")
        try:
            await teller.execute("select pg_notify($1, '')", channel)
            await asyncio.wait_for(heard.wait(), seconds)
        except TimeoutError:
            return False
        finally:
            await teller.close()
        return True


@contextlib.asynccontextmanager
async def examine(url: str) -> AsyncIterator[Health]:
    """A look at the database, fit or not. DatabaseUnavailable at once where it does not answer."""
    try:
        connection = await connect(url, "onward doctor")
    except (TimeoutError, *BROKEN) as error:
        raise unavailable(url, error) from error
    try:
        yield Health(url, connection)
    finally:
        with contextlib.suppress(TimeoutError, *BROKEN):
            await connection.close(timeout=2)
