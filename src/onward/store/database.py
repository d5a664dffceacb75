"""A pool of connections that rides out a restart of the database.

Every function of the schema may be called again after an unknown outcome (each file says why), so a call whose
connection broke is simply made again, until the database has been away for longer than `patience`. The one caller
that must not do that by itself is the committer: it repeats under a higher number (see worker/committer.py) and
uses a `Line`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from onward.errors import DatabaseUnavailable, OnwardError
from onward.store import schema

T = TypeVar("T")

BROKEN = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleSessionTimeoutError,
)
"""What tells of the connection, not of the statement."""

UNFIT = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
"""The database could not take a value: sending it again would not help."""

REFUSED = asyncpg.PostgresError
"""Whatever else the database may say to a statement."""


class Database:
    """One database, reached by a small pool. Connects when first used; `close` may be called twice."""

    def __init__(self, url: str, *, size: int = 4, patience: float = 30.0, name: str = "onward") -> None:
        self.url = url
        self.patience = patience
        self._size = size
        self._name = name
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = await self._patiently(lambda c: c.fetch(sql, *args))
        return rows

    async def fetchrow(self, sql: str, *args: Any) -> asyncpg.Record | None:
        return await self._patiently(lambda c: c.fetchrow(sql, *args))

    async def fetchval(self, sql: str, *args: Any) -> Any:
        return await self._patiently(lambda c: c.fetchval(sql, *args))

    def line(self) -> Line:
        """A connection that one caller keeps."""
        return Line(self)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection of the pool, for callers that look at errors themselves."""
        pool = self._pool or await self._open()
        async with pool.acquire() as connection:
            yield connection

    async def close(self) -> None:
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(5):
                    await pool.close()
            except (TimeoutError, *BROKEN):
                pool.terminate()

    async def connect(self) -> asyncpg.Connection:
        """A connection of one's own, outside the pool: for LISTEN and for the session lock."""
        return await connect(self.url, self._name)

    async def _patiently(self, call: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience
        pause = 0.05
        while True:
            try:
                async with self.connection() as connection:
                    return await call(connection)
            except BROKEN as error:
                if self._closed:
                    raise DatabaseUnavailable("this client is closed") from error
                if loop.time() + pause > deadline:
                    raise unavailable(self.url, error) from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 1.0)

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._closed:
                raise asyncpg.InterfaceError("closed")
            if self._pool is None:
                connection = await self.connect()
                try:
                    await schema.ensure(connection)
                finally:
                    await connection.close()
                self._pool = await asyncpg.create_pool(
                    self.url, min_size=1, max_size=self._size, reset=_leave_as_it_is, **_settings(self._name)
                )
            return self._pool


class Line:
    """One connection, kept for one caller that calls again and again: the pool's hand-over costs more than some calls.

    A broken connection is raised as one of BROKEN, its outcome unknown; the next call opens another.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: asyncpg.Connection | None = None
        self._statements: dict[str, asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]] = {}

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        try:
            statement = self._statements.get(sql) or await self._prepare(sql)
            rows: list[asyncpg.Record] = await statement.fetch(*args)
            return rows
        except BROKEN:
            self.close()
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        self._statements.clear()
        if connection is not None:
            connection.terminate()

    async def _prepare(self, sql: str) -> asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]:
        if self._connection is None:
            self._connection = await self._database.connect()
        statement = self._statements[sql] = await self._connection.prepare(sql)
        return statement


async def connect(url: str, name: str = "onward") -> asyncpg.Connection:
    """One connection, with errors that a person can act on."""
    try:
        return await asyncpg.connect(url, **_settings(name))
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError) as error:
        raise OnwardError(f"the database refused the user or password of {shown(url)}: {error}") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise OnwardError(f"{error}: create it first, for instance with createdb") from error
    except ValueError as error:
        raise OnwardError(f"this is no database URL: {shown(url)} ({error})") from error


async def _leave_as_it_is(connection: asyncpg.Connection) -> None:
    """Our calls leave no state in a session, and the pool's reset would be one more round trip after each."""


def unavailable(url: str, error: BaseException) -> DatabaseUnavailable:
    return DatabaseUnavailable(f"cannot reach the database {shown(url)}: {error or type(error).__name__}")


def shown(url: str) -> str:
    """A URL without its password: errors end up in logs."""
    head, at, tail = url.rpartition("@")
    scheme, slashes, login = head.partition("://")
    return f"{scheme}{slashes}{login.partition(':')[0]}{at}{tail}"


def _settings(name: str) -> dict[str, Any]:
    return {
        "timeout": 10,
        "server_settings": {"application_name": name, "jit": "off"},
    }
