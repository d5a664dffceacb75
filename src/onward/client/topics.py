"""`client.topics`: what is published to a topic goes to every subscription that its name reaches, or to none.

Publishing is one transaction. A body that lies outside is one object for queues and addresses; a run's input must live
as long as the run, so each run gets an object of its own, written before. If somebody subscribes another workflow in
between, the database says so, nothing was published, and it is tried again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import urlsplit
from uuid import UUID

from onward.client import inputs, letters
from onward.client.payloads import Payloads
from onward.core import names, pointers, queue_names, topics, webhooks
from onward.core.codec import canonical, searchable
from onward.errors import Conflict, InvalidInput, NotFound
from onward.payloads.layout import Owner
from onward.store import topics as store
from onward.store.database import Database

_LONGEST_URL = 2000
_LONGEST_KEY = 512
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_KINDS = {"queue": "name", "http": "url", "workflow": "name"}
_FORMS = (
    '{"type": "queue", "name": …}, {"type": "http", "url": …} (and "secret", if you bring your own) or '
    '{"type": "workflow", "name": …}'
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """`target` as it was given, without the secret. `secret` is there only where it was set just now: keep it.
    `waiting`: how many HTTP deliveries are to be made; `trouble`: why the last attempt at one of them failed."""

    id: str
    pattern: str
    target: dict[str, str]
    created_at: datetime
    secret: str | None = None
    waiting: int = 0
    trouble: str | None = None


class Home(Protocol):
    """The client, as its topics see it."""

    tenant: str

    async def database(self) -> Database: ...
    @property
    def payloads(self) -> Payloads: ...


class Topics:
    """The topics of a client's tenant. A topic need not be made."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def publish(self, topic: str, body: Any, *, idempotency_key: str | None = None) -> int:
        """Gives the body to every subscription of the topic: how many there were. With an idempotency key, for a week,
        only once however often it is called; the same key with another body is `Conflict`."""
        topics.topic_name(topic)
        key = None if idempotency_key is None else _key(idempotency_key)
        data = inputs.encoded(body, what := f"what is published to {topic!r}")
        calls, payloads, publication = await self._calls(), self._home.payloads, inputs.new_id()
        digest = hashlib.sha256(canonical(data)).digest()
        stored = await payloads.journalled(data, what, lambda at, _: at.oversized(self._home.tenant, publication))
        outside = pointers.is_pointer(stored)
        item = store.Publication(
            publication,
            key,
            digest,
            stored,
            letters.search_text(data, stored),
            None if outside else searchable(data),
        )
        runs: list[Owner] = []
        while True:
            if not payloads.keeps(data):
                item, runs = await self._with_inputs(calls, topic, item, data)
            outcome, delivered = await calls.publish(topic, item)
            if outcome == "again":
                continue
            if outcome != "done":  # these runs will never be
                for run in runs:
                    await payloads.discard(run)
            if outcome == "conflict":
                raise Conflict(f"something else was published to {topic!r} under the key {key!r}: use another key")
            return delivered

    async def subscribe(self, pattern: str, target: Mapping[str, str]) -> Subscription:
        """Subscribes a target to a topic, or to all that a pattern stands for: `*` is one word, `#` any number.

        Targets are {"type": "queue", "name": …}, {"type": "http", "url": …} and {"type": "workflow", "name": …}. The
        same target under the same pattern is subscribed once. An HTTP target is posted to, signed by the Standard
        Webhooks scheme: with the `secret` that is given, or with one that is made and answered this one time.
        """
        topics.topic_pattern(pattern)
        kind, place, secret = _checked_target(target)
        made = webhooks.secret_of(os.urandom(32)) if kind == "http" else None
        subscription, shown, since = await (await self._calls()).subscribe(
            inputs.new_id(), pattern, kind, place, secret, made
        )
        return Subscription(str(subscription), pattern, {"type": kind, _KINDS[kind]: place}, since, shown)

    async def unsubscribe(self, subscription_id: str) -> None:
        """What was published before is not posted any more either. Doing it twice is `NotFound`."""
        try:
            subscription = UUID(subscription_id)
        except (ValueError, TypeError, AttributeError):
            subscription = None
        if subscription is None or not await (await self._calls()).unsubscribe(subscription):
            raise NotFound(f"there is no subscription {subscription_id!r}: `onward topic list` shows them"[:200])

    async def subscriptions(self, pattern: str | None = None) -> list[Subscription]:
        """All of them, or those of exactly this pattern."""
        found = await (await self._calls()).subscriptions(pattern)
        return [
            Subscription(
                str(record.subscription_id),
                record.pattern,
                {"type": record.kind, _KINDS[record.kind]: record.target},
                record.created_at,
                waiting=record.waiting,
                trouble=record.trouble,
            )
            for record in found
        ]

    async def _with_inputs(
        self, calls: store.Topics, topic: str, item: store.Publication, data: bytes
    ) -> tuple[store.Publication, list[Owner]]:
        """With an input of its own for each run that will come of it."""
        found = await calls.subscribed(topic, item.id)
        runs = [Owner(self._home.tenant, sub.target, sub.id) for sub in found if sub.kind == "workflow"]
        written = [await inputs.record(self._home.payloads, *run, data) for run in runs]
        return item._replace(runs=[run.run_id for run in runs], inputs=written), runs

    async def _calls(self) -> store.Topics:
        return store.Topics(await self._home.database(), self._home.tenant)


def _checked_target(target: Mapping[str, str]) -> tuple[str, str, str | None]:
    """Its type, its name or URL, and its secret."""
    kind = target.get("type") if isinstance(target, Mapping) else None
    if kind not in _KINDS:
        raise InvalidInput(f"a target is {_FORMS}; got {target!r}"[:400])
    allowed = {"type", _KINDS[kind], *(["secret"] if kind == "http" else [])}
    if set(target) - allowed or _KINDS[kind] not in target:
        raise InvalidInput(f"a target is {_FORMS}; got one of type {kind!r} with {', '.join(map(repr, target))}"[:400])
    place = target[_KINDS[kind]]
    if kind == "queue":
        return kind, queue_names.users_queue_name(place), None
    if kind == "workflow":
        return kind, names.workflow_name(place), None
    secret = target.get("secret")
    return kind, _checked_url(place), None if secret is None else webhooks.checked_secret(secret)


def _checked_url(url: str) -> str:
    """The URL, if a webhook may have it. Where it leads is looked at when it is posted to."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(f"this is no URL: {url!r}"[:200]) from None
    plain = isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url
    if not plain or parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.fragment:
        raise InvalidInput(f"a webhook's URL is http://host/… or https://host/…, got {url!r}"[:200])
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("a webhook's URL holds no user and no password: it is signed by its secret")
    if len(url) > _LONGEST_URL:
        raise InvalidInput(f"a webhook's URL has at most {_LONGEST_URL} characters, this one {len(url)}")
    return url


def _key(key: str) -> str:
    if not isinstance(key, str) or _NO_TEXT.search(key) or not 1 <= len(key.encode()) <= _LONGEST_KEY:
        raise InvalidInput(
            f"an idempotency key is a text of 1 to {_LONGEST_KEY} bytes without NUL or lone surrogates, got {key!r}"
        )
    return key
