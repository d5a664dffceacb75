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
    deadlines, number = run.host.deadlines, 0
    try:
        if is_async(work.fn):
            number = deadlines.begin(work.timeout, task)
            return await work.fn(*work.args)
        await run.host.threads.slot()
        number = deadlines.begin(work.timeout, task)
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
        deadlines.end(number)
        executing.reset(token)


def is_async(fn: Callable[..., Any]) -> bool:
    try:
        return bool(fn.__code__.co_flags & _COROUTINE)
    except AttributeError:
        return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
