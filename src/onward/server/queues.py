"""Queues over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from onward.client import letters
from onward.client import letterwire as wire
from onward.client.letters import Held, Message, Send
from onward.client.queues import Queue, all_stats
from onward.core import durations, queue_names
from onward.errors import InvalidInput
from onward.server.calls import Call
from onward.server.reading import value
from onward.server.routes import Answer, Route
from onward.server.runs import LONGEST_WAIT
from onward.store.queues import Queues


class Receipted(Struct, forbid_unknown_fields=True):
    receipt: Annotated[int, Meta(ge=0, le=2**63 - 1)]


async def send(call: Call) -> Answer:
    """Send a message, or all of `messages` together."""
    body: wire.NewMessages = call.body
    name = queue_names.users_queue_name(call.path["queue"])
    one = wire.NewMessage(body.body, body.group, body.delay, body.headers, body.id)
    if body.messages is not None and one != wire.NewMessage():
        raise InvalidInput("a request holds one message, or `messages`")
    items = [one] if body.messages is None else body.messages
    await call.client.database()
    new = []
    for item in items:
        asked = Send(value(item.body), group=item.group, delay=item.delay, headers=item.headers)
        made = await letters.new(call.client.payloads, call.client.tenant, name, asked)
        new.append(made if item.id is None else made._replace(msg_id=item.id))
    if new:
        await Queues(await call.client.database(), call.client.tenant).send(name, new)
    sent = [message.msg_id for message in new]
    return Answer(wire.Sent(sent, None if body.messages is not None else sent[0]), 201)


async def receive(call: Call) -> Answer:
    """Receive messages, which are nobody else's until their visibility is over. `wait` waits for the first one, 60
    seconds at the most."""
    body: wire.Receive = call.body or wire.Receive()
    queue = _queue(call, body.max_receives)
    wait = None if body.wait is None else min(durations.seconds(body.wait, what="wait"), LONGEST_WAIT)
    taking = queue.receive(body.max, visibility=body.visibility, wait=wait, match=value(body.match))
    messages: list[Message] = await (call.service.patiently(taking, call.request) if wait else taking) or []
    return Answer(wire.Letters([wire.letter(message) for message in messages]))


async def delete(call: Call) -> Answer:
    """Delete a message that is done. Deleting twice is fine; one that was handed on is a conflict."""
    query: Receipted = call.query
    deleted = await _queue(call).delete(Held(call.path["id"], query.receipt))
    return Answer(wire.Deleted(bool(deleted)))


async def extend(call: Call) -> Answer:
    """Keep a message for so long from now on; 0 gives it back."""
    body: wire.Extension = call.body
    until = await _queue(call).change_visibility(Held(call.path["id"], body.receipt), body.visibility)
    return Answer(wire.Extended(until))


async def queues(call: Call) -> Answer:
    """List the queues that have messages, those of runs included."""
    return Answer([wire.stats(found) for found in await all_stats(call.client)])


async def stats(call: Call) -> Answer:
    """Read how many messages a queue has."""
    return Answer(wire.stats(await _queue(call).stats()))


async def purge(call: Call) -> Answer:
    """Delete every message that was sent until now, in hand or not."""
    return Answer(wire.Purged(await _queue(call).purge()))


def _queue(call: Call, max_receives: int | None = None) -> Queue:
    return call.client.queue(call.path["queue"], max_receives)


_BODY = ("malformed", "body-too-large", "unsupported-media-type", "too-slow")
_QUEUE = "/v1/queues/{queue}"
_MESSAGES = f"{_QUEUE}/messages"
_TAKE: dict[str, Any] = {"body": wire.Receive, "optional": True, "problems": _BODY}

ROUTES = (
    Route("POST", _MESSAGES, send, "write", {201: wire.Sent}, body=wire.NewMessages, problems=_BODY),
    Route("POST", f"{_MESSAGES}:receive", receive, "write", {200: wire.Letters}, **_TAKE),
    Route(
        *("DELETE", f"{_MESSAGES}/{{id}}", delete, "write", {200: wire.Deleted}),
        query=Receipted,
        problems=("not-found", "conflict"),
    ),
    Route(
        *("PATCH", f"{_MESSAGES}/{{id}}", extend, "write", {200: wire.Extended}),
        body=wire.Extension,
        problems=("not-found", "conflict", *_BODY),
    ),
    Route("GET", "/v1/queues", queues, "read", {200: list[wire.Stats]}),
    Route("GET", _QUEUE, stats, "read", {200: wire.Stats}),
    Route("POST", f"{_QUEUE}:purge", purge, "admin", {200: wire.Purged}),
)
