"""What goes over HTTP of queues and topics: as wire.py does for runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, field

from onward.client.letters import Message
from onward.client.queues import MOST, QueueStats
from onward.client.topics import Subscription
from onward.client.wire import Body, Delay, Form, Span, value_form
from onward.core import durations, pointers
from onward.core.codec import PLAIN, Ref

Visibility = Annotated[
    Span | Annotated[float, Meta(ge=0, le=durations.LONGEST)],
    Meta(description='How long the message is yours: "30s", "5m", or a number of seconds.', examples=["30s"]),
]
Receipt = Annotated[int, Meta(ge=0, le=2**63 - 1, description="What came with the message.")]


def _null() -> Raw:
    return Raw(b"null")


# ---- what is asked -----------------------------------------------------------------------------------------------


class NewMessage(Body):
    """A message to be sent. `id`: sent twice under one id, it comes once."""

    body: Raw = field(default_factory=_null)
    group: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    delay: Delay | None = None
    headers: dict[str, str] | None = None
    id: UUID | None = None


class NewMessages(Body):
    """One message, or `messages` in their place."""

    body: Raw = field(default_factory=_null)
    group: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    delay: Delay | None = None
    headers: dict[str, str] | None = None
    id: UUID | None = None
    messages: Annotated[list[NewMessage], Meta(max_length=MOST)] | None = None


class Receive(Body):
    """How many messages, and which. `maxReceives`: one that was received so often goes to the dead letters."""

    max: Annotated[int, Meta(ge=1, le=MOST)] = 1
    visibility: Visibility = "30s"
    wait: Span | Annotated[float, Meta(ge=0, le=durations.LONGEST)] | None = None
    match: Raw = field(default_factory=_null)
    max_receives: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class Extension(Body):
    """How long a message in hand is kept from now on; 0 gives it back."""

    receipt: Receipt
    visibility: Visibility


class Target(Body):
    """Who gets what is published: a queue or a workflow by `name`, an address by `url`."""

    type: Literal["queue", "http", "workflow"]
    name: str | None = None
    url: str | None = None
    secret: str | None = None


# ---- what is answered --------------------------------------------------------------------------------------------


class Sent(Form, omit_defaults=True):
    """The messages' ids, in order; `id` where it was one."""

    ids: list[UUID]
    id: UUID | None = None


class Letter(Form):
    """A message in hand, until `visibleAt`."""

    id: UUID
    body: Raw
    headers: dict[str, str]
    group: str | None
    read_count: int
    enqueued_at: datetime
    visible_at: datetime
    receipt: int


class Letters(Form):
    messages: list[Letter]


class Deleted(Form):
    """Whether the message was still there."""

    deleted: bool


class Extended(Form):
    visible_at: datetime


class Purged(Form):
    purged: int


class Stats(Form):
    """How many messages a queue has; `oldest`: since when the oldest of those that are ready has been there."""

    queue: str
    ready: int
    delayed: int
    in_flight: int
    dead: int
    oldest: datetime | None


class Delivered(Form):
    """How many subscriptions got it."""

    delivered: int


class Subscribed(Form):
    """`secret` is there only where it was set just now: keep it."""

    id: UUID
    pattern: str
    target: dict[str, str]
    created_at: datetime
    secret: str | None
    waiting: int
    trouble: str | None


class Subscriptions(Form):
    subscriptions: list[Subscribed]


# ---- there and back ----------------------------------------------------------------------------------------------


def letter(m: Message) -> Letter:
    if isinstance(m.body, Ref):
        body = Raw(pointers.encode(m.body.pointer))
    else:
        body = value_form(pointers.literal(PLAIN.encode(m.body, f"the body of message {m.id}")))
    at = (m.enqueued_at.astimezone(UTC), m.visible_at.astimezone(UTC))
    return Letter(UUID(m.id), body, m.headers, m.group, m.read_count, *at, m.receipt)


def stats(s: QueueStats) -> Stats:
    return Stats(*s[:5], None if s.oldest is None else s.oldest.astimezone(UTC))


def subscribed(s: Subscription) -> Subscribed:
    return Subscribed(UUID(s.id), s.pattern, s.target, s.created_at.astimezone(UTC), s.secret, s.waiting, s.trouble)


def subscription(f: Subscribed) -> Subscription:
    return Subscription(str(f.id), f.pattern, f.target, f.created_at, f.secret, f.waiting, f.trouble)


def target(t: Target) -> dict[str, str]:
    """As it was given: what is not there is not told."""
    given: dict[str, Any] = msgspec.to_builtins(t)
    return {name: value for name, value in given.items() if value is not None}
