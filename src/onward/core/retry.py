"""When a failed step is tried again: a pure decision from the attempt, the error and a source of chance.

The number of attempts includes the first. Chance comes from the caller, so that a test can fix it; jitter
is there because a thousand runs that failed together when a service restarted would otherwise come back
together. `RetryAfter` sets one delay, and uses up an attempt like any failure: a service that always says
"later" must not keep a run for ever. A value that cannot be stored will not be storable the next time: such
errors end a step at once, whatever the policy says.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

from onward.core.durations import LONGEST, Duration, seconds
from onward.errors import InvalidInput, InvalidName, PayloadTooLarge

_HOPELESS = (InvalidInput, InvalidName, PayloadTooLarge)

MOST = 2**31 - 1
"""Attempts that the database can count to: 68 years of one a second. Who asks for more means for ever."""


class GiveUp(Exception):
    """Raise this in a step to end its retries at once."""


class RetryAfter(Exception):
    """Raise this in a step to say when it is worth another attempt. It counts as an attempt."""

    def __init__(self, duration: Duration, message: str = "") -> None:
        super().__init__(duration, message)
        self.seconds = seconds(duration, what="RetryAfter")
        self.message = message

    def __str__(self) -> str:
        return self.message or f"to be tried again in {self.seconds:g} seconds"


@dataclass(frozen=True)
class Backoff:
    """How long to wait between attempts. Make one with `fixed`, `linear` or `exponential`."""

    kind: str
    base: float
    max: float | None = None
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "linear", "exponential"):
            raise InvalidInput(f"Backoff: write Backoff.fixed, .linear or .exponential, not {self.kind!r}")
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, (int, float)) or not 0 <= self.jitter <= 1:
            raise InvalidInput(
                f"Backoff: jitter is a share from 0 to 1, such as 0.2 for 20% up or down; got {self.jitter!r}"
            )

    @classmethod
    def fixed(cls, duration: Duration) -> Backoff:
        """The same delay every time."""
        return cls("fixed", seconds(duration, what="Backoff.fixed"))

    @classmethod
    def linear(cls, base: Duration, max: Duration | None = None) -> Backoff:  # noqa: A002  contract
        """`base`, twice `base`, three times `base` ..., at most `max`."""
        return cls("linear", seconds(base, what="Backoff.linear"), _cap(max, "Backoff.linear"))

    @classmethod
    def exponential(cls, base: Duration, max: Duration | None = None, jitter: float = 0.0) -> Backoff:  # noqa: A002
        """`base`, doubled each time, at most `max`; `jitter=0.2` spreads it by 20% up or down."""
        what = "Backoff.exponential"
        return cls("exponential", seconds(base, what=what), _cap(max, what), jitter)

    def delay(self, attempt: int, rand: random.Random) -> float:
        """The seconds to wait after the failed attempt number `attempt`, counted from 1."""
        wait = self._plain(attempt)
        if self.jitter:
            wait *= rand.uniform(1 - self.jitter, 1 + self.jitter)
        return min(wait, LONGEST if self.max is None else self.max)

    def _plain(self, attempt: int) -> float:
        if self.kind == "linear":
            return self.base * min(attempt, 1 << 60)
        if self.kind == "exponential":
            return math.ldexp(self.base, min(attempt - 1, 900))  # beyond that a float overflows
        return self.base


def _cap(duration: Duration | None, what: str) -> float | None:
    return None if duration is None else seconds(duration, what=f"max of {what}")


_DEFAULT = Backoff.exponential("1s", max="60s", jitter=0.2)


@dataclass(frozen=True)
class Retry:
    """How often a failing step is tried, how far apart, and which errors are not worth another attempt."""

    attempts: int = 3
    backoff: Backoff = _DEFAULT
    give_up_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise InvalidInput(
                f"Retry: attempts is a whole number from 1 on, the first attempt included; got {self.attempts!r}"
            )
        object.__setattr__(self, "attempts", min(self.attempts, MOST))
        if not isinstance(self.backoff, Backoff):
            raise InvalidInput(
                'Retry: backoff is Backoff.fixed("5s"), Backoff.linear("5s") or Backoff.exponential("1s"); '
                f"got {self.backoff!r}"
            )
        object.__setattr__(self, "give_up_on", _classes(self.give_up_on))

    def delay(self, attempt: int, error: BaseException, rand: random.Random) -> float | None:
        """Seconds to wait after failed attempt number `attempt`, counted from 1; None: no further attempt."""
        if attempt >= self.attempts or isinstance(error, (GiveUp, *_HOPELESS, *self.give_up_on)):
            return None
        if isinstance(error, RetryAfter):
            return error.seconds
        return self.backoff.delay(attempt, rand)


def _classes(given: Any) -> tuple[type[BaseException], ...]:
    classes = (given,) if isinstance(given, type) else given
    if isinstance(classes, tuple) and all(map(_is_exception, classes)):
        return classes
    raise InvalidInput(f"Retry: give_up_on is a tuple of exception classes, such as (ValueError,); got {given!r}")


def _is_exception(given: Any) -> bool:
    return isinstance(given, type) and issubclass(given, BaseException)
