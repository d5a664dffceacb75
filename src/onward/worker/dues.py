"""When the runs that this worker put to sleep are due: only ever a reason to look, the database decides."""

from __future__ import annotations

import heapq
import time

MOST = 100_000
"""Deadlines that are remembered; those beyond are found by polling, like those of other workers."""
HORIZON = 3600.0


class Dues:
    """The nearest deadlines, on this machine's monotonic clock."""

    def __init__(self) -> None:
        self._heap: list[float] = []

    def add(self, seconds: float) -> None:
        if seconds < HORIZON and len(self._heap) < MOST:
            heapq.heappush(self._heap, time.monotonic() + seconds)

    def next(self) -> float | None:
        """Seconds until the next one; what has passed is forgotten."""
        now = time.monotonic()
        while self._heap and self._heap[0] <= now:
            heapq.heappop(self._heap)
        return self._heap[0] - now if self._heap else None
