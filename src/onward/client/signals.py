"""Signals on their way into the database: a small payload as it is, a large one by pointer.

The database cannot search what lies outside. So who sends a large payload compares it with what the run waits for now;
with what it waits for later, its worker does (worker/readings.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from onward.client import inputs
from onward.client.payloads import Payloads
from onward.core import pointers
from onward.core.codec import PLAIN, contains, searchable
from onward.payloads.layout import Owner
from onward.store.runs import NewSignal, Runs


async def new(
    runs: Runs,
    payloads: Payloads,
    signal_id: UUID,
    run_id: UUID,
    event: str,
    payload: Any,
    buffer: bool,
    owner_of: Callable[[UUID], Awaitable[Owner]],
) -> NewSignal:
    """A signal that is ready to be sent."""
    data = inputs.encoded(payload, what := f"the payload of {event!r}")
    if payloads.is_small(data):
        return NewSignal(signal_id, run_id, event, pointers.literal(data), searchable(data), buffer)
    owner = await owner_of(run_id)
    stored = await payloads.journalled(data, what, lambda at, _: at.signal(owner, signal_id))
    if not pointers.is_pointer(stored):
        return NewSignal(signal_id, run_id, event, stored, searchable(data), buffer)
    fits, unfit = compared(data, await runs.matches(run_id, event))
    return NewSignal(signal_id, run_id, event, stored, None, buffer, _list(fits), _list(unfit))


def compared(data: bytes, matches: list[str]) -> tuple[list[str], list[str]]:
    """Which of these matches a payload fits, and which not. Both sides as the database would compare them."""
    value = PLAIN.decode(searchable(data).encode())
    told = {match: contains(value, PLAIN.decode(match.encode())) for match in matches}
    return [match for match in matches if told[match]], [match for match in matches if not told[match]]


def _list(matches: list[str]) -> str:
    return "[" + ",".join(matches) + "]"
