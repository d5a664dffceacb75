"""Workers as processes, what they have told, and ways to end them badly."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import asyncpg

from onward import Client

T = TypeVar("T")

PROGRAM = Path(__file__).with_name("program.py")


class Event(NamedTuple):
    """A line of the log: a step's function was called (`begin`) or returns (`end`). `at` is `time.monotonic()`."""

    at: float
    pid: int
    what: str
    run: str
    step: str


class Hand:
    """A worker's process."""

    def __init__(self, process: asyncio.subprocess.Process, said: Path) -> None:
        self._process = process
        self._said = said
        self.pid = process.pid

    @property
    def lives(self) -> bool:
        return self._process.returncode is None

    @property
    def said(self) -> str:
        """What it has written to its standard error."""
        return self._said.read_text(errors="replace")

    def send(self, number: signal.Signals) -> float:
        """-> when"""
        self._process.send_signal(number)
        return time.monotonic()

    async def kill(self) -> float:
        """kill -9. -> when"""
        at = self.send(signal.SIGKILL)
        await self._process.wait()
        return at

    async def ended(self, seconds: float = 30) -> int:
        """Waits for its end. -> the exit code"""
        async with asyncio.timeout(seconds):
            return await self._process.wait()


class Crew:
    """The workers of one database."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.client = Client(url)
        self._hands: list[Hand] = []

    # ---- processes -------------------------------------------------------------------------------------------

    async def launch(
        self,
        *serve: str,
        url: str | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
        **options: Any,
    ) -> Hand:
        """A worker's process, as soon as it exists."""
        names = [name if "@" in name else f"{name}@1" for name in serve]
        said = self.folder / f"said-{len(self._hands)}"
        with said.open("wb") as sink:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(PROGRAM), url or self.url, str(self.folder)),
                json.dumps({"serve": names, **options}),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, **env},
            )
        hand = Hand(process, said)
        self._hands.append(hand)
        return hand

    async def start(self, *serve: str, **options: Any) -> Hand:
        """A worker that serves these workflows (`name` or `name@version`), when the database knows it."""
        hand = await self.launch(*serve, **options)
        await until(lambda: self._registered(hand), 30)
        return hand

    async def _registered(self, hand: Hand) -> bool:
        assert hand.lives, hand.said
        return await self.worker_id(hand) is not None

    async def worker_id(self, hand: Hand) -> int | None:
        """Its newest incarnation's number; None: it has none."""
        number: int | None = await self.value(
            "select max(worker_id) from onward.worker where name like '%:' || $1::text", str(hand.pid)
        )
        return number

    async def close(self) -> None:
        for hand in self._hands:
            if hand.lives:
                await hand.kill()
        await self.client.close()

    # ---- what they tell --------------------------------------------------------------------------------------

    def log(self, since: int = 0) -> list[Event]:
        """What steps have told, from that byte on."""
        try:
            lines = (self.folder / "log").read_bytes()[since:].decode().splitlines()
        except FileNotFoundError:
            return []
        parts = (line.split(" ", 4) for line in lines)
        return [Event(float(at), int(pid), what, run, step) for at, pid, what, run, step in parts]

    def log_size(self) -> int:
        try:
            return (self.folder / "log").stat().st_size
        except FileNotFoundError:
            return 0

    def began(self, **like: Any) -> list[Event]:
        """The executions whose fields are these: `began(run=…, pid=…, step=…)`."""
        return [e for e in self.log() if e.what == "begin" and all(getattr(e, k) == v for k, v in like.items())]

    def ended(self, **like: Any) -> list[Event]:
        return [e for e in self.log() if e.what == "end" and all(getattr(e, k) == v for k, v in like.items())]

    async def until_begun(self, seconds: float = 15, **like: Any) -> Event:
        """The first of these executions, as soon as there is one."""

        async def look() -> list[Event]:
            return self.began(**like)

        return (await until(look, seconds))[0]

    def open(self, gate: str, hand: Hand | None = None) -> None:
        """Steps that execute until this gate is open come to their end; of one worker only, if it is given."""
        (self.folder / (f"{gate}-{hand.pid}" if hand else gate)).touch()

    # ---- what the database says ------------------------------------------------------------------------------

    async def sql(self, statement: str, *args: Any) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetch(statement, *args)
        finally:
            await connection.close()

    async def value(self, statement: str, *args: Any) -> Any:
        rows = await self.sql(statement, *args)
        return rows[0][0] if rows else None


class Journal:
    """Watches that nothing is executed which is journalled already.

    A look reads the journal first and the log's size after it. So whatever the log holds behind that size began when
    those rows were there for everybody to see.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._looks: list[tuple[int, frozenset[tuple[str, str]]]] = []

    async def look(self) -> None:
        try:
            rows = await self._crew.sql("select run_id, name from onward.step where kind = 'run'")
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return  # the database is away
        known = frozenset((str(run), name) for run, name in rows)
        self._looks.append((self._crew.log_size(), known))

    async def keep_looking(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(0.05)

    def repeated(self) -> list[Event]:
        """Executions of what was journalled before they began."""
        return sorted(
            {
                event
                for size, known in self._looks
                for event in self._crew.log(size)
                if event.what == "begin" and (event.run, event.step) in known
            }
        )


async def until(ask: Callable[[], Awaitable[T]], seconds: float = 15) -> T:
    """Waits for the thing itself: asks until the answer is true."""
    async with asyncio.timeout(seconds):
        while not (answer := await ask()):
            await asyncio.sleep(0.02)
        return answer
