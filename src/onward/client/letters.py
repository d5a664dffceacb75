"""Messages on their way into a queue and back: a small body as it is, a large one by pointer.

The database cannot search what lies outside. So a receiver with a match is handed such a message to compare it, and
gives it back where it does not fit: that does not count as a hand-out, and the row remembers the match, so that the
same message is not compared with it again. A message whose body cannot be had (its object expired, or was changed) goes
to the dead letters with the reason; there the body is given as the `Ref` that it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from onward.client import inputs
from onward.client.payloads import Payloads
from onward.core import durations, pointers, queue_names
from onward.core.codec import PLAIN, contains, searchable
from onward.core.durations import Duration
from onward.errors import InvalidInput, PayloadCorrupt, PayloadMissing
from onward.store.queues import MessageRecord, NewMessage, Queues

_MOST_HEADERS = 16_384
_AT_ONCE = 8
"""Bodies that are fetched side by side."""
_KEPT = 9 * 86_400.0
"""Seconds that a large body surely outlasts: the bucket's rule for it says ten days."""

_headers = msgspec.json.Decoder(dict[str, str]).decode


class Held(NamedTuple):
    """A message that was handed out, as its id and receipt: all that it takes to delete it."""

    id: str
    receipt: int


class Send:
    """One message for `send_many`, with what `send` takes beside the body."""

    __slots__ = ("body", "delay", "group", "headers")

    def __init__(
        self,
        body: Any,
        *,
        group: str | None = None,
        delay: Duration | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.body, self.group, self.delay, self.headers = body, group, delay, headers

    def __repr__(self) -> str:
        return f"Send({self.body!r}, group={self.group!r}, delay={self.delay!r}, headers={self.headers!r})"


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was handed out, until `visible_at`. `receipt` is the number of the hand-out: once there is another
    one, it can no longer delete or extend. A dead letter tells its past in headers that begin with `onward-dead-`."""

    id: str
    body: Any
    headers: dict[str, str]
    group: str | None
    read_count: int
    enqueued_at: datetime
    visible_at: datetime
    receipt: int


async def new(payloads: Payloads, tenant: str, queue: str, item: Send) -> NewMessage:
    """A message that is ready to be sent."""
    what = f"the body of a message to {queue!r}"
    data, msg_id = inputs.encoded(item.body, what), inputs.new_id()
    delay = None if item.delay is None else durations.seconds(item.delay, what="delay")
    stored = await payloads.journalled(data, what, lambda at, _: at.oversized(tenant, msg_id))
    if pointers.is_pointer(stored) and (delay or 0) > _KEPT:
        raise InvalidInput(
            f"{what} is {len(data):,} bytes long, and such a body is kept for ten days: delay it for less than nine, "
            "or keep it elsewhere and send where it is"
        )
    group = queue_names.group_name(item.group)
    return NewMessage(msg_id, group, delay, stored, search_text(data, stored), _encoded_headers(item.headers))


def search_text(data: bytes, stored: bytes) -> str | None:
    """What the database searches in place of a body that it holds. None where it searches the body itself, or none."""
    if pointers.is_pointer(stored):
        return None
    text = searchable(data)
    return None if text.encode() == data else text


class Opening:
    """Makes messages of what was handed out of a queue."""

    def __init__(self, payloads: Payloads, calls: Queues, queue: str, match: str | None) -> None:
        self._payloads, self._calls, self._queue, self._match = payloads, calls, queue, match
        self._pattern = None if match is None else PLAIN.decode(match.encode())

    async def messages(self, records: Iterable[MessageRecord]) -> list[Message]:
        """Those that are whole, and that fit the match."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def open_one(record: MessageRecord) -> Message | None:
            if not pointers.is_pointer(record.body):
                return _message(record, PLAIN.decode(record.body))
            async with gate:
                return await self._outside(record)

        found = await asyncio.gather(*map(open_one, records), return_exceptions=True)
        messages = [message for message in found if isinstance(message, Message)]
        if errors := [error for error in found if isinstance(error, BaseException)]:
            await self._calls.give_back(self._queue, [(r.msg_id, r.receipt) for r in records])
            raise errors[0]
        return messages

    async def _outside(self, record: MessageRecord) -> Message | None:
        try:
            data = await self._payloads.whole(record.body)
        except (PayloadMissing, PayloadCorrupt) as error:
            if queue_names.is_dead(self._queue):
                return _message(record, self._payloads.ref(record.body, PLAIN))
            await self._calls.bury(self._queue, record.msg_id, record.receipt, f"{type(error).__name__}: {error}")
            return None
        if self._match is not None and not contains(PLAIN.decode(searchable(data).encode()), self._pattern):
            await self._calls.give_back(self._queue, [(record.msg_id, record.receipt)], self._match)
            return None
        return _message(record, PLAIN.decode(data))

    def shown(self, record: MessageRecord) -> Message:
        """As it lies there: a body that lies outside is a `Ref`."""
        outside = pointers.is_pointer(record.body)
        return _message(record, self._payloads.ref(record.body, PLAIN) if outside else PLAIN.decode(record.body))


def _message(record: MessageRecord, body: Any) -> Message:
    headers = _headers(record.headers) if record.headers else {}
    if record.dead is not None:
        headers |= {f"onward-dead-{key}": str(value) for key, value in PLAIN.decode(record.dead.encode()).items()}
    return Message(
        str(record.msg_id),
        body,
        headers,
        record.group,
        record.read_count,
        record.enqueued_at,
        record.visible_at,
        record.receipt,
    )


def _encoded_headers(headers: Mapping[str, str] | None) -> bytes | None:
    if not headers:
        return None
    if not isinstance(headers, Mapping) or not all(isinstance(part, str) for pair in headers.items() for part in pair):
        raise InvalidInput(f"headers are texts by name, such as {{'trace': 'abc'}}; got {headers!r}"[:300])
    data = PLAIN.encode(dict(headers), "the headers of a message")
    if len(data) > _MOST_HEADERS:
        raise InvalidInput(f"the headers of a message are {len(data):,} bytes long, the limit is {_MOST_HEADERS:,}")
    return data
