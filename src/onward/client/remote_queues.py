"""Queues and topics behind a server: the same methods, over HTTP.

A message is sent under an id of ours, and published under a key, so that what is lost on the way may be asked for
again. A `receive` whose answer was lost leaves its messages out until their visibility is over: a queue delivers at
least once.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import quote
from uuid import UUID, uuid4

import msgspec
from msgspec import Raw

from onward.client import inputs
from onward.client import letterwire as wire
from onward.client.letters import Held, Message, Send
from onward.client.payloads import Payloads
from onward.client.queues import MOST, Home, Queue, QueueStats
from onward.client.records import value_of
from onward.client.topics import Subscription, Topics
from onward.core import durations, queue_names, topics
from onward.core.codec import PLAIN
from onward.core.durations import Duration
from onward.errors import Conflict, InvalidInput, NotFound

T = TypeVar("T")

POLL = 30.0
"""Seconds that one look for messages waits."""


class Asked(Protocol):
    """The server, as its queues see it."""

    url: str
    payloads: Payloads

    async def ask(
        self,
        method: str,
        path: str,
        answer: type[T],
        tenant: str,
        query: Mapping[str, str | None] | None = None,
        *,
        body: bytes | None = None,
        key: UUID | str | None = None,
        patience: float = 0.0,
    ) -> T: ...
    async def database(self) -> Any: ...


class RemoteQueue(Queue):
    """One queue. What looks into it without receiving needs the database."""

    def __init__(self, server: Asked, home: Home, name: str, max_receives: int | None) -> None:
        super().__init__(home, name, max_receives)
        self._server = server

    async def send_many(self, messages: Iterable[Any]) -> list[str]:
        """See `Queue.send_many`."""
        queue_names.users_queue_name(self.name)
        ids, source = list[str](), iter(messages)
        try:
            while chunk := list(itertools.islice(source, MOST)):
                new = [_new_message(self.name, item if isinstance(item, Send) else Send(item)) for item in chunk]
                sent = await self._ask("POST", "/messages", wire.Sent, wire.NewMessages(messages=new))
                ids += map(str, sent.ids)
        except Exception as error:
            error.ids = ids  # type: ignore[attr-defined]
            raise
        return ids

    async def receive(
        self,
        max: int = 1,  # noqa: A002  contract
        *,
        visibility: Duration = "30s",
        wait: Duration | None = None,
        match: Any = None,
    ) -> list[Message]:
        """See `Queue.receive`."""
        queue_names.users_queue_name(self.name)
        deadline = time.monotonic() + (0.0 if wait is None else durations.seconds(wait, what="wait"))
        hidden = durations.seconds(visibility, what="visibility")
        pattern = Raw(PLAIN.encode(match, "match"))
        if isinstance(max, bool) or not isinstance(max, int) or not 1 <= max <= MOST:
            raise InvalidInput(f"max is a whole number from 1 to {MOST}, got {max!r}")
        while True:
            left = sorted((0.0, deadline - time.monotonic(), POLL))[1]
            body = wire.Receive(max, hidden, left or None, pattern, self.max_receives)
            found = await self._ask("POST", "/messages:receive", wire.Letters, body, patience=left)
            if found.messages or time.monotonic() >= deadline:
                return [self._message(letter) for letter in found.messages]

    async def delete(self, *messages: Message | Held) -> int:
        """See `Queue.delete`."""
        deleted, stale = 0, None
        for message in messages:
            query = {"receipt": str(message.receipt)}
            try:
                deleted += (await self._ask("DELETE", self._at(message), wire.Deleted, query=query)).deleted
            except Conflict as error:  # the others are deleted all the same
                stale = error
        if stale is not None:
            raise stale
        return deleted

    async def change_visibility(self, message: Message | Held, duration: Duration) -> datetime:
        """See `Queue.change_visibility`."""
        body = wire.Extension(message.receipt, durations.seconds(duration, what="duration"))
        return (await self._ask("PATCH", self._at(message), wire.Extended, body)).visible_at

    async def stats(self) -> QueueStats:
        """See `Queue.stats`."""
        return QueueStats(*msgspec.structs.astuple(await self._ask("GET", "", wire.Stats)))

    async def purge(self) -> int:
        """See `Queue.purge`."""
        return (await self._ask("POST", ":purge", wire.Purged)).purged

    async def _ask(
        self,
        method: str,
        rest: str,
        answer: type[T],
        body: msgspec.Struct | None = None,
        query: Mapping[str, str | None] | None = None,
        patience: float = 0.0,
    ) -> T:
        where = f"/v1/queues/{quote(self.name, safe='')}{rest}"
        data = None if body is None else msgspec.json.encode(body)
        return await self._server.ask(method, where, answer, self._home.tenant, query, body=data, patience=patience)

    def _at(self, message: Message | Held) -> str:
        try:
            return f"/messages/{UUID(message.id)}"
        except (ValueError, TypeError, AttributeError) as error:
            raise NotFound(f"no message {message!r}"[:200]) from error

    def _message(self, letter: wire.Letter) -> Message:
        f, body = letter, value_of(bytes(letter.body), self._server.payloads)
        return Message(str(f.id), body, f.headers, f.group, f.read_count, f.enqueued_at, f.visible_at, f.receipt)


class RemoteTopics(Topics):
    """The topics of a tenant."""

    def __init__(self, server: Asked, home: Home) -> None:
        super().__init__(home)
        self._server = server

    async def publish(self, topic: str, body: Any, *, idempotency_key: str | None = None) -> int:
        """See `Topics.publish`."""
        data = inputs.encoded(body, f"what is published to {topic!r}")
        where, key = f"/v1/topics/{topics.topic_name(topic)}/messages", idempotency_key or str(uuid4())
        found = await self._server.ask("POST", where, wire.Delivered, self._home.tenant, body=data, key=key)
        return found.delivered

    async def subscribe(self, pattern: str, target: Mapping[str, str]) -> Subscription:
        """See `Topics.subscribe`."""
        data = PLAIN.encode(dict(target) if isinstance(target, Mapping) else target, "a target")
        made = await self._server.ask("POST", _of(pattern), wire.Subscribed, self._home.tenant, body=data)
        return wire.subscription(made)

    async def unsubscribe(self, subscription_id: str) -> None:
        """See `Topics.unsubscribe`."""
        found = [one for one in await self.subscriptions() if one.id == subscription_id]
        if not found:
            raise NotFound(f"there is no subscription {subscription_id!r}: `onward topic list` shows them"[:200])
        where = f"{_of(found[0].pattern)}/{subscription_id}"
        await self._server.ask("DELETE", where, wire.Subscribed, self._home.tenant)

    async def subscriptions(self, pattern: str | None = None) -> list[Subscription]:
        """See `Topics.subscriptions`."""
        where = "/v1/subscriptions" if pattern is None else _of(pattern)
        found = await self._server.ask("GET", where, wire.Subscriptions, self._home.tenant)
        return [wire.subscription(one) for one in found.subscriptions]


def _of(pattern: str) -> str:
    return f"/v1/topics/{quote(topics.topic_pattern(pattern), safe='')}/subscriptions"


def _new_message(queue: str, item: Send) -> wire.NewMessage:
    return wire.NewMessage(
        body=Raw(inputs.encoded(item.body, f"the body of a message to {queue!r}")),
        group=queue_names.group_name(item.group),
        delay=None if item.delay is None else durations.seconds(item.delay, what="delay"),
        headers=None if item.headers is None else dict(item.headers),
        id=inputs.new_id(),
    )
