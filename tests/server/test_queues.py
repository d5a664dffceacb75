"""Laws of queues and topics over HTTP, raw and by a client: they are those of the database."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from onward import Client, Context, Ref, workflow
from onward.client.letters import Send
from onward.errors import Conflict, InvalidInput, InvalidName, NotFound
from server.sites import Site, refused

MESSAGES = "/v1/queues/emails/messages"


@pytest.fixture(params=["database", "server"])
async def client(request: pytest.FixtureRequest, site: Site) -> Client:
    return site.client if request.param == "database" else await site.remote()


# ---- raw -----------------------------------------------------------------------------------------------------


async def test_a_message_goes_the_whole_way(site: Site) -> None:
    sent = await site.http.post(MESSAGES, json={"body": {"n": 2**80}, "group": "g", "headers": {"trace": "t"}})
    assert sent.status_code == 201
    assert sent.json()["ids"] == [sent.json()["id"]]
    [message] = (await site.http.post(f"{MESSAGES}:receive")).json()["messages"]
    shown = {"id": sent.json()["id"], "body": {"n": 2**80}, "group": "g", "headers": {"trace": "t"}, "readCount": 1}
    assert {key: message[key] for key in shown} == shown
    assert message["enqueuedAt"] < message["visibleAt"]
    assert (await site.http.post(f"{MESSAGES}:receive")).json() == {"messages": []}
    at = f"{MESSAGES}/{message['id']}"
    kept = await site.http.patch(at, json={"receipt": message["receipt"], "visibility": "1h"})
    assert kept.json()["visibleAt"] > message["visibleAt"]
    for deleted in (True, False):
        answer = await site.http.delete(f"{at}?receipt={message['receipt']}")
        assert (answer.status_code, answer.json()) == (200, {"deleted": deleted})
    refused(await site.http.patch(at, json={"receipt": 1, "visibility": "1h"}), 404, "not-found")


async def test_a_receipt_that_was_handed_on_neither_deletes_nor_extends(site: Site) -> None:
    await site.http.post(MESSAGES, json={"body": 1})
    [old] = (await site.http.post(f"{MESSAGES}:receive")).json()["messages"]
    at = f"{MESSAGES}/{old['id']}"
    await site.http.patch(at, json={"receipt": old["receipt"], "visibility": 0})
    [new] = (await site.http.post(f"{MESSAGES}:receive")).json()["messages"]
    assert new["receipt"] != old["receipt"]
    refused(await site.http.delete(f"{at}?receipt={old['receipt']}"), 409, "conflict")
    refused(await site.http.patch(at, json={"receipt": old["receipt"], "visibility": 9}), 409, "conflict")
    refused(await site.http.delete(at), 422, "invalid-input")


async def test_many_messages_are_sent_together_and_under_one_id_a_message_comes_once(site: Site) -> None:
    body = {"messages": [{"body": n, "id": str(uuid4())} for n in range(3)]}
    for _ in range(2):
        assert (await site.http.post(MESSAGES, json=body)).json()["ids"] == [m["id"] for m in body["messages"]]
    found = (await site.http.post(f"{MESSAGES}:receive", json={"max": 10})).json()["messages"]
    assert [message["body"] for message in found] == [0, 1, 2]
    both = {"body": 1, "messages": []}
    refused(await site.http.post(MESSAGES, json=both), 422, "invalid-input")
    refused(await site.http.post(f"{MESSAGES}:receive", json={"max": 1001}), 422, "invalid-input")


async def test_a_receive_waits_and_a_server_that_stops_hands_nothing_out_in_vain(site: Site) -> None:
    waiting = asyncio.create_task(site.http.post(f"{MESSAGES}:receive", json={"wait": "30s", "match": {"for": "me"}}))
    await asyncio.sleep(0)
    await site.http.post(MESSAGES, json={"body": {"for": "you"}})
    await site.http.post(MESSAGES, json={"body": {"for": "me", "n": 1}})
    [message] = (await asyncio.wait_for(waiting, 10)).json()["messages"]
    assert message["body"] == {"for": "me", "n": 1}
    again = asyncio.create_task(site.http.post("/v1/queues/other/messages:receive", json={"wait": 60}))
    while not await site.sql("select from onward.queue_wait where queue = 'other'"):
        await asyncio.sleep(0.01)
    await site.serving.stop()
    assert (await again).json() == {"messages": []}


async def test_stats_and_purge(site: Site) -> None:
    await site.http.post(MESSAGES, json={"messages": [{"body": 1}, {"body": 2, "delay": "1h"}]})
    stats = (await site.http.get("/v1/queues/emails")).json()
    assert {key: stats[key] for key in ("queue", "ready", "delayed", "inFlight", "dead")} == {
        "queue": "emails", "ready": 1, "delayed": 1, "inFlight": 0, "dead": 0,
    }  # fmt: skip
    assert [queue["queue"] for queue in (await site.http.get("/v1/queues")).json()] == ["emails"]
    assert (await site.http.post("/v1/queues/emails:purge")).json() == {"purged": 2}


async def test_the_queue_of_a_workflow_is_seen_and_not_touched(site: Site) -> None:
    await site.http.post("/v1/workflows/hello/runs")
    assert (await site.http.get("/v1/queues/__wf_hello")).json()["ready"] == 1
    for rest in ("/messages", "/messages:receive", ":purge"):
        refused(await site.http.post(f"/v1/queues/__wf_hello{rest}", json={}), 422, "invalid-name")


async def test_what_is_published_reaches_its_subscriptions_once_under_a_key(site: Site) -> None:
    where = "/v1/topics/user.%23/subscriptions"
    for target in ({"type": "queue", "name": "emails"}, {"type": "workflow", "name": "hello"}):
        made = await site.http.post(where, json=target)
        assert (made.status_code, made.json()["target"], made.json()["pattern"]) == (201, target, "user.#")
    web = await site.http.post(where, json={"type": "http", "url": "https://example.com/hook"})
    assert web.json()["secret"].startswith("whsec_")
    listed = (await site.http.get(where)).json()["subscriptions"]
    assert [one["secret"] for one in listed] == [None] * 3
    assert (await site.http.get("/v1/subscriptions")).json()["subscriptions"] == listed
    for _ in range(2):
        answer = await site.http.post("/v1/topics/user.signup/messages", json=7, headers={"Idempotency-Key": "k"})
        assert answer.json() == {"delivered": 3}
    assert [run["input"] for run in (await site.http.get("/v1/runs")).json()["runs"]] == [7]
    other = await site.http.post("/v1/topics/user.signup/messages", json=8, headers={"Idempotency-Key": "k"})
    refused(other, 409, "conflict")
    gone = f"{where}/{listed[0]['id']}"
    refused(await site.http.delete(gone.replace("user", "other")), 404, "not-found")
    assert (await site.http.delete(gone)).status_code == 200
    refused(await site.http.delete(gone), 404, "not-found")
    refused(await site.http.post(where, json={"type": "queue"}), 422, "invalid-input")
    refused(await site.http.post("/v1/topics/a..b/messages", json=1), 422, "invalid-name")


# ---- by a client ---------------------------------------------------------------------------------------------


async def test_a_queue_is_used_alike(client: Client) -> None:
    queue = client.queue("emails")
    ids = [await queue.send({"n": 1}, group="a", headers={"h": "v"}), *await queue.send_many([2, Send(3, group="a")])]
    first = await queue.receive(10)
    assert [(m.id, m.body, m.group) for m in first] == [(ids[0], {"n": 1}, "a"), (ids[1], 2, None)]
    assert first[0].headers == {"h": "v"}
    assert await queue.delete(*first) == 2
    assert await queue.delete(*first) == 0
    [third] = await queue.receive(visibility="1h")
    assert third.body == 3
    assert await queue.receive(wait="50ms") == []
    until = await queue.change_visibility(third, 0)
    assert until <= third.visible_at
    [again] = await queue.receive(match=3, wait="5s")
    with pytest.raises(Conflict, match="handed on"):
        await queue.delete(third)
    with pytest.raises(Conflict, match="handed on"):
        await queue.change_visibility(third, "1s")
    stats = await queue.stats()
    assert (stats.queue, stats.ready, stats.in_flight) == ("emails", 0, 1)
    assert await queue.delete(again) == 1
    with pytest.raises(NotFound):
        await queue.change_visibility(again, "1s")
    await queue.send_many(range(3))
    assert await queue.purge() == 3


async def test_values_in_messages_come_as_they_went(client: Client) -> None:
    queue = client.queue("emails")
    values: list[Any] = [None, 2**100, "\0ä", {"$payload": {"key": "x"}}, [{"$payload": 1}], "x" * 100_000]
    await queue.send_many([Send(value) for value in values])
    assert [message.body for message in await queue.receive(10)] == values


async def test_a_message_that_is_received_too_often_is_a_dead_letter(client: Client) -> None:
    queue = client.queue("emails", max_receives=2)
    await queue.send("x" * 100_000)
    for _ in range(2):
        [message] = await queue.receive()
        await queue.change_visibility(message, 0)
    assert await queue.receive() == []
    assert (await queue.stats()).dead == 1
    [dead] = await client.queue("emails.dead").receive()
    assert not isinstance(dead.body, Ref)
    assert any(name.startswith("onward-dead-") for name in dead.headers)


@pytest.mark.parametrize("wrong", [{"max": 0}, {"max": True}, {"visibility": 0}, {"visibility": "x"}, {"wait": "x"}])
async def test_what_makes_no_sense_is_refused(client: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await client.queue("emails").receive(**wrong)


async def test_names_are_checked(client: Client) -> None:
    with pytest.raises(InvalidName):
        client.queue("A")
    with pytest.raises(InvalidName, match="reserved"):
        await client.queue("__wf_hello").send(1)
    with pytest.raises(InvalidName):
        await client.topics.publish("a..b", 1)
    with pytest.raises(InvalidName):
        await client.topics.subscribe("a.*b", {"type": "queue", "name": "q"})


async def test_topics_are_used_alike(client: Client) -> None:
    @workflow(name="hello")
    async def hello(ctx: Context, n: int) -> int:
        return n

    made = await client.topics.subscribe("user.*", {"type": "queue", "name": "emails"})
    web = await client.topics.subscribe("#", {"type": "http", "url": "https://example.com/hook"})
    assert web.secret is not None
    await client.topics.subscribe("user.signup", {"type": "workflow", "name": "hello"})
    assert await client.topics.publish("user.signup", {"n": 1}, idempotency_key="k") == 3
    assert await client.topics.publish("user.signup", {"n": 1}, idempotency_key="k") == 3
    with pytest.raises(Conflict, match="another key"):
        await client.topics.publish("user.signup", {"n": 2}, idempotency_key="k")
    assert [message.body for message in await client.queue("emails").receive(10)] == [{"n": 1}]
    assert [one.id for one in await client.topics.subscriptions("user.*")] == [made.id]
    assert len(await client.topics.subscriptions()) == 3
    await client.topics.unsubscribe(made.id)
    with pytest.raises(NotFound):
        await client.topics.unsubscribe(made.id)
    with pytest.raises(InvalidInput):
        await client.topics.subscribe("a", {"type": "queue"})
    assert await client.topics.publish("user.gone", 1) == 1
