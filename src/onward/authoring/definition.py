"""A workflow as it is defined: its name, its version, and the function that is its body."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Generic, TypeVar

from onward.core import durations, names
from onward.core.codec import Codec, codec, input_type, return_type
from onward.core.durations import Duration
from onward.core.retry import Retry
from onward.errors import InvalidInput, OnwardError

I = TypeVar("I")  # noqa: E741  input
O = TypeVar("O")  # noqa: E741  output

Serve = Callable[..., None]


class Workflow(Generic[I, O]):
    """What `@workflow` gives. Callable as the plain function that it was made from."""

    def __init__(
        self,
        body: Callable[..., Coroutine[Any, Any, O]],
        *,
        name: str | None,
        version: int,
        retention: Duration,
        retry: Retry | None,
        step_timeout: Duration | None,
        takes_input: bool,
    ) -> None:
        if isinstance(version, bool) or not isinstance(version, int) or not 0 < version < 2**31:
            raise InvalidInput(f"the version of a workflow is a whole number from 1 on, got {version!r}")
        self.name = names.workflow_name(name or body.__name__.replace("_", "-").strip("-").lower())
        self.version = version
        self.retention = timedelta(seconds=durations.seconds(retention, what="retention"))
        self.retry = retry or Retry()
        self.step_timeout = durations.seconds(step_timeout or "10m", what="step_timeout")
        self.body = body
        self.takes_input = takes_input
        functools.update_wrapper(self, body, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, O]:
        return self.body(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Workflow {self.name}@{self.version}>"

    @functools.cached_property
    def input_codec(self) -> Codec:
        return codec(input_type(self.body)) if self.takes_input else codec(Any)

    @functools.cached_property
    def output_codec(self) -> Codec:
        return codec(return_type(self.body))

    def serve(self, url: str | None = None) -> None:
        """Runs a worker for this workflow until it is told to stop (SIGTERM, Ctrl-C)."""
        serving()(self, url=url)


_serving: list[Serve] = []


def provide_serving(serve: Serve) -> None:
    """The worker's layer lies above this one and hands in how to serve."""
    _serving[:] = [serve]


def serving() -> Serve:
    if not _serving:
        raise OnwardError("import onward, not onward.authoring, to serve a workflow")
    return _serving[0]
