"""Creating and upgrading the schema, and telling when it does not fit this release.

Migrations are numbered and only go forward; the functions are replaced as a whole with each upgrade. Everything
happens in one transaction under an advisory lock, so that any number of machines may start at once: one upgrades,
the others wait and find it done. A database without the schema is set up on first use. An older schema is upgraded
only by `onward migrate`: other processes of the old release may be running on it, so that is for a person to decide.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

import asyncpg

from onward.errors import OnwardError, SchemaMismatch

_LOCK = 0x6F6E776400000000  # the key of every migration: "onwd" and no worker's id


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """(number, SQL) in order."""
    folder = resources.files("onward.store") / "sql" / "migrations"
    found = sorted((f.name, f.read_text("utf-8")) for f in folder.iterdir() if f.name.endswith(".sql"))
    return tuple((int(re.split("_", name)[0]), text) for name, text in found)


@cache
def functions() -> str:
    folder = resources.files("onward.store") / "sql" / "functions"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return "\n".join(f.read_text("utf-8") for f in files)


def newest() -> int:
    return migrations()[-1][0]


async def version(connection: asyncpg.Connection) -> int:
    """The schema's number; 0 where there is none."""
    # to_regclass would do if it looked again after the wait for the lock; it answers from the session's cache
    there = "select exists (select from pg_tables where schemaname = 'onward' and tablename = 'setting')"
    if not await connection.fetchval(there):
        return 0
    number = await connection.fetchval("select value from onward.setting where name = 'schema'")
    return int(number) if number is not None else 0


async def ensure(connection: asyncpg.Connection) -> None:
    """The schema fits this release, or the caller is told what to do. Sets up an empty database."""
    there = await version(connection)
    if there == 0:
        await migrate(connection)
    elif there < newest():
        raise SchemaMismatch(
            f"the database has schema {there}, this release needs {newest()}: run `onward migrate`, "
            "once for all machines, then start again"
        )
    elif there > newest():
        raise SchemaMismatch(
            f"the database has schema {there}, this release knows {newest()}: another machine runs a newer "
            "Onward; upgrade the package here (pip install --upgrade onward)"
        )


async def migrate(connection: asyncpg.Connection, *, dry_run: bool = False) -> list[int]:
    """Brings the schema up to this release. Answers the numbers that were (or would be) applied."""
    number = await connection.fetchval("show server_version_num")
    if int(number) < 150000:
        raise OnwardError(f"Onward needs Postgres 15 or later, this server is {int(number) // 10000}")
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
        there = await version(connection)
        if there > newest():
            raise SchemaMismatch(
                f"the database has schema {there}, newer than this release ({newest()}): upgrade the package"
            )
        todo = [(n, sql) for n, sql in migrations() if n > there]
        if dry_run or not todo:
            return [n for n, _ in todo]
        await connection.execute("set local check_function_bodies = off")
        await connection.execute("set local client_min_messages = warning")
        for _, sql in todo:
            await connection.execute(sql)
        await connection.execute(functions())
        await connection.execute(
            "insert into onward.setting (name, value) values ('schema', $1) "
            "on conflict (name) do update set value = excluded.value",
            str(newest()),
        )
        return [n for n, _ in todo]
