"""A terminal on a fresh database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.terminal import Terminal
from onward import Client


@pytest.fixture
def terminal(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("ONWARD_URL", url)
    for name in ("ONWARD_TENANT", "ONWARD_DEBUG", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(url, tmp_path)
    yield terminal
    terminal.close()


@pytest.fixture
def client(url: str) -> Client:
    """Connects when first used, in the test's own loop; the test closes it (`async with client`)."""
    return Client(url)
