"""Every error that Onward raises, in one tree.

    OnwardError
    ├── InvalidName             a workflow, step, event, queue or tenant name breaks the rules
    ├── InvalidInput            a value cannot be stored, or does not fit what was declared
    ├── NotFound                no such run (for this tenant)
    ├── Conflict                the run has ended, or the key is taken by other work
    ├── StepFailed              a step failed for good; raised in the body, which may catch it
    │   └── StepTimeout         ... because its last attempt took too long
    ├── StepNotAwaited          a step was called and its coroutine never awaited
    ├── NonDeterminism          the journal and the code no longer fit each other; the run is parked
    ├── WorkflowVersionMismatch the worker was handed a version that it does not serve
    ├── LeaseLost               another worker holds the run now; this execution must stop
    ├── RunFailed               raised by `result()`: the run failed
    ├── RunCancelled            raised by `result()`, and by steps called after a cancel
    ├── PayloadMissing          a pointer names an object that is not there; the run is parked
    ├── PayloadCorrupt          an object is not what its pointer says; the run is parked
    ├── PayloadTooLarge         a value is larger than the limit
    ├── PayloadStoreNotConfigured
    ├── MissingMetadata         a payload that must be an envelope is none
    ├── UnknownEnvelopeVersion  an envelope written by a newer Onward
    ├── Unauthorized
    ├── Forbidden
    ├── SchemaMismatch          the database's schema and this release do not fit each other
    └── DatabaseUnavailable     the database could not be reached in time

Errors carry fields, and their message says what to do next.
"""

from __future__ import annotations

from typing import Any


class OnwardError(Exception):
    """The root of all errors of Onward."""


class InvalidName(OnwardError, ValueError):
    """A name breaks the rules; the message says which rule."""


class InvalidInput(OnwardError, ValueError):
    """A value cannot be stored, or does not fit what was declared for it."""


class NotFound(OnwardError, LookupError):
    """There is no such thing, or it belongs to another tenant."""


class Conflict(OnwardError):
    """What was asked for contradicts what is there."""


class StepFailed(OnwardError):
    """A step failed for good. The body may catch it; uncaught it fails the run."""

    def __init__(self, step: str, attempt: int, type: str, message: str) -> None:  # noqa: A002  contract
        super().__init__(step, attempt, type, message)
        self.step, self.attempt, self.type, self.message = step, attempt, type, message

    def __str__(self) -> str:
        tries = f"after {self.attempt} attempts" if self.attempt > 1 else "at the first attempt"
        return f"step {self.step!r} failed {tries}: {self.type}: {self.message}"


class StepTimeout(StepFailed):
    """A step failed for good, and its last attempt had run out of time."""


class StepNotAwaited(OnwardError):
    """A step was called, but its coroutine was never awaited."""


class NonDeterminism(OnwardError):
    """The journal holds a step that the code no longer asks for. The run is parked, not failed."""


class WorkflowVersionMismatch(OnwardError):
    """A worker was handed a version of a workflow that it does not serve."""

    def __init__(self, workflow: str, expected: int, got: int) -> None:
        super().__init__(workflow, expected, got)
        self.workflow, self.expected, self.got = workflow, expected, got

    def __str__(self) -> str:
        return f"workflow {self.workflow!r}: this worker serves version {self.expected}, the run needs {self.got}"


class LeaseLost(OnwardError):
    """Another worker holds the run now; what this execution does is no longer recorded."""


class RunFailed(OnwardError):
    """A run failed. `error` is its record: type, message, step, attempt, traceback."""

    def __init__(self, run_id: str, error: dict[str, Any]) -> None:
        super().__init__(run_id, error)
        self.run_id, self.error = run_id, error

    def __str__(self) -> str:
        where = f" in step {self.error['step']!r}" if self.error.get("step") else ""
        return f"run {self.run_id} failed{where}: {self.error.get('type')}: {self.error.get('message')}"


class RunCancelled(OnwardError):
    """The run was cancelled; nothing of it is recorded any more."""


class PayloadMissing(OnwardError):
    """A pointer names an object that is not in the payload store."""


class PayloadCorrupt(OnwardError):
    """An object in the payload store is not what its pointer says."""


class PayloadTooLarge(OnwardError):
    """A value is larger than the limit; the message says which setting to change."""


class PayloadStoreNotConfigured(OnwardError):
    """A value needs the payload store, and none is configured."""


class MissingMetadata(OnwardError):
    """A payload that must be an envelope is none."""


class UnknownEnvelopeVersion(OnwardError):
    """An envelope was written by a newer Onward."""


class Unauthorized(OnwardError):
    """The request carries no valid token."""


class Forbidden(OnwardError):
    """The token does not allow this."""


class SchemaMismatch(OnwardError):
    """The database's schema and this release of Onward do not fit each other."""


class DatabaseUnavailable(OnwardError):
    """The database could not be reached in time."""
