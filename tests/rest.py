"""Real servers on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from onward.server import App
from onward.server.serving import Serving, listen


@asynccontextmanager
async def serving(
    url: str, *, port: int = 0, grace: float = 5, auth: str = "presence", kind: type[App] = App
) -> AsyncIterator[Serving]:
    async with Serving(kind(url, auth), listen("127.0.0.1", port), grace=grace) as there:
        yield there


both = pytest.mark.parametrize("world", ["database", "server"], indirect=True)
"""A law of the client: on the database itself, and behind a server."""
