"""Errors as they are journalled, and as the body sees them: the same the first time and on every replay."""

from __future__ import annotations

import traceback
from typing import Any

import msgspec

from onward.errors import StepFailed, StepTimeout

_LONGEST = 16_384
"""Bytes of a message or a traceback that are kept: a row stays small, whatever a user's exception says."""


class Fault(msgspec.Struct, omit_defaults=True):
    """The record of an error. `step` and `attempt` are there where a step brought the run down."""

    type: str
    message: str
    step: str | None = None
    attempt: int | None = None
    traceback: str | None = None

    def encode(self) -> bytes:
        return _encoder.encode(self)

    def as_step_failure(self, step: str, attempt: int) -> StepFailed:
        kind = StepTimeout if self.type == StepTimeout.__name__ else StepFailed
        return kind(step, attempt, self.type, self.message)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Fault)


def decode(data: bytes) -> Fault:
    return _decoder.decode(data)


def told(kind: str, message: str) -> Fault:
    """An error that was not raised here."""
    return Fault(kind, _clean(message))


def of_step(error: BaseException) -> Fault:
    """What is journalled for a step that failed for good, or that is tried again."""
    if isinstance(error, StepFailed):  # a nested step's: keep what really happened
        return Fault(error.type, _clean(error.message), traceback=_trace(error))
    return Fault(type(error).__name__, _clean(_text(error)), traceback=_trace(error))


def of_run(error: BaseException) -> Fault:
    """What is recorded for a run whose body raised."""
    cause = _step_failure(error)
    if cause is not None:
        return Fault(cause.type, _clean(cause.message), cause.step, cause.attempt, _trace(error))
    return Fault(type(error).__name__, _clean(_text(error)), traceback=_trace(error))


def _step_failure(error: BaseException) -> StepFailed | None:
    """The step that brought the body down, also from within a task group's bundle."""
    if isinstance(error, StepFailed):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [cause for cause in map(_step_failure, error.exceptions) if cause is not None]
        return found[0] if found else None
    return None


def _text(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: " + "; ".join(f"{type(e).__name__}: {_text(e)}" for e in error.exceptions)
    try:
        return str(error)
    except Exception as broken:
        return f"(its text cannot be made: {type(broken).__name__})"


def _trace(error: BaseException) -> str:
    """The end of the traceback, without the engine's own frames on top."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/onward/worker/" not in f.filename] or list(frames)
    head = "Traceback (most recent call last):\n" + "".join(traceback.format_list(own))
    return _clean(head + "".join(traceback.format_exception_only(error)).rstrip(), keep_end=True)


def _clean(text: str, keep_end: bool = False) -> str:
    """Storable, whatever a user's exception says: no lone surrogates, not endless."""
    data = text.encode("utf-8", "replace")
    if len(data) > _LONGEST:
        data = "…".encode() + data[-_LONGEST:] if keep_end else data[:_LONGEST] + "…".encode()
    return data.decode("utf-8", "ignore")


def as_dict(data: bytes) -> dict[str, Any]:
    """A recorded error as people see it; every key is there."""
    fault = decode(data)
    return {f: getattr(fault, f) for f in fault.__struct_fields__}
