"""Real servers on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from server.sites import Site

Open = Callable[..., Awaitable[Site]]


@pytest.fixture
async def open_site(url: str) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def open_site(**options: Any) -> Site:
            return await Site(url, stack).open(**options)

        yield open_site


@pytest.fixture
async def site(open_site: Open) -> Site:
    return await open_site()
