"""Clients of one database, and a way to wait for the thing itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg
import pytest

from onward.client import Client

Until = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with Client(url) as client:
        yield client


@pytest.fixture
async def root(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Looks on from outside."""
    connection = await asyncpg.connect(url)
    yield connection
    connection.terminate()


@pytest.fixture
def until() -> Until:
    """Asks until the answer is true."""

    async def wait(ask: Callable[[], Awaitable[Any]], seconds: float = 10) -> Any:
        async with asyncio.timeout(seconds):
            while not (answer := await ask()):
                await asyncio.sleep(0.005)
            return answer

    return wait


@pytest.fixture
async def folder(root: asyncpg.Connection, url: str, tmp_path: Path) -> Path:
    """The payload store of this test's database."""
    place = tmp_path / "payloads"
    name = unquote(urlsplit(url).path[1:])
    await root.execute(f"alter database {name} set onward.payloads = '{place.as_uri()}'")
    return place


@pytest.fixture
def skip(root: asyncpg.Connection) -> Callable[[float], Awaitable[None]]:
    """Moves the database's clock on."""

    async def skip(seconds: float) -> None:
        await root.execute(
            "insert into onward.setting (name, value) values ('clock_offset', $1 || ' s') on conflict (name) do update "
            "set value = (split_part(onward.setting.value, ' ', 1)::float8 + $1::float8)::text || ' s'",
            str(seconds),
        )

    return skip
