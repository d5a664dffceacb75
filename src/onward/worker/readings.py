"""What a run in memory reads from the payload store: values for its body, and signals that only it can judge.

A value is read before it is given, never after: the body must be given results one at a time, and one that awaited
its own payload would look at rest, and be given the next one too early. So while a value is on its way (`busy`)
nothing else is given to the body, started, or asked of the database.

A payload that is missing or damaged parks the run: the step did its work, and to execute it again would repeat that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Protocol

from onward.authoring.current import executing
from onward.client.payloads import Told
from onward.client.signals import compared
from onward.core import pointers
from onward.core.names import shown
from onward.core.pointers import Pointer
from onward.core.replay import Call, Row
from onward.errors import OnwardError
from onward.store.database import TRANSIENT
from onward.store.handouts import Undecided, Verdict
from onward.worker.fetches import Fetches


class Reader(Protocol):
    """The run, as its readings see it."""

    key: str
    over: bool
    loop: asyncio.AbstractEventLoop

    @property
    def fetches(self) -> Fetches: ...
    def deliver(self, call: Call, row: Row) -> None: ...
    def judged(self, verdicts: Sequence[Verdict]) -> Coroutine[Any, Any, None]: ...
    def must_register(self) -> None: ...
    def coming(self) -> Iterator[Row]: ...
    def trouble(self, what: str) -> Told: ...
    def park(self, why: str) -> None: ...
    def failed(self, error: Exception) -> None: ...
    def stirred(self) -> None: ...


class Readings:
    """Of one run. `busy`: how many values are on their way; `judging`: signals are being read."""

    __slots__ = ("_run", "_tasks", "busy", "judging")

    def __init__(self, run: Reader) -> None:
        self._run = run
        self.busy, self.judging = 0, False
        self._tasks: dict[asyncio.Task[None], None] | None = None  # a suspended run has none

    def give(self, call: Call, row: Row) -> None:
        """The row goes to the body once its value is here; what comes behind it is fetched side by side."""
        self.busy += 1
        self._run.fetches.ahead(
            r.output for r in self._run.coming() if r.output and pointers.is_pointer(r.output) and not _held(r)
        )
        self._begin(self._give(call, row), f"step {shown(row.path)}")

    async def _give(self, call: Call, row: Row) -> None:
        assert row.output is not None
        told = self._run.trouble(f"the value of {shown(row.path)} cannot be read")
        try:
            data = await self._run.fetches.whole(row.output, told)
        finally:
            self.busy -= 1
        if not self._run.over:
            self._run.deliver(call, row._replace(output=data))

    async def input(self, data: bytes) -> bytes:
        """The run's input, for its body, which has not begun."""
        self.busy += 1
        try:
            return await self._run.fetches.whole(data, self._run.trouble("its input cannot be read"))
        except OnwardError as error:
            raise self._parked(error, "the input") from error
        finally:
            self.busy -= 1

    async def load(self, pointer: Pointer) -> bytes:
        """What a Ref of this run points to, for its body or a step. A body that waits for that is not at rest."""
        loop = self._run.loop
        if asyncio.get_running_loop() is not loop and not loop.is_closed():  # a sync step, with a loop of its own
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.load(pointer), loop))
        if self._run.over:  # whoever has it is no part of the run, or of one that has stopped
            return await self._run.fetches.load(pointer, None)
        inside = executing.get() is not None
        self.busy += not inside
        try:
            return await self._run.fetches.load(pointer, self._run.trouble(f"{pointer.key} cannot be read"))
        except OnwardError as error:
            raise self._parked(error, "a Ref") from error
        finally:
            self.busy -= not inside
            self._run.stirred()

    async def content(self, pointer: Pointer) -> bytes:
        """The object itself, to be copied. As everywhere: one that is missing or damaged parks the run."""
        try:
            return await self._run.fetches.content(pointer, self._run.trouble(f"{pointer.key} cannot be read"))
        except OnwardError as error:
            raise self._parked(error, "a copy") from error

    def judge(self, undecided: Sequence[Undecided]) -> None:
        """Signals came that only somebody who reads them can tell whether they match."""
        if not self.judging:
            self.judging = True
            self._begin(self._judge(undecided), "a signal")

    async def _judge(self, undecided: Sequence[Undecided]) -> None:
        told = self._run.trouble("a signal cannot be read")
        try:
            verdicts = []
            for one in undecided:
                data = await self._run.fetches.whole(one.payload, told)
                fits, _ = compared(data, [one.match])
                verdicts.append(Verdict(one.signal_id, one.match, bool(fits)))
            with contextlib.suppress(*TRANSIENT):  # what was not told is asked again
                await self._run.judged(verdicts)
        finally:
            self.judging = False
        self._run.must_register()

    def stop(self) -> None:
        for task in list(self._tasks or ()):
            task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = self._run.loop.create_task(self._parking(work, what))
        if self._tasks is None:
            self._tasks = {}
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._tasks is not None:
            self._tasks.pop(task, None)
            self._tasks = self._tasks or None

    async def _parking(self, work: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await work
        except OnwardError as error:
            self._parked(error, what)
        except Exception as error:
            self._run.failed(error)

    def _parked(self, error: OnwardError, what: str) -> asyncio.CancelledError:
        """The run stands still until the object is back; its coroutine ends here."""
        if not self._run.over:
            self._run.park(f"{type(error).__name__}: {error} (needed for {what} of run {self._run.key})")
        return asyncio.CancelledError()


def _held(row: Row) -> bool:
    return row.output is not None and pointers.is_held(row.output)
