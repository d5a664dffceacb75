"""One attempt of a step's function: in the loop or in a thread, for at most so long."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from onward.authoring.current import CurrentStep, executing
from onward.authoring.engine import Work
from onward.core import durations, names
from onward.core.replay import Call
from onward.errors import OnwardError
from onward.worker.execution import Execution

_COROUTINE = inspect.CO_COROUTINE


class StepTimeout(OnwardError):
    """This attempt took too long. The body gets onward.errors.StepTimeout when it was the last one."""


async def execute(run: Execution, call: Call, work: Work, attempt: int) -> Any:
    """What fn(*args) returns. Raises whatever it raises, StepTimeout when its time is over."""
    step = CurrentStep(run.key, names.split(call.path)[1], attempt, call.path)
    token = executing.set(step)
    run.replay.begin_attempt(call.path)
    try:
        if is_async(work.fn):
            return await _limited(work.fn(*work.args), work.timeout)
        return await _in_thread(run, work, step)
    except asyncio.CancelledError as error:
        step.cancelled = True
        task = asyncio.current_task()
        if run.over or run.cancelled or task is None or task.cancelling():
            raise
        raise OnwardError("the step's function was cancelled from inside") from error
    finally:
        executing.reset(token)


async def _limited(awaitable: Any, limit: float) -> Any:
    try:
        async with asyncio.timeout(limit) as clock:
            return await awaitable
    except TimeoutError as error:
        if clock.expired():
            raise StepTimeout(f"it took longer than {durations.show(limit)}") from error
        raise


async def _in_thread(run: Execution, work: Work, step: CurrentStep) -> Any:
    await run.host.threads.slot()
    try:
        value = await _limited(run.host.threads.run(work.fn, work.args), work.timeout)
    except StepTimeout:
        step.cancelled = True  # the thread goes on: this is how it can tell
        raise
    if inspect.isawaitable(value):  # a lambda or a partial around an async function
        value = await _limited(value, work.timeout)
    return value


def is_async(fn: Callable[..., Any]) -> bool:
    try:
        return bool(fn.__code__.co_flags & _COROUTINE)
    except AttributeError:
        return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
