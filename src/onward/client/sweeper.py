"""The sweeper: retention at work. Any number of workers and servers have one; one of them sweeps an interval.

Who may is decided in the database (`begin_sweep`), so two that come at once do not sweep both. One that dies in the
middle leaves what it had not come to for the next interval: rows go before objects, and what is to go is written down.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from onward.client.payloads import Payloads
from onward.client.retention import Counts, remove_expired
from onward.errors import InvalidInput, OnwardError
from onward.store.database import TRANSIENT, Database
from onward.store.removals import Removals

_log = logging.getLogger("onward")

_LONGEST_LOOK = 60.0


@dataclass(frozen=True)
class Schedule:
    """How often, and how long runs may be kept at most (None: as the database says)."""

    interval: float = 300.0
    ceiling: int | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Schedule:
        interval = _whole(environment, "WORKFLOWS_SWEEPER_INTERVAL_MS", 300_000)
        ceiling = _whole(environment, "WORKFLOWS_MAX_RETENTION_DAYS", 0)
        return cls(interval / 1000, ceiling or None)


def _whole(environment: Mapping[str, str], name: str, default: int) -> int:
    given = environment.get(name)
    if not given:
        return default
    if not given.isascii() or not given.isdecimal() or not 0 < int(given) < 2**31:
        raise InvalidInput(f"{name} is a whole number from 1 on, such as {default or 365}; got {given!r}")
    return int(given)


class Sweeper:
    """Sweeps now and then. `run` is to be a task; cancelling it is always safe."""

    def __init__(self, database: Database, payloads: Payloads, schedule: Schedule | None = None) -> None:
        self._database, self._payloads = database, payloads
        self._schedule = Schedule.from_environment() if schedule is None else schedule
        self._removals = Removals(database)

    async def start(self) -> None:
        if self._schedule.ceiling is not None:
            await self._removals.set_ceiling(self._schedule.ceiling)

    async def run(self) -> None:
        while True:
            try:
                await self.sweep()
            except (OnwardError, *TRANSIENT) as error:
                _log.warning("the sweep is not finished, the next one goes on: %s", error or type(error).__name__)
            await asyncio.sleep(min(self._schedule.interval, _LONGEST_LOOK))

    async def sweep(self) -> Counts | None:
        """None: another one has swept in this interval."""
        if not await self._removals.begin_sweep(timedelta(seconds=self._schedule.interval)):
            return None
        counts = await remove_expired(self._database, self._payloads)
        if counts.runs or counts.objects:
            _log.info("retention: %s runs removed, with %s payloads", counts.runs, counts.objects)
        return counts
