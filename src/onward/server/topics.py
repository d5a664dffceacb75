"""Topics over HTTP."""

from __future__ import annotations

from msgspec import Raw

from onward.client import letterwire as wire
from onward.core import topics as names
from onward.errors import NotFound
from onward.server.calls import Call
from onward.server.routes import Answer, Route


async def publish(call: Call) -> Answer:
    """Publish the body to a topic: every subscription that its name reaches gets it, or none. Under one
    Idempotency-Key it is published once."""
    key = call.request.headers.get("idempotency-key")
    delivered = await call.client.topics.publish(call.path["topic"], call.body, idempotency_key=key)
    return Answer(wire.Delivered(delivered))


async def subscribe(call: Call) -> Answer:
    """Subscribe a target to a pattern: `*` is one word, `#` any number. The secret of an HTTP target is answered this
    one time."""
    made = await call.client.topics.subscribe(call.path["pattern"], wire.target(call.body))
    return Answer(wire.subscribed(made), 201)


async def subscriptions(call: Call) -> Answer:
    """List the subscriptions of exactly this pattern."""
    pattern = names.topic_pattern(call.path["pattern"])
    found = await call.client.topics.subscriptions(pattern)
    return Answer(wire.Subscriptions([wire.subscribed(one) for one in found]))


async def all_subscriptions(call: Call) -> Answer:
    """List all subscriptions."""
    found = await call.client.topics.subscriptions()
    return Answer(wire.Subscriptions([wire.subscribed(one) for one in found]))


async def unsubscribe(call: Call) -> Answer:
    """End a subscription. What was published before is not posted any more either."""
    pattern, there = call.path["pattern"], call.client.topics
    found = [one for one in await there.subscriptions(pattern) if one.id == call.path["id"].lower()]
    if not found:
        raise NotFound(f"no subscription {call.path['id'][:80]!r} of {pattern[:80]!r}: GET lists them")
    await there.unsubscribe(found[0].id)
    return Answer(wire.subscribed(found[0]))


_BODY = ("malformed", "body-too-large", "unsupported-media-type", "too-slow")
_KEY = {"Idempotency-Key": "The same key publishes once, however often it is sent, for a week."}
_SUBSCRIPTIONS = "/v1/topics/{pattern}/subscriptions"

ROUTES = (
    Route(
        *("POST", "/v1/topics/{topic}/messages", publish, "write", {200: wire.Delivered}),
        body=Raw,
        problems=("conflict", *_BODY),
        headers=_KEY,
    ),
    Route("GET", _SUBSCRIPTIONS, subscriptions, "read", {200: wire.Subscriptions}),
    Route("POST", _SUBSCRIPTIONS, subscribe, "admin", {201: wire.Subscribed}, body=wire.Target, problems=_BODY),
    Route("DELETE", f"{_SUBSCRIPTIONS}/{{id}}", unsubscribe, "admin", {200: wire.Subscribed}),
    Route("GET", "/v1/subscriptions", all_subscriptions, "read", {200: wire.Subscriptions}),
)
