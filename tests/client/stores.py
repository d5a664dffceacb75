"""A database with a payload store of its own: what runs leave there, and ways to age, damage and look at it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from onward import Client, Context, RunHandle, Worker, workflow
from onward.client import garbage
from onward.client.garbage import Swept
from onward.client.retention import Counts, remove_expired
from onward.payloads.layout import Layout, Owner

LARGE = 70_000
LAYOUT = Layout("onward")


def large(letter: str, size: int = LARGE) -> str:
    return letter * size


@workflow
async def two_values(ctx: Context, letters: str) -> str:
    first = await ctx.step.run("first", large, letters[0])
    await ctx.step.run("second", large, letters[1])
    await ctx.step.run("small", len, letters)
    return first


@workflow
async def waiting(ctx: Context, letters: str) -> Any:
    await ctx.step.run("first", large, letters[0])
    return await ctx.step.wait_for_event("go")


@workflow
async def parent(ctx: Context) -> int:
    text = await ctx.step.invoke("child", two_values, "xy")
    return len(text)


EVERY = [two_values, waiting, parent]


class Store:
    """A client, and the folder where its database keeps payloads."""

    def __init__(self, client: Client, url: str, folder: Path) -> None:
        self.client, self.url, self.folder = client, url, folder

    async def ended(self, how: Any = two_values, *args: Any) -> RunHandle[Any]:
        async with Worker(EVERY, self.url):
            run: RunHandle[Any] = await self.client.start(how, *args)
            await run.result(timeout=20)
            return run

    async def removed(self) -> Counts:
        return await remove_expired(await self.client.database(), self.client.payloads)

    async def swept(self, days: float = 1, *, dry_run: bool = False) -> Swept:
        """All parts of one sweep together."""
        database, total = await self.client.database(), Swept(0)
        async for part in garbage.sweep(
            database, self.client.payloads, older_than=timedelta(days=days), dry_run=dry_run
        ):
            total = Swept(*(mine + type(mine)(other) for mine, other in zip(total, part, strict=True)))
        return total

    async def pass_by(self, *runs: RunHandle[Any]) -> None:
        """The retention of these runs passes, and no other."""
        await self.sql(
            "update onward.run_result set expires_at = '-infinity', completed_at = '-infinity' where run_id = any ($1)",
            [UUID(run.id) for run in runs],
        )

    async def sql(self, statement: str, *args: Any) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetch(statement, *args)
        finally:
            await connection.close()

    async def count(self, table: str) -> int:
        [row] = await self.sql(f"select count(*) from onward.{table}")
        return int(row[0])

    # ---- the folder ----------------------------------------------------------------------------------------

    @staticmethod
    def owner(run: RunHandle[Any], workflow: str = "two-values") -> Owner:
        return Owner("default", workflow, UUID(run.id))

    def objects(self) -> list[str]:
        return sorted(str(file.relative_to(self.folder)) for file in self.folder.rglob("*") if file.is_file())

    def of(self, run: RunHandle[Any]) -> list[str]:
        """What lies below a run, without the way there."""
        return [key.partition(f"{run.id}/")[2] for key in self.objects() if run.id in key]

    def write(self, key: str, data: bytes = b"?", *, days: float = 0) -> str:
        """An object that this many days ago somebody left there."""
        (self.folder / key).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / key).write_bytes(data)
        self.age(days, key)
        return key

    def age(self, days: float, *keys: str) -> None:
        for key in keys or self.objects():
            moment = time.time() - days * 86_400
            os.utime(self.folder / key, (moment, moment))


@asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[Store]:
    async with Client(url) as client:
        yield Store(client, url, folder)
