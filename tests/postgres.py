"""Real Postgres servers for the tests: the wheel's, and the oldest supported one that the machine has.

A server lives as long as the test session, in a folder of its own with a short name. Each test gets a database of
its own, copied from a template that holds the schema. Nothing here survives a crash on purpose: durability is off.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch
from urllib.parse import urlsplit

import asyncpg

from onward.embedded import acquire, remove, server
from onward.embedded.binaries import SYSTEM, binaries, version
from onward.store import schema

T = TypeVar("T")

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "4GB"}
OLDEST = 15
TEMPLATE = "schema"
MEMORY = Path("/dev/shm")
"""Where Linux has it, a folder in memory: creating a database there takes a twentieth of the time."""


class Server:
    """A running server. `create` and `drop` may be called from any test, with an event loop or without."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._numbers = itertools.count(1)
        self._creator: asyncpg.Connection | None = None
        self._drops: list[Future[None]] = []
        self._loop = asyncio.new_event_loop()
        self._one_at_a_time = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="databases", daemon=True)
        self._thread.start()
        self.create(None, TEMPLATE)
        self._run(_load(self.at(TEMPLATE)))

    def at(self, name: str) -> str:
        """The address of a database of this server."""
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    def create(self, template: str | None = TEMPLATE, name: str | None = None) -> str:
        """A new database with the schema, or, without a template, an empty one. -> its address"""
        name = name or f"test{next(self._numbers)}"
        self._run(self._execute(f"create database {name} template {template or 'template0'}"))
        return self.at(name)

    def drop(self, url: str) -> None:
        """In the background: it waits for a checkpoint. What goes wrong is told by `close`."""
        work = self._drop(f"drop database {urlsplit(url).path[1:]} with (force)")
        self._drops.append(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        for drop in self._drops:
            drop.result(60)
        if self._creator is not None:
            self._run(self._creator.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _execute(self, sql: str) -> None:
        if self._creator is None or self._creator.is_closed():
            self._creator = await asyncpg.connect(self.url)
        await self._creator.execute(sql)

    async def _drop(self, sql: str) -> None:
        async with self._one_at_a_time:
            connection = await asyncpg.connect(self.url)
            try:
                await connection.execute(sql)
            finally:
                await connection.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


async def _load(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await schema.ensure(connection)
    finally:
        await connection.close()


@contextmanager
def running(bin_dir: Path) -> Iterator[Server]:
    """A server of these binaries, gone with its files at the end."""
    ground = Path(tempfile.mkdtemp(prefix="onward-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    ground.chmod(0o755)  # for root, whose server runs as somebody else
    folder = ground / "pg"
    try:
        with patch.dict(server.SETTINGS, FAST):  # for its start only: other tests look at what is shipped
            lease = acquire(folder, bin_dir=bin_dir)
        with lease:
            databases = Server(lease.url)
            try:
                yield databases
            finally:
                databases.close()
        remove(folder)
    finally:
        shutil.rmtree(ground, ignore_errors=True)


def bundled() -> Path:
    """The wheel's binaries."""
    others = {name: value for name, value in os.environ.items() if name != "ONWARD_PG_BIN"}
    with patch.dict(os.environ, others, clear=True):
        return binaries()


def oldest() -> Path | None:
    """The binaries of the oldest supported version, other than the wheel's, that the machine has."""
    found = sorted(SYSTEM.glob("*/bin"))
    if "ONWARD_PG_BIN" in os.environ:
        found.append(Path(os.environ["ONWARD_PG_BIN"]))
    versions = {version(folder): folder for folder in found if (folder / "initdb").exists()}
    versions.pop(version(bundled()), None)
    return min(((n, folder) for n, folder in versions.items() if n >= OLDEST), default=(0, None))[1]


Connect = Callable[..., Coroutine[Any, Any, asyncpg.Connection]]
"""Of the fixture `connect`: `await connect(url)` is an autocommit connection, closed when the test ends."""
