"""A crew of worker processes on a fresh database; none of them outlives its test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from faults.crew import Crew


@pytest.fixture
async def crew(url: str, tmp_path: Path) -> AsyncIterator[Crew]:
    crew = Crew(url, tmp_path)
    try:
        yield crew
    finally:
        await crew.close()
