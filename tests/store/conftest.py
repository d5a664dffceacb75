"""The stage of the store's tests, on each version of Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from postgres import Connect
from store.stage import Stage


@pytest.fixture
async def stage(any_url: str, connect: Connect) -> AsyncIterator[Stage]:
    """A database of the test's own, and whoever acts on it."""
    stage = await Stage.set(any_url, connect)
    yield stage
    await stage.clear()
