"""Durations as people write them: `"90s"`, `"1h30m"`, `"3 hours"`, 90, `timedelta(days=7)`.

One reading for the whole of Onward: options, sleeps, time-outs, flags and REST fields all come through
`seconds`. A bare number is seconds and `m` is minutes, everywhere. Nothing is guessed: what cannot be read,
or cannot be stored (a date past the year 9999 would fail in the database, and take its whole batch with it),
is refused here, where the message can still name what was given.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from functools import lru_cache

from onward.errors import InvalidInput

Duration = str | int | float | timedelta

LONGEST = 1000 * 365.25 * 86_400.0
"""A thousand years, in seconds: the longest duration that the calendar of the database can add to today."""

_UNITS = {
    "ms": 0.001, "msec": 0.001, "msecs": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86_400.0, "day": 86_400.0, "days": 86_400.0,
    "w": 604_800.0, "week": 604_800.0, "weeks": 604_800.0,
}  # fmt: skip
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_ONE = rf"({_NUMBER}) *({'|'.join(sorted(_UNITS, key=len, reverse=True))})"
_PART = re.compile(_ONE)
_WHOLE = re.compile(rf"{_ONE}(?: *{_ONE})*")
_BARE = re.compile(_NUMBER)
_FORMS = (
    'write "90s", "1h30m", "3 hours", "1 day 2 hours", "1.5h" or "250ms" '
    "(units ms s m h d w, m is minutes), a number of seconds, or a timedelta"
)


def seconds(duration: Duration, *, what: str = "duration") -> float:
    """The duration in seconds, finite and not negative; `what` names it in the error."""
    if isinstance(duration, str):
        found = _parse(duration)
    elif isinstance(duration, timedelta):
        found = duration.total_seconds()
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool):
        found = _number(duration)
    else:
        found = None
    if found is None or not 0 <= found <= LONGEST:  # NaN fails both comparisons
        raise InvalidInput(f"{what}: {_problem(found)}, got {_shown(duration)}: {_FORMS}")
    return found


@lru_cache(maxsize=1024)
def _parse(text: str) -> float | None:
    text = text.strip().lower()
    if _BARE.fullmatch(text):
        return float(text)
    if not _WHOLE.fullmatch(text):
        return -1.0 if text.startswith("-") and _parse(text[1:]) is not None else None
    parts = [(float(number), _UNITS[unit]) for number, unit in _PART.findall(text)]
    if len({unit for _, unit in parts}) < len(parts):  # "1h 1h" is a slip, not two hours
        return None
    return math.fsum(number * unit for number, unit in parts)


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _problem(found: float | None) -> str:
    if found is None or math.isnan(found):
        return "not a duration"
    return "a duration cannot be negative" if found < 0 else "longer than a thousand years"


def _shown(duration: object) -> str:
    if isinstance(duration, int) and abs(duration) > 10**40:  # repr of a huge int may itself be refused
        return "a huge number"
    shown = repr(duration)
    return shown if len(shown) <= 80 else f"{shown[:80]}..."


def show(seconds: float) -> str:
    """The duration for people, by its two largest neighbouring units: "1h 30m", "40s", "250ms", "7d"."""
    if seconds < 0:
        return f"-{show(-seconds)}"
    left = round(seconds * 1000)
    if left == 0:
        return "0s" if seconds == 0 else "under 1ms"
    sizes = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)]
    first = next(place for place, (_, size) in enumerate(sizes) if left >= size)
    shown = []
    for unit, size in sizes[first : first + 2]:
        count, left = divmod(left, size)
        if count:
            shown.append(f"{count}{unit}")
    return " ".join(shown)
