"""The steps of a body, as coroutines: each awaits its turn, executes or waits, and gives what was journalled.

A step's function runs in the task that awaits the step. So a cancellation reaches it as in any asyncio program, a
task group ends when its steps have ended, and nothing has to be kept in step with anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import random
import time
from collections.abc import Coroutine, Iterator, Mapping
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

from onward.authoring.current import executing
from onward.authoring.definition import Workflow
from onward.authoring.engine import Batch, Wait, Work
from onward.client import inputs
from onward.core import ids, names, pointers
from onward.core.codec import PLAIN, Codec, Referred, searchable
from onward.core.names import shown
from onward.core.replay import Call, Row
from onward.errors import InvalidInput, OnwardError, PayloadTooLarge, StepFailed, StepNotAwaited
from onward.store.handouts import Result, Want
from onward.worker import attempts, faults
from onward.worker.batches import Batches
from onward.worker.children import Children
from onward.worker.execution import Execution
from onward.worker.outputs import Outputs

_chance = random.Random()
"""For jitter."""


class Verbs:
    """What a context calls (`authoring.engine.Engine`), for one run in this worker's memory."""

    def __init__(self, run: Execution, children: Children) -> None:
        self._run, self.workflow = run, run.workflow
        self._children = children
        self.outputs = Outputs(run)
        self._made: dict[str, Coroutine[Any, Any, Any]] = {}  # and not awaited yet

    # ---- what the context shows --------------------------------------------------------------------------

    @property
    def run_id(self) -> UUID:
        return self._run.out.run_id

    @property
    def tenant(self) -> str:
        return self._run.out.tenant

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {}

    @property
    def started_at(self) -> datetime:
        return self._run.out.started_at

    @property
    def now(self) -> datetime:
        return self._run.now

    @property
    def replaying(self) -> bool:
        return self._run.replaying

    @property
    def cancelled(self) -> bool:
        return self._run.cancelled

    # ---- the verbs: each takes its name when it is called ------------------------------------------------------

    def run(self, name: str, work: Work) -> Coroutine[Any, Any, Any]:
        call = self._make(name, "run", inside=True)
        coroutine = self._made[call.path] = self._step(call, work)
        return coroutine

    def sleep(self, name: str, seconds: float | None, until: datetime | None) -> Coroutine[Any, Any, None]:
        call = self._make(name, "sleep")
        want = Want(call.path, "sleep", seconds=seconds, until=until)
        coroutine = self._made[call.path] = self._blocked(call, want, PLAIN)
        return coroutine

    def wait(self, name: str, wait: Wait) -> Coroutine[Any, Any, Any]:
        match = None
        if wait.match is not None:
            match = searchable(PLAIN.encode(wait.match, f"the match of {name!r}"))
        call = self._make(name, "wait")
        want = Want(call.path, "wait", seconds=wait.timeout, event=wait.event, match=match)
        coroutine = self._made[call.path] = self._blocked(call, want, wait.codec)
        return coroutine

    def race(self, name: str, branches: Mapping[str, Coroutine[Any, Any, Any]]) -> Coroutine[Any, Any, tuple[str, Any]]:
        call = self._make(name, "race", inside=True)
        coroutine = self._made[call.path] = self._race(call, branches)
        return coroutine

    def start(
        self, name: str, workflow: Workflow[Any, Any] | str, value: Any, *, invoke: bool
    ) -> Coroutine[Any, Any, Any]:
        call = self._make(name, "invoke" if invoke else "start", inside=not invoke)
        coroutine = self._made[call.path] = self._child(call, workflow, value)
        return coroutine

    def batch(self, name: str, batch: Batch) -> Coroutine[Any, Any, Any]:
        call = self._make(name, "batch")
        coroutine = self._made[call.path] = self._batch(call, batch)
        return coroutine

    def keep(self, name: str, type: str, value: Any) -> Coroutine[Any, Any, Any]:  # noqa: A002
        call = self._make(name, "run", inside=True)
        coroutine = self._made[call.path] = self._step(call, self.outputs.keeping(call, type, value))
        return coroutine

    def _make(self, name: str, kind: str, inside: bool = False) -> Call:
        self._run.check()
        around = executing.get()
        if around is not None and around.run_id != self._run.key:
            around = None
        if around is not None and not inside:
            raise OnwardError(
                f"{kind} {name!r} is called inside the step {around.name!r}: a step is executed as a whole. "
                "Sleep, wait and invoke in the workflow's body"
            )
        parent = around.path if around else ""
        self._run.body.use(parent, name, self._run.replay.given)
        return self._run.replay.make(parent, name, kind)

    def not_awaited(self, parent: str = "") -> list[str]:
        """Calls whose coroutine nobody awaited; it is closed here, so that Python does not warn as well. One that was
        given to a task is none of them, also where the task was cancelled before it could begin."""
        if not self._made:
            return []
        paths = []
        for path in self._run.replay.not_awaited(parent):
            coroutine = self._made.pop(path)
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED:
                continue
            if (task := _task_of(coroutine)) is not None:
                task.cancel()
                continue
            coroutine.close()
            paths.append(path)
        return paths

    def close(self) -> None:
        """The run leaves this worker's memory."""
        for coroutine in self._made.values():
            coroutine.close()
        self._made.clear()

    # ---- one step ----------------------------------------------------------------------------------------------

    async def _step(self, call: Call, work: Work) -> Any:
        run, value = self._run, None
        run.check()
        self._made.pop(call.path, None)
        if call.parent:
            run.remember_inner(call.parent)
        call.whole = not work.ref
        try:
            future = run.begin(call)
            row = None if future is None else await future
            if row is None:
                call.whole = False  # its value is here
                result, value = await self._executed(call, work)
                row = await run.journalled(call, result)
                assert row is not None
        except BaseException:
            run.withdraw(call)
            raise
        if row.error is None and (value is not None or row.output == b"null"):
            return value
        return self._reference(row, work.codec) if work.ref else self._given(row, work.codec)

    async def _turn(self, call: Call) -> Row | None:
        """The journalled row, or None: the call is to be executed now."""
        run = self._run
        run.check()
        self._made.pop(call.path, None)
        future = run.begin(call)
        return None if future is None else await self._patiently(call, future)

    async def _patiently(self, call: Call, future: asyncio.Future[Row | None]) -> Row | None:
        try:
            return await future
        except asyncio.CancelledError:
            self._run.withdraw(call)
            raise

    async def _journalled(self, call: Call, result: Result) -> Row:
        row = await self._patiently(call, self._run.journalled(call, result))
        assert row is not None
        return row

    async def _executed(self, call: Call, work: Work) -> tuple[Result, Any]:
        """Attempts, and back-offs between them, until there is something to journal."""
        run = self._run
        earlier = run.failures.pop(call.path, None)
        failed = earlier.attempt if earlier else 0
        if earlier:  # before a crash; the database has the deadline, and keeps it whatever is asked for here
            again = Want(call.path, "retry", failed, seconds=0.0, attempts=work.retry.attempts)
            if earlier.due:
                run.waits[call.path] = again
            else:
                await self._patiently(call, run.wait(call, again))
        host = run.host
        threads = None if attempts.is_async(work.fn) else host.threads
        while True:
            if failed or threads is not None:
                await run.admission(call, threads)
            attempt = failed + 1
            began = time.monotonic()
            try:
                run.executing += 1
                host.executing += 1
                try:
                    value = await attempts.execute(run, call, work, attempt)
                    if unawaited := self.not_awaited(call.path):
                        raise not_awaited(unawaited)
                    data, value = await self.outputs.of_step(call, work, value)
                finally:
                    run.executing -= 1
                    host.executing -= 1
            except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                error_record = faults.of_step(error).encode()
                delay = None
                if not isinstance(error, StepNotAwaited):
                    delay = work.retry.delay(attempt, error, _chance)
            else:
                return self._result(call, data, None, attempt, began), value
            if delay is None:
                return self._result(call, None, error_record, attempt, began), None
            failed = attempt
            run.counts.retry(call.path)
            # until the database says that it is time; the want stays until the step is journalled, since it is
            # what remembers, through a crash, how often the step has failed
            again = Want(call.path, "retry", failed, seconds=delay, attempts=work.retry.attempts, error=error_record)
            await self._patiently(call, run.wait(call, again))

    def _result(self, call: Call, output: bytes | None, error: bytes | None, attempt: int, began: float) -> Result:
        run = self._run
        return Result(run.key, run.receipt, call.path, call.kind, output, error, attempt, time.monotonic() - began)

    def _reference(self, row: Row, codec: Codec) -> Any:
        """The pointer that was journalled, for a body that asks for it."""
        if row.output is None:
            return self._given(row, codec)
        if not pointers.is_pointer(row.output):
            self._run.diverged(
                f"what {shown(row.path)} has journalled is a value, the code asks for a Ref to it: deploy it as a new "
                "version of the workflow"
            )
            raise asyncio.CancelledError
        return self.outputs.ref(row.output, codec)

    def _given(self, row: Row, codec: Codec) -> Any:
        """What the body gets for a row: the same the first time and on every replay."""
        if row.error is not None:
            raise faults.decode(row.error).as_step_failure(row.path.rpartition("\x1f")[2], row.attempt)
        assert row.output is not None
        try:
            return codec.decode(row.output)
        except InvalidInput as error:
            self._run.diverged(
                f"what {shown(row.path)} has journalled does not fit what the code declares", f": {error}"
            )
            raise asyncio.CancelledError from error

    # ---- sleeps and waits ------------------------------------------------------------------------------------------

    async def _blocked(self, call: Call, want: Want, codec: Codec) -> Any:
        row = await self._blocked_on(call, want)
        if row.output is None or row.output == b"null":
            return self._given(row, PLAIN)
        try:
            return codec.decode(row.output)
        except InvalidInput as error:  # a sender's mistake: no code to come will read it, so the body is told
            raise StepFailed(names.split(row.path)[1], 1, InvalidInput.__name__, str(error)) from error

    @contextlib.contextmanager
    def _executing(self) -> Iterator[None]:
        self._run.executing += 1
        self._run.host.executing += 1
        try:
            yield
        finally:
            self._run.executing -= 1
            self._run.host.executing -= 1

    async def _blocked_on(self, call: Call, want: Want) -> Row:
        run = self._run
        run.check()
        self._made.pop(call.path, None)
        call.whole = True
        run.replay.open(call)
        row = await self._patiently(call, run.wait(call, want))
        assert row is not None
        return row

    async def _batch(self, call: Call, batch: Batch) -> Any:
        run, batches = self._run, Batches(self._run, self.outputs)
        call.whole = True
        row = await self._turn(call)
        if row is None:
            began = time.monotonic()
            run.replay.begin_attempt(call.path)
            try:
                await self._step(run.replay.make(call.path, "submit", "batch"), batches.submit(call, batch))
                answer = run.replay.make(call.path, "answer", "batch")
                row = await self._blocked_on(answer, batches.want(call, answer.path, batch))
                with self._executing():  # while the answer is copied the run must not be suspended
                    output, error = await batches.answered(call, batch, row)
            except StepFailed as failure:  # it could not be submitted
                output, error = None, faults.of_step(failure).encode()
            except BaseException:
                run.withdraw(call)
                raise
            finally:
                run.inner.pop(call.path, None)
            row = await self._journalled(call, self._result(call, output, error, 1, began))
        return self._given(row, batch.codec)

    # ---- race --------------------------------------------------------------------------------------------------------

    async def _race(self, call: Call, branches: Mapping[str, Coroutine[Any, Any, Any]]) -> tuple[str, Any]:
        run = self._run
        run.check()
        self._made.pop(call.path, None)
        known = run.replay.recorded(call)
        if (winner := _recorded_winner(known)) is not None and winner not in branches:
            run.diverged(f"the journal says that {winner!r} won the race {shown(call.path)}, which has no such branch")
            raise asyncio.CancelledError
        if call.parent:
            run.remember_inner(call.parent)
        run.replay.hold(call)
        began = time.monotonic()
        tasks = {name: asyncio.create_task(branch) for name, branch in branches.items()}
        for task in tasks.values():
            run.remember(task)
        try:
            try:
                winner = await _first(tasks, winner)
            finally:
                losers = [task for task in tasks.values() if not task.done()]
                for task in losers:
                    task.cancel()
                await asyncio.gather(*losers, return_exceptions=True)
            run.check()
            if tasks[winner].cancelled():  # from outside, as the body or the attempt ended: nothing was decided
                raise asyncio.CancelledError
        except BaseException:
            run.withdraw(call)
            raise
        run.replay.open(call)
        if known is None:
            await self._journalled(call, self._result(call, json.dumps(winner).encode(), None, 1, began))
        else:
            await self._patiently(call, run.expect(call))
        return winner, tasks[winner].result()

    # ---- children ----------------------------------------------------------------------------------------------------

    async def _child(self, call: Call, workflow: Workflow[Any, Any] | str, value: Any) -> Any:
        run = self._run
        child = ids.derive(run.out.run_id, call.path)
        how = PLAIN if call.kind == "start" or isinstance(workflow, str) else workflow.output_codec
        call.whole = not isinstance(how, Referred)
        try:
            row = await self._turn(call)
        except asyncio.CancelledError:  # a loser, on a replay: its child was started, and perhaps not cancelled
            self._give_up(call, child)
            raise
        if row is None:
            began = time.monotonic()
            run.executing += 1
            run.host.executing += 1
            try:
                data = inputs.encode(workflow, value)
                await self._children.start(run, child, workflow, data, call)
            except (InvalidInput, PayloadTooLarge) as error:
                row = await self._journalled(call, self._result(call, None, faults.of_step(error).encode(), 1, began))
            except BaseException:
                run.withdraw(call)
                self._give_up(call, child)
                raise
            finally:
                run.executing -= 1
                run.host.executing -= 1
        if row is None and call.kind == "start":
            row = await self._journalled(call, self._result(call, json.dumps(str(child)).encode(), None, 1, began))
        elif row is None:
            row = await self._invoked(call, child)
        return self._given(row, how) if call.whole else self._reference(row, how)

    async def _invoked(self, call: Call, child: UUID) -> Row:
        run = self._run
        try:
            run.check()  # the start may have taken long
            row = await self._patiently(call, run.wait(call, Want(call.path, "invoke", child=child)))
        except BaseException:
            run.withdraw(call)
            self._give_up(call, child)
            raise
        assert row is not None
        return row

    def _give_up(self, call: Call, child: UUID) -> None:
        """Nobody waits for an invoked child any more: the body gave it up, and the run is still here."""
        if call.kind == "invoke" and not self._run.over:
            self._children.cancel(self._run, child)


def _task_of(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
    return next((task for task in asyncio.all_tasks() if task.get_coro() is coroutine), None)


def _recorded_winner(known: Row | None) -> str | None:
    return None if known is None or known.output is None else str(json.loads(known.output))


async def _first(tasks: Mapping[str, asyncio.Task[Any]], winner: str | None) -> str:
    """The branch that settles first; on a replay the one that did, whatever else is quick today."""
    if winner is not None:
        await asyncio.wait([tasks[winner]])
        return winner
    await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
    return next(name for name, task in tasks.items() if task.done())


def not_awaited(paths: list[str]) -> NoReturn:
    first = shown(paths[0])
    raise StepNotAwaited(
        f"step {first} was called but never awaited, so it never ran: write `await ctx.step.…`, or pass it to "
        "asyncio.gather or a task group" + (f" (and {len(paths) - 1} more)" if len(paths) > 1 else "")
    )
