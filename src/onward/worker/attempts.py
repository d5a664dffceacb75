"""One attempt of a step's function: in the loop or in a thread, for at most so long."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from onward.authoring.current import CurrentStep, executing
from onward.authoring.engine import Work
from onward.core import durations
from onward.core.replay import Call
from onward.errors import OnwardError, StepTimeout
from onward.worker import traces
from onward.worker.execution import Execution

_COROUTINE = inspect.CO_COROUTINE


async def execute(run: Execution, call: Call, work: Work, attempt: int) -> Any:
    """What fn(*args) returns. Raises whatever it raises, StepTimeout when its time is over."""
    task = asyncio.current_task(run.loop)
    assert task is not None
    if task is not run.main:
        run.remember(task)
    step = CurrentStep(run.key, call.path, attempt)
    token = executing.set(step)
    span = None if run.traced is None else run.traced.enter(call.path)
    run.replay.begin_attempt(call.path)
    deadlines = run.host.deadlines
    number = deadlines.begin(work.timeout, task)
    try:
        if is_async(work.fn):
            return await work.fn(*work.args)
        value = await run.host.threads.run(work.fn, work.args)
        if inspect.isawaitable(value):  # a lambda or a partial around an async function
            value = await value
        return value
    except asyncio.CancelledError as error:
        step.cancelled = True  # a thread goes on: this is how it can tell
        if deadlines.expired(number, task):
            said = f"it took longer than {durations.show(work.timeout)}"
            raise StepTimeout(step.name, attempt, StepTimeout.__name__, said) from error
        if run.over or run.cancelled or task.cancelling():
            raise
        raise OnwardError("the step's function was cancelled from inside") from error
    finally:
        deadlines.end(number, task)
        if span is not None:
            traces.leave(span)
        executing.reset(token)
        if call.path in run.inner:
            await _ended(run.inner.pop(call.path) - {task})


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    """Steps within this one that it left running are part of the attempt, and end with it: the next attempt counts
    anew, and would execute them a second time beside the first."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


def is_async(fn: Callable[..., Any]) -> bool:
    try:
        return bool(fn.__code__.co_flags & _COROUTINE)
    except AttributeError:
        return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
