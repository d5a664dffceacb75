"""The runs that a run starts. Their ids are its own and the step's, so that a repeated start is the same start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from onward.authoring.definition import Workflow
from onward.client import inputs
from onward.client.payloads import Payloads
from onward.client.traces import cancelled
from onward.core import names
from onward.core.replay import Call
from onward.errors import InvalidInput, RunCancelled
from onward.store.database import TRANSIENT, UNFIT, Database
from onward.store.runs import Runs
from onward.worker import traces
from onward.worker.execution import Execution

_log = logging.getLogger("onward")


class Children:
    """Starts them, and cancels those that nobody waits for any more. `chore` does something that nobody waits for."""

    def __init__(
        self, database: Database, payloads: Payloads, chore: Callable[[Coroutine[Any, Any, Any]], None]
    ) -> None:
        self._database, self._payloads, self._chore = database, payloads, chore

    async def start(
        self, run: Execution, child: UUID, workflow: Workflow[Any, Any] | str, data: bytes, call: Call
    ) -> None:
        """`call`: a `start` or an `invoke`."""
        name = workflow if isinstance(workflow, str) else workflow.name
        told = run.trouble(f"the input of its child {child} cannot be written")
        stored = await inputs.record(self._payloads, run.out.tenant, name, child, data, told)
        new = inputs.new_run(child, workflow, data, stored, trace=traces.traceparent(run.traced, run.out, call.path))
        runs = Runs(self._database, run.out.tenant)
        while True:  # an error here would be the body's, and be another one on a replay
            try:
                started = await runs.start(name, [new], parent=run.out.run_id, call=call.kind)
                break
            except UNFIT as error:
                raise InvalidInput(f"the database refuses this run of {name!r}: {error}") from error
            except TRANSIENT as error:
                run.check()
                about = {**run.about, "step": names.readable(call.path)}
                said = "a child of run %s is not started yet: %s"
                _log.warning(said, run.key, error or type(error).__name__, extra=about)
                await asyncio.sleep(1.0)
        if started[0].run_id is None:
            run.lost("gone")
            raise RunCancelled(f"run {run.key} has ended: it starts nothing any more")

    def cancel(self, run: Execution, child: UUID) -> None:
        self._chore(Runs(self._database, run.out.tenant).cancel(child, cancelled))
