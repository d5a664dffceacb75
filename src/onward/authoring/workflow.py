"""The decorator that makes a workflow of an async function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, overload

from onward.authoring.context import Context
from onward.authoring.definition import Workflow
from onward.core.durations import Duration
from onward.core.retry import Retry
from onward.errors import InvalidInput

I = TypeVar("I")  # noqa: E741  input
O = TypeVar("O")  # noqa: E741  output


class Decorator(Protocol):
    """What `@workflow(...)` with options is: types of input and output go through."""

    @overload
    def __call__(self, body: Callable[[Context, I], Coroutine[Any, Any, O]], /) -> Workflow[I, O]: ...
    @overload
    def __call__(self, body: Callable[[Context], Coroutine[Any, Any, O]], /) -> Workflow[None, O]: ...


@overload
def workflow(body: Callable[[Context, I], Coroutine[Any, Any, O]], /) -> Workflow[I, O]: ...
@overload
def workflow(body: Callable[[Context], Coroutine[Any, Any, O]], /) -> Workflow[None, O]: ...
@overload
def workflow(
    name: str | None = None,
    *,
    version: int = 1,
    retention: Duration = "30d",
    retry: Retry | None = None,
    step_timeout: Duration | None = None,
) -> Decorator: ...


def workflow(
    name: Any = None,
    *,
    version: int = 1,
    retention: Duration = "30d",
    retry: Retry | None = None,
    step_timeout: Duration | None = None,
) -> Any:
    """Makes a durable workflow of `async def body(ctx, input)` or `async def body(ctx)`.

    `name` defaults to the function's name with `_` as `-`. A new `version` runs beside the old one: runs keep the
    version that they started with. `retention` is how long an ended run is kept. `retry` and `step_timeout` are the
    defaults of its steps.
    """

    def decorate(body: Callable[..., Coroutine[Any, Any, Any]]) -> Workflow[Any, Any]:
        return Workflow(
            body,
            name=None if callable(name) else name,
            version=version,
            retention=retention,
            retry=retry,
            step_timeout=step_timeout,
            takes_input=(input_parameter := _input_parameter(body)) is not None,
            input_optional=input_parameter is not None and input_parameter.default is not input_parameter.empty,
        )

    return decorate(name) if callable(name) else decorate


def _input_parameter(body: Callable[..., Any]) -> inspect.Parameter | None:
    if not inspect.iscoroutinefunction(body):
        shown = getattr(body, "__name__", repr(body))
        raise InvalidInput(f"a workflow is an async function: write `async def {shown}(ctx, input)`")
    parameters = [
        p for p in inspect.signature(body).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    needed = [p for p in parameters if p.default is p.empty]
    if not parameters or len(needed) > 2:
        raise InvalidInput(
            f"a workflow takes its context and at most one input: write `async def {body.__name__}(ctx, input)`, "
            "and put several values into a dataclass"
        )
    return parameters[1] if len(parameters) > 1 else None
