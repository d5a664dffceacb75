"""What every server and every worker does beside its own work: retention, and webhooks.

Any number of them may: who sweeps, and who delivers, is decided in the database each time. A server takes them up when
it is told of its start, and waits with them for a database that is away. An application that is mounted in another one
is not told: there it is left to workers, and to servers of their own.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from onward.client import Client
from onward.client.sweeper import Schedule, Sweeper
from onward.errors import OnwardError
from onward.store.database import TRANSIENT
from onward.worker.targets import Targets
from onward.worker.webhooks import Deliverer

_log = logging.getLogger("onward")

_PAUSE = 5.0
"""Seconds between tries, where the database cannot be used."""


@dataclass(frozen=True)
class Rules:
    """As the environment has them: checked when the application is made."""

    schedule: Schedule
    targets: Targets

    @classmethod
    def from_environment(cls) -> Rules:
        return cls(Schedule.from_environment(), Targets.from_environment())


class Duties:
    """`stop` may be called twice, and before `start`."""

    def __init__(self, client: Client, rules: Rules) -> None:
        self._client, self._rules = client, rules
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="onward-duties")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._do()
            except (OnwardError, *TRANSIENT) as error:
                _log.warning("retention and webhooks wait: %s", error or type(error).__name__)
            await asyncio.sleep(_PAUSE)

    async def _do(self) -> None:
        database = await self._client.database()
        sweeper = Sweeper(database, self._client.payloads, self._rules.schedule)
        deliverer = Deliverer(database, targets=self._rules.targets, payloads=self._client.payloads)
        await sweeper.start()
        try:
            await deliverer.start()
            await sweeper.run()
        finally:
            await deliverer.stop()
