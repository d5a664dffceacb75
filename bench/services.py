"""The server and topics."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

import psutil
from measures import Place, Result

from onward import Client

CONNECTIONS = 32


@contextlib.asynccontextmanager
async def serving(place: Place) -> AsyncIterator[tuple[int, psutil.Process]]:
    """A server in a process of its own: its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "onward.cli", "server", "--auth", "none", "--port", str(port), "--url", place.url]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError):
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                break
            await asyncio.sleep(0.05)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


async def _rate(port: int, request: bytes, seconds: float) -> float:
    """Answers a second, over so many connections."""
    done, until = 0, time.perf_counter() + seconds

    async def ask() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 20"), head
            await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]))
            done += 1
        writer.close()

    await asyncio.gather(*(ask() for _ in range(CONNECTIONS)))
    return done / seconds


async def starting_over_http(place: Place) -> Result:
    """Runs started by 32 connections, against requests to a route of the same server that does nothing."""
    await place.fresh()
    body = b'{"input":1}'
    start = (
        b"POST /v1/workflows/nobody/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    async with serving(place) as (port, _):
        await _rate(port, start, 1)
        nothing = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        rounds = [(await _rate(port, start, 3), await _rate(port, nothing, 3)) for _ in range(5)]
    ratio = statistics.median(a / b for a, b in rounds)
    a, b = (statistics.median(column) for column in zip(*rounds, strict=True))
    return Result("runs started over HTTP against a route that does nothing", ratio, f"{a:,.0f} and {b:,.0f}/s", 0.4)


async def idle_polls(place: Place) -> list[Result]:
    """What a thousand idle long polls take of a server: connections to the database, and CPU."""
    await place.fresh()
    async with Client(place.url) as client:
        run = await client.start("nobody", 1)
    began = await place.bare.fetchval("select clock_timestamp()")
    async with serving(place) as (port, process):
        ask = b"GET /v1/runs/%s?wait=60s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % run.id.encode()
        alone, writers = await _connections(place, began), []
        for _ in range(1000):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ask)
            writers.append(writer)
        await asyncio.sleep(3)
        before = sum(process.cpu_times()[:2])
        await asyncio.sleep(10)
        busy = (sum(process.cpu_times()[:2]) - before) / 10
        connections = await _connections(place, began)
        for writer in writers:
            writer.close()
    return [
        Result(
            "database connections that 1,000 idle polls take",
            connections - alone,
            f"{connections} in all, {alone} without them",
            at_most=5,
        ),
        Result("CPU of 1,000 idle polls", busy, f"{busy * 100:.1f} % of a core", at_most=0.1),
    ]


async def _connections(place: Place, since: datetime) -> int:
    """Of the server, which was started then."""
    found: int = await place.bare.fetchval(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and backend_type = 'client backend' and backend_start > $1",
        since,
    )
    return found


async def publishing(place: Place) -> Result:
    """A publication to a hundred queues: one transaction."""
    async with Client(place.url) as client:
        for i in range(100):
            await client.topics.subscribe("bench.#", {"type": "queue", "name": f"bench-{i}"})
        taken = []
        for i in range(50):
            began = time.perf_counter()
            assert await client.topics.publish("bench.it", {"i": i}) == 100
            taken.append((time.perf_counter() - began) * 1000)
    return Result(
        "publication to 100 subscriptions, ms", statistics.median(taken), f"max {max(taken):.1f} ms", at_most=20
    )


MEASURES: list[Callable[[Place], Awaitable[Any]]] = [
    starting_over_http,
    idle_polls,
    publishing,
]
