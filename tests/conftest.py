"""Databases and an S3 server for all tests: see postgres.py and s3.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

import postgres
import s3 as servers


@pytest.fixture(scope="session")
def bundled_server() -> Iterator[postgres.Server]:
    """The wheel's Postgres."""
    with postgres.running(postgres.bundled()) as server:
        yield server


@pytest.fixture(scope="session")
def oldest_server() -> Iterator[postgres.Server]:
    """The oldest supported Postgres that the machine has."""
    folder = postgres.oldest()
    if folder is None:
        pytest.skip("no other Postgres on this machine: install one, or set ONWARD_PG_BIN to its bin folder")
    with postgres.running(folder) as server:
        yield server


@pytest.fixture(scope="session", params=["bundled", "oldest"])
def any_server(request: pytest.FixtureRequest) -> postgres.Server:
    """Each of the two."""
    server: postgres.Server = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture
def url(bundled_server: postgres.Server) -> Iterator[str]:
    """A database of the test's own, with the schema."""
    url = bundled_server.create()
    yield url
    bundled_server.drop(url)


@pytest.fixture
async def no_store(url: str) -> None:
    """The test's database belongs to a server that offers no folder for payloads, as any that is not embedded."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"alter database \"{url.split('?')[0].rpartition('/')[2]}\" set onward.payloads = ''")
    await connection.close()


@pytest.fixture(scope="session")
def s3() -> Iterator[servers.Server]:
    """A real S3 server: `endpoint`, `environment`, `client`, `bucket()`."""
    with servers.running() as server:
        yield server


@pytest.fixture
def reached(s3: servers.Server, monkeypatch: pytest.MonkeyPatch) -> servers.Server:
    """The server, with an environment that says how to reach it."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3


@pytest.fixture
def any_url(any_server: postgres.Server) -> Iterator[str]:
    """The same, on each version."""
    url = any_server.create()
    yield url
    any_server.drop(url)


@pytest.fixture
def any_empty_url(any_server: postgres.Server) -> Iterator[str]:
    """A database of the test's own without anything in it, on each version."""
    url = any_server.create(template=None)
    yield url
    any_server.drop(url)


@pytest.fixture
async def connect() -> AsyncIterator[postgres.Connect]:
    """Autocommit connections, closed at the end even where they wait for a lock."""
    opened: list[asyncpg.Connection] = []

    async def connect(url: str, **settings: str) -> asyncpg.Connection:
        options: dict[str, Any] = {"server_settings": {"jit": "off", **settings}}
        opened.append(await asyncpg.connect(url, **options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.terminate()
