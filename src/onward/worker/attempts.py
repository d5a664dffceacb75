"""One attempt of a step's function: in the loop or in a thread, for at most so long."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from onward.authoring.current import CurrentStep, executing
from onward.authoring.engine import Work
from onward.core.replay import Call
from onward.errors import OnwardError
from onward.worker.deadlines import StepTimeout
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
    run.replay.begin_attempt(call.path)
    try:
        if is_async(work.fn):
            return await run.host.deadlines.within(work.timeout, work.fn(*work.args), task)
        return await _in_thread(run, work, step, task)
    except asyncio.CancelledError as error:
        step.cancelled = True
        if run.over or run.cancelled or task.cancelling():
            raise
        raise OnwardError("the step's function was cancelled from inside") from error
    finally:
        executing.reset(token)


async def _in_thread(run: Execution, work: Work, step: CurrentStep, task: asyncio.Task[Any]) -> Any:
    await run.host.threads.slot()
    within = run.host.deadlines.within
    try:
        value = await within(work.timeout, run.host.threads.run(work.fn, work.args), task)
    except StepTimeout:
        step.cancelled = True  # the thread goes on: this is how it can tell
        raise
    if inspect.isawaitable(value):  # a lambda or a partial around an async function
        value = await within(work.timeout, value, task)
    return value


def is_async(fn: Callable[..., Any]) -> bool:
    try:
        return bool(fn.__code__.co_flags & _COROUTINE)
    except AttributeError:
        return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
