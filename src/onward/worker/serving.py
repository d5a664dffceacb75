"""A process that is a worker and nothing else: what `serve` and the command run."""

from __future__ import annotations

import logging
from typing import Any, Self

from onward.authoring.definition import Workflow
from onward.worker.worker import Worker

_log = logging.getLogger("onward")


class Announced(Worker):
    """A worker that says what it serves, and where."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        served = ", ".join(f"{w.name}@{w.version}" for w in self._workflows.values())
        _log.info("serving %s on %s", served, self._address.shown)
        return self


def serve(*workflows: Workflow[Any, Any], url: str | None = None) -> None:
    """Runs a worker for these workflows until it is told to stop (SIGTERM, Ctrl-C)."""
    import uvloop

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    uvloop.run(Announced(workflows, url).run())
