"""Where a run stands in a distributed trace, told without anything that lives: from the run's id, the step's path and
what its starter was doing.

A span is a fact that was committed, and whoever is told of the commit emits it: this worker, or the one after the
next, months later. They need not know each other, because ids are derived: each names the same parent for the same
step; and a replay, in which nothing is committed, emits nothing. The trace is the one that the starter was in, as its
`traceparent` says, which is kept with the run; else the run's own 128 bits are the trace's id.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple
from uuid import UUID

SAMPLED = 1

_FORM = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


class Place(NamedTuple):
    """A span, as others name it."""

    trace: int
    span: int
    flags: int = SAMPLED

    def written(self) -> str:
        """As W3C writes it (`traceparent`)."""
        return f"00-{self.trace:032x}-{self.span:016x}-{self.flags:02x}"


def parse(traceparent: str | None) -> Place | None:
    """None where it says nothing that can be used."""
    found = _FORM.fullmatch(traceparent) if traceparent else None
    return None if found is None else Place(int(found[1], 16), int(found[2], 16), int(found[3], 16))


class Trace:
    """One run's part of a trace: its span, and those below it. `parent` is its starter's; without one the run's own
    span is the root, and `flags` say whether it is sampled."""

    __slots__ = ("_run_id", "parent", "run")

    def __init__(self, run_id: UUID, parent: Place | None, flags: int = SAMPLED) -> None:
        self._run_id, self.parent = run_id, parent
        trace, flags = (run_id.int or 1, flags) if parent is None else (parent.trace, parent.flags)
        self.run = Place(trace, _span("run", run_id), flags)

    def step(self, path: str) -> Place:
        """The step at this path; "" is the run itself."""
        return self.run._replace(span=_span("step", self._run_id, path)) if path else self.run

    def signal(self, signal_id: UUID) -> Place:
        return self.run._replace(span=_span("signal", signal_id))


def _span(kind: str, of: UUID, path: str = "") -> int:
    """64 bits, not all of them zero: that would be no span."""
    digest = hashlib.sha256(of.bytes + f"{kind} span {path}".encode()).digest()
    return int.from_bytes(digest[:8], "big") or 1
