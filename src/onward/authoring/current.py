"""Which step is executing here: in its coroutine, in tasks that it started, in its thread."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID

from onward.core import ids, names
from onward.errors import OnwardError


@dataclass(slots=True, eq=False)
class CurrentStep:
    """The attempt of a step that is executing."""

    run_id: str
    path: str
    attempt: int
    cancelled: bool = False

    @property
    def name(self) -> str:
        return names.split(self.path)[1]

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step, and no other step's: a UUID, for a payment provider's header."""
        return str(ids.derive(UUID(self.run_id), self.path, "idempotency key"))  # salted: a child's id is another


executing: ContextVar[CurrentStep | None] = ContextVar("onward_step", default=None)


def current_step() -> CurrentStep:
    """The step that is executing. Works in its threads too."""
    step = executing.get()
    if step is None:
        raise OnwardError("current_step() is called outside a step: it is known only while a step executes")
    return step
