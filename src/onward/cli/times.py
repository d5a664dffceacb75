"""Times for people: local, relative, and no more exact than is of use."""

from __future__ import annotations

from datetime import datetime, timedelta

from onward.core import durations


def span(seconds: float) -> str:
    """A duration with about three digits: "8ms", "1.24s", "12.3s", "2m 5s"."""
    seconds = max(seconds, 0.0)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.995:
        return f"{seconds:.2f}s"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    return durations.show(round(seconds))


def ago(when: datetime, now: datetime) -> str:
    passed = (now - when).total_seconds()
    return "just now" if passed < 1 else f"{durations.show(int(passed))} ago"


def local(when: datetime, now: datetime) -> str:
    """The time on the wall here; with the date where it is not today's."""
    here, today = when.astimezone(), now.astimezone()
    if here.date() == today.date():
        return f"{here:%H:%M:%S}"
    near = abs(here - today) < timedelta(days=300)
    return f"{here:%d %b %H:%M}" if near else f"{here:%Y-%m-%d %H:%M}"
