"""Is the server alive, and can it do its work? Asked by whoever starts and stops it, without an Authorization
header."""

from __future__ import annotations

import asyncio

from onward.client import wire
from onward.errors import DatabaseUnavailable
from onward.server.calls import Call
from onward.server.problems import Refused
from onward.server.routes import Answer, Route

PATIENCE = 3.0


async def alive(call: Call) -> Answer:
    """Say that the server runs."""
    return Answer(wire.Health("ok"))


async def ready(call: Call) -> Answer:
    """Say whether the server can reach its database, and does not stop."""
    if call.service.stopping.is_set():
        raise Refused("unavailable", "the server stops")
    try:
        async with asyncio.timeout(PATIENCE):
            await (await call.client.database()).fetch("select 1")
    except TimeoutError:
        raise DatabaseUnavailable(f"no answer of the database for {PATIENCE:g} seconds") from None
    return Answer(wire.Health("ready"))


ROUTES = (
    Route("GET", "/healthz", alive, None, {200: wire.Health}),
    Route("GET", "/readyz", ready, None, {200: wire.Health}, problems=("unavailable", "database-unavailable")),
)
