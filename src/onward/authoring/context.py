"""`ctx`: what a workflow's body is given."""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, TypeVarTuple, overload
from uuid import UUID

from onward.authoring.current import executing
from onward.authoring.definition import Workflow, attempt_limit, name_of
from onward.authoring.engine import Batch, Engine, Wait, Work
from onward.authoring.handoff import Handoff
from onward.core import names
from onward.core.codec import PLAIN, Codec, Ref, Referred, codec, codec_of
from onward.core.durations import Duration, seconds
from onward.core.retry import Retry
from onward.errors import InvalidInput

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741  input
O = TypeVar("O")  # noqa: E741  output
Ts = TypeVarTuple("Ts")


class Context:
    """The run that a body belongs to, and the verbs that make its work durable (`ctx.step`)."""

    __slots__ = ("_engine", "_log", "_random", "artifacts", "step")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._random: random.Random | None = None
        self.step = Steps(engine)
        self.artifacts = Artifacts(engine)
        self._log: logging.LoggerAdapter[logging.Logger] | None = None

    @property
    def run_id(self) -> str:
        """The run's id, a UUID of version 7."""
        return str(self._engine.run_id)

    @property
    def workflow(self) -> str:
        return self._engine.workflow.name

    @property
    def version(self) -> int:
        return self._engine.workflow.version

    @property
    def tenant(self) -> str:
        return self._engine.tenant

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The routing metadata that the run was started with; empty where there is none."""
        return self._engine.metadata

    @property
    def started_at(self) -> datetime:
        """When the run was started, by the database's clock."""
        return self._engine.started_at

    @property
    def cancelled(self) -> bool:
        """True once the run is cancelled: for code in threads, which cannot be interrupted."""
        return self._engine.cancelled

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that says each thing once: it is silent while the run is replayed."""
        if self._log is None:
            self._log = _QuietOnReplay(self._engine)
        return self._log

    def now(self) -> datetime:
        """When the newest result that the body has seen was committed: the same on every replay."""
        return self._engine.now

    def random(self) -> random.Random:
        """The run's own generator, seeded by its id: the same numbers on every replay."""
        if self._random is None:
            self._random = random.Random(self._engine.run_id.int)
        return self._random

    def uuid(self) -> UUID:
        """A new UUID from `random()`: the same on every replay."""
        return UUID(int=self.random().getrandbits(128), version=4)


class Steps:
    """`ctx.step`. A call takes its name when it is made, and begins when it is awaited.

    The types say Coroutine[object, None, T]: with Any in place of object and None, mypy takes the overloads of
    asyncio.gather for ambiguous, and what is gathered is Any.
    """

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @overload
    def run(
        self,
        name: str,
        fn: Callable[[*Ts], Any],
        /,
        *args: *Ts,
        type: type[T],
        retry: Retry | None = None,
        timeout: Duration | None = None,
        ref: Literal[False] = False,
        side_effects: bool = False,
    ) -> Coroutine[object, None, T]: ...
    @overload
    def run(
        self,
        name: str,
        fn: Callable[[*Ts], Coroutine[Any, Any, T]],
        /,
        *args: *Ts,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        ref: Literal[False] = False,
        side_effects: bool = False,
    ) -> Coroutine[object, None, T]: ...
    @overload
    def run(
        self,
        name: str,
        fn: Callable[[*Ts], T],
        /,
        *args: *Ts,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        ref: Literal[False] = False,
        side_effects: bool = False,
    ) -> Coroutine[object, None, T]: ...
    @overload
    def run(
        self,
        name: str,
        fn: Callable[[*Ts], Any],
        /,
        *args: *Ts,
        type: type[T],
        ref: Literal[True],
        retry: Retry | None = None,
        timeout: Duration | None = None,
        side_effects: bool = False,
    ) -> Coroutine[object, None, Ref[T]]: ...
    @overload
    def run(
        self,
        name: str,
        fn: Callable[[*Ts], Coroutine[Any, Any, T]],
        /,
        *args: *Ts,
        ref: Literal[True],
        retry: Retry | None = None,
        timeout: Duration | None = None,
        side_effects: bool = False,
    ) -> Coroutine[object, None, Ref[T]]: ...
    @overload
    def run(
        self,
        name: str,
        fn: Callable[[*Ts], T],
        /,
        *args: *Ts,
        ref: Literal[True],
        retry: Retry | None = None,
        timeout: Duration | None = None,
        side_effects: bool = False,
    ) -> Coroutine[object, None, Ref[T]]: ...

    def run(  # type: ignore[misc]  # mypy does not match *args: *Ts with *args: Any
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        ref: bool = False,
        type: Any = None,  # noqa: A002  contract
        side_effects: bool = False,
    ) -> Coroutine[object, None, Any]:
        """Executes `fn(*args)` and journals what it returns: it is executed again only if a crash came first.

        A sync function runs in a thread. The value is decoded by the function's return annotation or by `type`,
        else it is plain JSON. With `ref` it stays in the payload store, and the body gets a pointer to it (`Ref`). One
        attempt may take ten minutes unless `timeout` says otherwise.
        """
        defaults = self._engine.workflow
        if not callable(fn):
            raise InvalidInput(
                f"step {name!r}: give the function and its arguments apart, as in "
                f"ctx.step.run({name!r}, fn, arg), not what it returned ({fn!r})"
            )
        if retry is not None and not isinstance(retry, Retry):
            raise InvalidInput(f"retry of step {name!r}: write retry=Retry(attempts=3), got {retry!r}")
        limit = defaults.step_timeout
        if timeout is not None:
            limit = attempt_limit(timeout, f"timeout of step {name!r}", stacklevel=3)
        how = codec_of(fn) if type is None else codec(type)
        if isinstance(how, Referred):
            how, ref = how.inner, True
        return self._engine.run(names.step_name(name), Work(fn, args, retry or defaults.retry, limit, how, ref))

    def sleep(self, name: str, duration: Duration) -> Coroutine[object, None, None]:
        """Sleeps, for months if need be, without holding anything but a row."""
        return self._engine.sleep(names.step_name(name), seconds(duration, what=f"sleep {name!r}"), None)

    def sleep_until(self, name: str, when: datetime) -> Coroutine[object, None, None]:
        """Sleeps until a point in time; one that has passed returns at once."""
        if not isinstance(when, datetime) or when.tzinfo is None:
            raise InvalidInput(
                f"sleep_until {name!r}: needs a datetime with a time zone, such as "
                f"ctx.now() + timedelta(days=1); got {when!r}"
            )
        try:
            moment = when.astimezone(UTC)
        except OverflowError:  # at the ends of the calendar: hours do not matter there
            moment = when.replace(tzinfo=UTC)
        return self._engine.sleep(names.step_name(name), None, moment)

    @overload
    def wait_for_event(
        self,
        event: str,
        *,
        name: str | None = None,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        type: type[T],
    ) -> Coroutine[object, None, T | None]: ...
    @overload
    def wait_for_event(
        self,
        event: str,
        *,
        name: str | None = None,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        type: None = None,
    ) -> Coroutine[object, None, Any]: ...

    def wait_for_event(
        self,
        event: str,
        *,
        name: str | None = None,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        type: Any = None,  # noqa: A002  contract
    ) -> Coroutine[object, None, Any]:
        """The payload of the first signal `event` that contains `match`; None when `timeout` passed.

        Without a time-out it waits for ever. Signals that came before the wait are kept for it.
        """
        names.event_name(event)
        if match is not None and not isinstance(match, Mapping):
            raise InvalidInput(
                f"match of {event!r}: give the keys and values that the payload must hold, as in "
                f'match={{"userId": 42}}; got {match!r}'
            )
        limit = None if timeout is None else seconds(timeout, what=f"timeout of {event!r}")
        how: Codec = PLAIN if type is None else codec(type)
        wait = Wait(event, None if match is None else dict(match), limit, how)
        return self._engine.wait(names.step_name(event if name is None else name), wait)

    def race(self, name: str, /, **branches: Coroutine[Any, Any, Any]) -> Coroutine[object, None, tuple[str, Any]]:
        """The first branch to settle, as `(branch, value)`; its failure is raised. The others are cancelled."""
        if not branches:
            raise InvalidInput(f"race {name!r}: give it branches, as in race({name!r}, a=step_a, b=step_b)")
        for branch, coroutine in branches.items():
            if not inspect.iscoroutine(coroutine):
                raise InvalidInput(
                    f"race {name!r}: the branch {branch!r} must be a coroutine, such as "
                    f"ctx.step.sleep({branch!r}, '1h') or the call of an async function; got {coroutine!r}"
                )
        return self._engine.race(names.step_name(name), branches)

    def start(
        self,
        name: str,
        workflow: Workflow[I, Any] | str,
        input: I | Any = None,  # noqa: A002  contract
    ) -> Coroutine[object, None, str]:
        """Starts a run of its own and gives its id, the same on every replay."""
        name_of(workflow)
        return self._engine.start(names.step_name(name), workflow, input, invoke=False)

    def batch(
        self,
        name: str,
        submit: Callable[[Handoff], Any],
        input: Any,  # noqa: A002  contract
        *,
        timeout: Duration | None = None,
        type: Any = None,  # noqa: A002
    ) -> Coroutine[object, None, Any]:
        """Hands work to a program outside, and gives its answer: `submit` gets a `Handoff` to pass on to it, which says
        where the input lies and whom to answer. Without a time-out the run waits for ever."""
        if not callable(submit):
            raise InvalidInput(f"batch {name!r}: give a function that passes a Handoff on, got {submit!r}")
        limit = None if timeout is None else seconds(timeout, what=f"timeout of {name!r}")
        how = PLAIN if type is None else codec(type)
        return self._engine.batch(names.step_name(name), Batch(submit, input, limit, how))

    @overload
    def invoke(self, name: str, workflow: Workflow[I, O], input: I = ...) -> Coroutine[object, None, O]: ...
    @overload
    def invoke(self, name: str, workflow: str, input: Any = ...) -> Coroutine[object, None, Any]: ...

    def invoke(self, name: str, workflow: Any, input: Any = None) -> Coroutine[object, None, Any]:  # noqa: A002
        """Starts a child run and gives its output; StepFailed where it fails. It is cancelled with this run."""
        name_of(workflow)
        return self._engine.start(names.step_name(name), workflow, input, invoke=True)


class Artifacts:
    """`ctx.artifacts`."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def keep(self, name: str, type: str, value: Any) -> Coroutine[object, None, Ref[Any]]:  # noqa: A002  contract
        """Copies a value, or what a Ref points to, below `artifacts/`, where retention never reaches. A step."""
        if not isinstance(type, str) or not type:
            raise InvalidInput(f"artifact {name!r}: its type is a word such as 'reports', got {type!r}")
        return self._engine.keep(names.step_name(name), type, value)


class _QuietOnReplay(logging.LoggerAdapter[logging.Logger]):
    """`ctx.log`: says each thing once, not again on every replay."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(logging.getLogger("onward.workflow"), {})
        self._engine = engine

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  the name that logging gives it
        return not self._engine.replaying and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        about = {"run_id": str(self._engine.run_id), "workflow": self._engine.workflow.name}
        step = executing.get()
        if step is not None and step.run_id == about["run_id"]:
            about["step"] = names.readable(step.path)
        kwargs["extra"] = {**about, **(kwargs.get("extra") or {})}
        return msg, kwargs
