"""A workflow as it is defined: its name, its version, and the function that is its body."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Generic, TypeVar

from onward.core import durations, names
from onward.core.codec import Codec, Referred, codec, input_type, return_type
from onward.core.durations import Duration
from onward.core.retry import Retry
from onward.errors import InvalidInput, OnwardError

I = TypeVar("I")  # noqa: E741  input
O = TypeVar("O")  # noqa: E741  output

Serve = Callable[..., None]

_LONG = 30 * 60


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
        input_optional: bool,
    ) -> None:
        self.name = names.workflow_name(_default_name(body) if name is None else name)
        self.version = version_number(version)
        self.retention = timedelta(seconds=durations.seconds(retention, what="retention"))
        if retry is not None and not isinstance(retry, Retry):
            raise InvalidInput(f"retry of workflow {self.name!r}: write retry=Retry(attempts=3), got {retry!r}")
        self.retry = retry or Retry()
        limit = "10m" if step_timeout is None else step_timeout
        self.step_timeout = attempt_limit(limit, f"step_timeout of workflow {self.name!r}", stacklevel=4)
        self.body = body
        self.takes_input, self.input_optional = takes_input, input_optional
        functools.update_wrapper(self, body, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, O]:
        return self.body(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Workflow {self.name}@{self.version}>"

    @functools.cached_property
    def input_codec(self) -> Codec:
        how = codec(input_type(self.body)) if self.takes_input else codec(Any)
        if isinstance(how, Referred):
            raise InvalidInput(f"workflow {self.name!r}: an input is given whole; annotate what it is, without Ref[…]")
        return how

    @functools.cached_property
    def output_codec(self) -> Codec:
        return codec(return_type(self.body))

    def serve(self, url: str | None = None) -> None:
        """Runs a worker for this workflow until it is told to stop (SIGTERM, Ctrl-C)."""
        serving()(self, url=url)


def _default_name(body: Callable[..., Any]) -> str:
    return body.__name__.replace("_", "-").lstrip("-").lower()


def version_number(version: int) -> int:
    """The version, if a workflow may have it: it is an integer of four bytes in the database."""
    if isinstance(version, bool) or not isinstance(version, int) or not 0 < version < 2**31:
        raise InvalidInput(f"the version of a workflow is a whole number from 1 to {2**31 - 1}, got {version!r}")
    return version


def name_of(workflow: Workflow[Any, Any] | str) -> str:
    """What a workflow, or its name, is called."""
    if isinstance(workflow, Workflow):
        return workflow.name
    if isinstance(workflow, str):
        return names.workflow_name(workflow)
    raise InvalidInput(f"give a workflow (what @workflow made) or its name, got {workflow!r}")


def attempt_limit(timeout: Duration, what: str, *, stacklevel: int) -> float:
    """The seconds that one attempt of a step may take; `stacklevel` leads to who wrote it."""
    limit = durations.seconds(timeout, what=what)
    if limit <= 0:
        raise InvalidInput(f"{what}: a time limit must be more than nothing, got {timeout!r}")
    if limit > _LONG:
        warnings.warn(
            f"{what}: one attempt may take longer than 30 minutes (OW108): hand the work to another program, and let "
            "it signal the run, which waits with ctx.step.wait_for_event",
            stacklevel=stacklevel,
        )
    return limit


_serving: list[Serve] = []


def provide_serving(serve: Serve) -> None:
    """The worker's layer lies above this one and hands in how to serve."""
    _serving[:] = [serve]


def serving() -> Serve:
    if not _serving:
        raise OnwardError("import onward, not onward.authoring, to serve a workflow")
    return _serving[0]
