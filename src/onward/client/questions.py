"""Which runs somebody asks for: checked when they ask, before anything is sent.

The cursor is the last row of a page, its start and id: rows that arrive meanwhile are newer, so they shift nothing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from onward.core.codec import PLAIN, searchable
from onward.errors import InvalidInput
from onward.store.runs import ListQuery, RunRecord, Runs

STATUSES = ("running", "completed", "failed", "cancelled")


class Question(NamedTuple):
    """What was asked, and the same as the database is asked."""

    query: ListQuery
    input: Mapping[str, Any] | None
    cursor: str | None

    def after(self, cursor: str) -> Question:
        time, run_id = _after(cursor)
        return self._replace(query=self.query._replace(after_time=time, after_id=run_id), cursor=cursor)


def question(
    workflow: str | None,
    status: str | None,
    since: datetime | str | None,
    until: datetime | str | None,
    wanted: Mapping[str, Any] | None,
    cursor: str | None,
    limit: int,
) -> Question:
    """InvalidInput where it makes no sense."""
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"status is one of {', '.join(STATUSES)}; got {status!r}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1000:
        raise InvalidInput(f"limit is a whole number from 1 to 1000, got {limit!r}")
    after = _after(cursor)
    query = ListQuery(workflow, status, _moment(since), _moment(until), _patterns(wanted), *after, limit)
    return Question(query, wanted, cursor)


async def page(runs: Runs, question: Question) -> tuple[list[RunRecord], str | None]:
    """Of the database: one row more than asked for tells whether there is a next page."""
    query = question.query
    records = await runs.page(query._replace(limit=query.limit + 1))
    found, more = records[: query.limit], len(records) > query.limit
    return found, _cursor(found[-1]) if more else None


def _moment(when: datetime | str | None) -> datetime | None:
    if isinstance(when, str):
        try:
            when = datetime.fromisoformat(when)
        except ValueError as error:
            raise InvalidInput(f"a point in time is written 2026-05-01T12:00:00Z, got {when!r}") from error
    if when is None:
        return None
    try:
        return when.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{when} is at the edge of the calendar: leave it out") from error


def _patterns(wanted: Mapping[str, Any] | None) -> list[str] | None:
    """What the input must contain; a dotted key may also be a path."""
    if wanted is None:
        return None
    if not isinstance(wanted, Mapping) or not all(isinstance(path, str) for path in wanted):
        raise InvalidInput(f'input is what it must contain, as in input={{"user.id": 42}}; got {wanted!r}')
    nested: dict[str, Any] = {}
    for path, value in wanted.items():
        for key in reversed(path.split(".")):
            value = {key: value}
        _merge(nested, value, path)
    encoded = [searchable(PLAIN.encode(p, "the input filter")) for p in (dict(wanted), nested)]
    return list(dict.fromkeys(encoded))


def _merge(place: dict[str, Any], wanted: dict[str, Any], path: str) -> None:
    """Into dicts that were made here: those of the caller stay as they are."""
    for key, value in wanted.items():
        if isinstance(value, dict) and isinstance(below := place.setdefault(key, {}), dict):
            _merge(below, value, path)
        elif place.setdefault(key, value) != value:
            raise InvalidInput(f"the input filter asks for two things at {path!r}")


def _cursor(record: RunRecord) -> str:
    text = f"{record.started_at.isoformat()} {record.run_id}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _after(cursor: str | None) -> tuple[datetime | None, UUID | None]:
    if cursor is None:
        return None, None
    try:
        moment, run_id = base64.urlsafe_b64decode(cursor.encode()).decode().split(" ")
        time = datetime.fromisoformat(moment)
        if time.tzinfo is None:
            raise ValueError("no zone")
        return time, UUID(run_id)
    except (ValueError, binascii.Error) as error:
        raise InvalidInput("this cursor was not given by `runs`: take `next_cursor` of a page") from error
