"""What a context needs from whoever executes the run. The worker implements it; nothing here knows how."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from onward.authoring.definition import Workflow
from onward.core.codec import Codec
from onward.core.retry import Retry


class Work(NamedTuple):
    """What `step.run` executes, and how."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    retry: Retry
    timeout: float
    codec: Codec
    ref: bool = False  # the body is given a pointer


@dataclass(frozen=True, slots=True)
class Wait:
    """What `step.wait_for_event` waits for."""

    event: str
    match: Mapping[str, Any] | None
    timeout: float | None
    codec: Codec


@dataclass(frozen=True, slots=True)
class Batch:
    """What `step.batch` hands to an outside program, and what it expects back."""

    submit: Callable[..., Any]
    value: Any
    timeout: float | None
    codec: Codec


class Engine(Protocol):
    """The execution of one run, seen from its context. Each verb takes its name when it is called."""

    @property
    def run_id(self) -> UUID: ...
    @property
    def tenant(self) -> str: ...
    @property
    def workflow(self) -> Workflow[Any, Any]: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def started_at(self) -> datetime: ...
    @property
    def now(self) -> datetime: ...
    @property
    def replaying(self) -> bool: ...
    @property
    def cancelled(self) -> bool: ...

    def run(self, name: str, work: Work) -> Coroutine[Any, Any, Any]: ...
    def sleep(self, name: str, seconds: float | None, until: datetime | None) -> Coroutine[Any, Any, None]: ...
    def wait(self, name: str, wait: Wait) -> Coroutine[Any, Any, Any]: ...
    def keep(self, name: str, type: str, value: Any) -> Coroutine[Any, Any, Any]: ...  # noqa: A002
    def batch(self, name: str, batch: Batch) -> Coroutine[Any, Any, Any]: ...
    def race(
        self, name: str, branches: Mapping[str, Coroutine[Any, Any, Any]]
    ) -> Coroutine[Any, Any, tuple[str, Any]]: ...
    def start(
        self, name: str, workflow: Workflow[Any, Any] | str, value: Any, *, invoke: bool
    ) -> Coroutine[Any, Any, Any]: ...
