"""What may happen between a worker and its database, on loopback: the way is cut, or swallows what is sent."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit


class Way:
    """A way to a server's socket. Open at first."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self._socket = f"{query['host'][0]}/.s.PGSQL.{query.get('port', ['5432'])[0]}"
        self._user, self._database = parts.username, parts.path
        self._pipes: set[_Pipe] = set()
        self._listening: asyncio.Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The database's address along this way."""
        return f"postgresql://{self._user}@127.0.0.1:{self._port}{self._database}?sslmode=disable"

    async def open(self) -> None:
        self._listening = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._listening.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Every connection breaks, and no new one is made."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for pipe in list(self._pipes):
            await pipe.close()

    def swallow(self) -> None:
        """The connections that are there stay open and carry nothing any more; new ones are as good as ever."""
        for pipe in self._pipes:
            pipe.stop_carrying()

    def farewell(self) -> None:
        """Every connection is told what a server says last. That it closes them is for `cut` to do."""
        for pipe in self._pipes:
            pipe.say(_LAST_WORDS)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_unix_connection(self._socket)
        pipe = _Pipe((reader, writer), there)
        self._pipes.add(pipe)
        await pipe.carried()
        self._pipes.discard(pipe)


_FIELDS = b"SFATAL\0VFATAL\0C57P02\0Mterminating connection because of crash of another server process\0\0"
_LAST_WORDS = b"E" + struct.pack("!i", len(_FIELDS) + 4) + _FIELDS


class _Pipe:
    """One connection's two directions."""

    def __init__(self, *ends: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        (here, to_here), (there, to_there) = ends
        self._writers = to_here, to_there
        self._over = asyncio.Event()
        self._mute = False
        self._tasks = [
            asyncio.create_task(self._carry(here, to_there)),
            asyncio.create_task(self._carry(there, to_here)),
        ]

    def stop_carrying(self) -> None:
        self._mute = True

    def say(self, words: bytes) -> None:
        """As if the server had said it."""
        self._writers[0].write(words)

    async def carried(self) -> None:
        await self._over.wait()
        await self.close()

    async def close(self) -> None:
        self._over.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if not self._mute:
                    writer.write(data)
                    await writer.drain()
        self._over.set()


@asynccontextmanager
async def way(url: str) -> AsyncIterator[Way]:
    """Open at first; cut at the end."""
    way = Way(url)
    await way.open()
    try:
        yield way
    finally:
        await way.cut()
