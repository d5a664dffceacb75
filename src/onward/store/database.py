"""A few connections that ride out a restart of the database.

Every function of the schema may be called again after an unknown outcome (each file says why), so a call whose
connection broke is simply made again, until the database has been away for longer than `patience`. The callers that
must not do that by themselves keep a `Line`: the committer repeats under a higher number (worker/committer.py), and a
claim whose answer was lost is found by `attend`.

asyncpg's own pool is not used: it runs a query to clean a session up after every call, which doubles the round trips,
and our calls leave nothing behind in a session.
"""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import asyncpg

from onward.errors import DatabaseUnavailable, InvalidInput, OnwardError
from onward.store import schema

BROKEN = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # told of the server's end, and not closed yet
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.InvalidCachedStatementError,  # the schema was upgraded: another connection knows the new one
)
"""What tells of the connection, not of the statement."""

UNFIT = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
"""The database could not take a value: sending it again would not help."""

REFUSED = asyncpg.PostgresError
"""Whatever else the database may say to a statement."""

TRANSIENT = (DatabaseUnavailable, TimeoutError, *BROKEN, REFUSED)
"""What a loop that comes round again notes and goes on after: a cancelled statement must not end a worker."""


_PASSWORD = re.compile(r"(password\s*=\s*)('[^']*'|[^&\s]*)", re.IGNORECASE)
"""In the query of a URL (`password`, `sslpassword`), and in what libpq takes instead of one."""


class Line:
    """One connection with its prepared statements, for one call at a time. Opened by the first call.

    A broken connection is raised as one of BROKEN, its outcome unknown; the next call opens another. So is one that
    says nothing for `silence` seconds, as half-open ones do for ever: one timer looks for that now and then, because
    a timer for each call takes a tenth of a short one. The call is cancelled then, which also tells the server.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: asyncpg.Connection | None = None
        self._statements: dict[str, asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]] = {}
        self._since = 0.0  # when the call was made that is not answered yet
        self._caller: asyncio.Task[Any] | None = None  # whose call it is
        self._cancels = 0  # how often it had been cancelled before
        self._given_up = False
        self._watch: asyncio.TimerHandle | None = None

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        try:
            statement = self._statements.get(sql) or await self._prepare(sql)
            self._waits()
            rows: list[asyncpg.Record] = await statement.fetch(*args)
        except REFUSED as error:
            if isinstance(error, BROKEN):
                self.close()
            raise
        except BaseException as error:  # broken, or given up in the middle of an answer: it is of no use any more
            self.close()
            if self._was_silence(error):
                raise TimeoutError(f"no answer for {self._database.silence:g} seconds") from error
            raise
        finally:
            self._caller = None
        return rows

    async def prepare(self, *statements: str) -> None:
        """Opens the connection ahead of its first call, which then need not wait for it."""
        for sql in statements:
            if sql not in self._statements:
                await self._prepare(sql)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        self._statements.clear()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if connection is not None:
            connection.terminate()

    async def _prepare(self, sql: str) -> asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]:
        if self._connection is None or self._connection.is_closed():
            self._statements.clear()
            self._connection = await self._database.connect()
        # by a name: asyncpg has one without a name parsed and planned again at each call
        name = f"onward_{len(self._statements)}"
        statement = await self._connection.prepare(sql, name=name, timeout=self._database.silence)
        self._statements[sql] = statement
        return statement

    # ---- silence ---------------------------------------------------------------------------------------

    def _waits(self) -> None:
        loop = asyncio.get_running_loop()
        self._since, self._caller = loop.time(), asyncio.current_task(loop)
        self._cancels = self._caller.cancelling() if self._caller else 0
        if self._watch is None:
            self._watch = loop.call_later(self._database.silence, self._look)

    def _look(self) -> None:
        self._watch = None
        if self._caller is None:
            return
        loop = asyncio.get_running_loop()
        left = self._since + self._database.silence - loop.time()
        if left > 0:
            self._watch = loop.call_later(left, self._look)
        else:
            self._given_up = self._caller.cancel()

    def _was_silence(self, error: BaseException) -> bool:
        """Was the call cancelled here, and by nobody else?"""
        given_up, self._given_up = self._given_up, False
        if not given_up or self._caller is None:
            return False
        return self._caller.uncancel() <= self._cancels and isinstance(error, asyncio.CancelledError)


class Database:
    """One database, reached over at most `size` lines. Connects when first used; `close` may be called twice."""

    def __init__(
        self, url: str, *, size: int = 4, patience: float = 30.0, silence: float = 60.0, name: str = "onward"
    ) -> None:
        self.url = url
        self.patience = patience
        self.silence = silence
        self._name = name
        self._free = [Line(self) for _ in range(size)]
        self._slots = asyncio.Semaphore(size)
        self._lines: list[Line] = list(self._free)
        self._checking = asyncio.Lock()
        self._checked = False
        self._closed = False

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        """Calls until it is answered, or until the database has been away for too long."""
        pause = 0.05
        deadline: float | None = None
        while True:
            try:
                async with self._slots:
                    line = self._free.pop()
                    try:
                        return await line.fetch(sql, *args)
                    finally:
                        self._free.append(line)
            except (TimeoutError, *BROKEN) as error:
                now = asyncio.get_running_loop().time()
                deadline = now + self.patience if deadline is None else deadline
                if self._closed:
                    raise DatabaseUnavailable("this client is closed") from error
                if now + pause > deadline:
                    raise unavailable(self.url, error) from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 1.0)

    async def fetchrow(self, sql: str, *args: Any) -> asyncpg.Record | None:
        rows = await self.fetch(sql, *args)
        return rows[0] if rows else None

    async def fetchval(self, sql: str, *args: Any) -> Any:
        rows = await self.fetch(sql, *args)
        return rows[0][0] if rows else None

    def line(self) -> Line:
        """A connection that one caller keeps, and closes."""
        line = Line(self)
        self._lines.append(line)
        return line

    async def connect(self) -> asyncpg.Connection:
        """A connection of one's own, for LISTEN and for the session lock. The first one looks after the schema."""
        if self._closed:
            raise asyncpg.InterfaceError("closed")
        try:
            connection = await connect(self.url, self._name)
        except OnwardError as error:  # at first a person has to know; later it may pass, as in a fail-over
            if not self._checked:
                raise
            raise ConnectionError(str(error)) from error
        if not self._checked:
            try:
                async with self._checking:
                    await schema.ensure(connection)
            except BaseException:
                connection.terminate()
                raise
            self._checked = True
        return connection

    async def close(self) -> None:
        self._closed = True
        for line in self._lines:
            line.close()


async def connect(url: str, name: str = "onward") -> asyncpg.Connection:
    """One connection, with errors that a person can act on."""
    try:
        return await asyncpg.connect(
            url,
            timeout=10,
            statement_cache_size=0,
            # times that travel as JSON would otherwise come in the zone of the server, and others in UTC
            server_settings={"application_name": name, "timezone": "UTC"},
        )
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError) as error:
        raise OnwardError(f"the database refused the user or password of {shown(url)}: {error}") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise OnwardError(f"{error}: create it first, for instance with createdb") from error
    except ValueError as error:
        # others than asyncpg's own quote what they took for the port: the end of a password with a / or # in it
        told = isinstance(error, asyncpg.InterfaceError)
        why = error if told else "a port is a number; in a password / # ? are written %2F %23 %3F"
        raise InvalidInput(f"this is no database URL: {shown(url)} ({why})") from error


def unavailable(url: str, error: BaseException) -> DatabaseUnavailable:
    return DatabaseUnavailable(f"cannot reach the database {shown(url)}: {error or type(error).__name__}")


def shown(url: str) -> str:
    """A URL without its passwords: errors end up in logs."""
    url = _PASSWORD.sub(r"\1***", url)
    head, at, tail = url.rpartition("@")
    scheme, slashes, login = head.partition("://") if "://" in head else ("", "", head)
    return f"{scheme}{slashes}{login.partition(':')[0]}{at}{tail}"
