"""A terminal: commands in this process (quick) or as processes of their own (true)."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onward import RunHandle
from onward.cli import run

SAMPLE = Path(__file__).with_name("sample_app.py")
EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal:
    """Types commands. Without --url they go to the database of the test."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self._processes: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str) -> Said:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
        return Said(code, out.getvalue(), err.getvalue())

    async def type(self, *arguments: str) -> Said:
        """The same beside a worker of this process."""
        return await asyncio.to_thread(self.run, *arguments)

    def spawn(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """A process of its own; what it says on both streams comes in one."""
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "onward.cli", *arguments],
            cwd=self.folder,
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def read_until(process: subprocess.Popen[str], text: str, patience: float = 20.0) -> str:
    """What a process says up to the line that holds `text`."""
    assert process.stdout is not None
    said, deadline = "", time.monotonic() + patience
    while text not in said:
        line = process.stdout.readline()
        said += line
        if not line or time.monotonic() > deadline:
            raise AssertionError(f"{text!r} was never said, but:\n{said}")
    return said


async def reached(run: RunHandle[Any], state: str) -> None:
    async def there() -> bool:
        return (await run.get()).state == state

    await until(there)


async def until(happened: Callable[[], Awaitable[bool]], patience: float = 15.0) -> None:
    async with asyncio.timeout(patience):
        while not await happened():
            await asyncio.sleep(0.02)
