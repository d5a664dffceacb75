"""`client.queue(name)`: messages of users to each other.

At least once: a message that was handed out and not deleted is handed out again when its visibility is over. Inside a
group strictly one after another, in the order of sending (for senders at the same time, that of commit). Who holds what
is decided by the database alone: see store/sql/functions/receive_messages.sql.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from onward.client import letters
from onward.client.arrivals import Arrivals
from onward.client.letters import Held, Message, Opening, Send
from onward.client.payloads import Payloads
from onward.core import durations, queue_names
from onward.core.codec import PLAIN, searchable
from onward.core.durations import Duration
from onward.errors import Conflict, InvalidInput, NotFound
from onward.store.database import Database
from onward.store.queues import Queues, StatsRecord

MOST = 1000
"""Messages that one `receive` may ask for, and that one transaction sends."""
_PURGED = 10_000


class QueueStats(NamedTuple):
    """How many messages a queue has. `ready`: nothing is missing but a consumer, or the end of those of its group that
    are before it; `delayed`: not due yet; `in_flight`: handed out; `dead`: in the queue of its dead letters.
    `oldest`: when the oldest message that is ready was sent."""

    queue: str
    ready: int
    delayed: int
    in_flight: int
    dead: int
    oldest: datetime | None


class Home(Protocol):
    """The client, as its queues see it."""

    tenant: str

    async def database(self) -> Database: ...
    @property
    def payloads(self) -> Payloads: ...
    @property
    def arrivals(self) -> Arrivals: ...


class Queue:
    """One queue. It is there as long as it has messages, and need not be made."""

    def __init__(self, home: Home, name: str, max_receives: int | None = None) -> None:
        self.name = queue_names.queue_name(name)
        self.max_receives = _checked_max(name, max_receives)
        self._home = home

    # ---- sending -------------------------------------------------------------------------------------------

    async def send(
        self,
        body: Any,
        *,
        group: str | None = None,
        delay: Duration | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Sends a message and answers its id. Messages of one `group` are handed out one after another; one with a
        `delay` holds up those of its group behind it."""
        (msg_id,) = await self.send_many([Send(body, group=group, delay=delay, headers=headers)])
        return msg_id

    async def send_many(self, messages: Iterable[Any]) -> list[str]:
        """Sends a message for each item, which is a body, or a `Send` with a body and more. Chunks of a thousand commit
        separately, an error carries the ids so far as `.ids`."""
        name, ids = queue_names.users_queue_name(self.name), list[str]()
        source = iter(messages)
        try:
            calls = await self._calls()
            while chunk := list(itertools.islice(source, MOST)):
                items = [item if isinstance(item, Send) else Send(item) for item in chunk]
                new = [await letters.new(self._home.payloads, self._home.tenant, name, item) for item in items]
                await calls.send(name, new)
                ids += [str(message.msg_id) for message in new]
        except Exception as error:
            error.ids = ids  # type: ignore[attr-defined]
            raise
        return ids

    # ---- receiving -----------------------------------------------------------------------------------------

    async def receive(
        self,
        max: int = 1,  # noqa: A002  contract
        *,
        visibility: Duration = "30s",
        wait: Duration | None = None,
        match: Any = None,
    ) -> list[Message]:
        """Up to `max` messages, which are nobody else's until `visibility` is over: delete them when they are done.

        `wait`: how long to wait for the first one; an empty list where none came. `match`: only messages whose body
        contains this, as Postgres says it with `@>`; of a group only its first message is looked at.
        """
        name, hidden = queue_names.users_queue_name(self.name), durations.seconds(visibility, what="visibility")
        seconds = None if wait is None else durations.seconds(wait, what="wait")
        if isinstance(max, bool) or not isinstance(max, int) or not 1 <= max <= MOST:
            raise InvalidInput(f"max is a whole number from 1 to {MOST}, got {max!r}")
        if hidden == 0:
            raise InvalidInput("visibility is how long a message is yours: it must be more than 0")
        pattern = None if match is None else searchable(PLAIN.encode(match, "match"))
        calls = await self._calls()
        asker = _Receiver(calls, self._home.payloads, name, max, hidden, self.max_receives, pattern)
        arrivals = self._home.arrivals
        if not seconds:
            return await arrivals.ask(asker)
        return await arrivals.wait((self._home.tenant, name), (pattern, self.max_receives), asker, seconds)

    async def delete(self, *messages: Message | Held) -> int:
        """Deletes messages that are done: how many of them were still there. Deleting twice is fine.

        `Conflict` where one was handed on, because its visibility was over: somebody else is at it, or it is a dead
        letter. The others are deleted all the same.
        """
        if not messages:
            return 0
        held = [_held(message) for message in messages]
        words = await (await self._calls()).delete(self.name, [h[0] for h in held], [h[1] for h in held])
        if stale := [message.id for message, word in zip(messages, words, strict=True) if word == "stale"]:
            raise _handed_on(", ".join(stale))
        return words.count("deleted")

    async def change_visibility(self, message: Message | Held, duration: Duration) -> datetime:
        """Keeps a message for so long from now on, and answers until when; 0 gives it back. `Conflict` where it was
        handed on, `NotFound` where it was deleted."""
        msg_id, receipt = _held(message)
        seconds = durations.seconds(duration, what="duration")
        word, until = await (await self._calls()).change_visibility(self.name, msg_id, receipt, seconds)
        if word == "stale":
            raise _handed_on(message.id)
        if until is None:
            raise NotFound(f"there is no message {message.id} in {self.name}")
        return until

    # ---- looking after it ----------------------------------------------------------------------------------

    async def stats(self) -> QueueStats:
        """How many messages there are. A queue of runs (`__wf_…`) may be asked, too."""
        return _stats(await (await self._calls()).stats(self.name))

    async def peek(self, limit: int = 10) -> list[Message]:
        """What would be handed out next, without handing it out; of each group the first. A large body is a `Ref`."""
        calls = await self._calls()
        opening = Opening(self._home.payloads, calls, self.name, None)
        return [opening.shown(record) for record in await calls.peek(self.name, _limit(limit))]

    async def purge(self) -> int:
        """Deletes every message that was sent until now, in hand or not: how many."""
        name, calls = queue_names.users_queue_name(self.name), await self._calls()
        purged, until = await calls.purge(name, None, _PURGED)
        more = purged
        while more:
            more, until = await calls.purge(name, until, _PURGED)
            purged += more
        return purged

    async def resend_dead(self, limit: int = MOST) -> int:
        """Sends dead letters of this queue again, oldest first: how many. Those of `webhooks` go to their address."""
        name = queue_names.users_queue_name(self.name)
        return await (await self._calls()).resend(name, _limit(limit))

    async def _calls(self) -> Queues:
        return Queues(await self._home.database(), self._home.tenant)

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


@dataclass(frozen=True, slots=True)
class _Receiver:
    """One `receive`, as the line of those who wait sees it."""

    calls: Queues
    payloads: Payloads
    queue: str
    most: int
    visibility: float
    max_receives: int | None
    match: str | None

    async def take(self) -> list[Message]:
        opening = Opening(self.payloads, self.calls, self.queue, self.match)
        while True:
            records = await self.calls.receive(self.queue, self.most, self.visibility, self.max_receives, self.match)
            messages = await opening.messages(records)
            if messages or not records:
                return messages

    async def give_back(self, taken: list[Message]) -> None:
        await self.calls.give_back(self.queue, map(_held, taken))


async def all_stats(home: Home) -> list[QueueStats]:
    """Every queue of the tenant that has messages, those of runs included."""
    return [_stats(record) for record in await Queues(await home.database(), home.tenant).all()]


def _stats(record: StatsRecord) -> QueueStats:
    return QueueStats(*record)


def _held(message: Message | Held) -> tuple[UUID, int]:
    try:
        msg_id, receipt = UUID(message.id), message.receipt
    except (ValueError, TypeError, AttributeError) as error:
        raise NotFound(f"no message {message!r}"[:200]) from error
    if type(receipt) is not int or not 0 <= receipt < 2**63:
        raise InvalidInput(f"a receipt is the number that came with the message, got {receipt!r}")
    return msg_id, receipt


def _handed_on(ids: str) -> Conflict:
    return Conflict(
        f"message {ids} was handed on: its visibility was over before it was deleted or extended. Receive with a "
        "longer visibility, or call change_visibility in time"
    )


def _checked_max(name: str, most: int | None) -> int | None:
    if most is None:
        return None
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most < 2**31:
        raise InvalidInput(f"max_receives is a whole number from 1 on, got {most!r}")
    if queue_names.is_dead(name):
        raise InvalidInput(f"{name} holds dead letters, which do not die again: leave out max_receives")
    return most


def _limit(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise InvalidInput(f"limit is a whole number from 1 to {MOST}, got {limit!r}")
    return limit
