"""Queues as their users see them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from onward.client import Client, Held, Message, Send
from onward.core.ref import Ref
from onward.errors import Conflict, InvalidInput, InvalidName, NotFound

Skip = Callable[[float], Awaitable[None]]


def bodies(messages: list[Message]) -> list[Any]:
    return [message.body for message in messages]


# ---- sending and receiving -----------------------------------------------------------------------------------


async def test_a_message_comes_as_it_was_sent(client: Client) -> None:
    q = client.queue("emails")
    body = {"nul": "a\x00b", "big": 10**30, "list": [1, 2.5, None], "é": True, "escape": "\ue000"}
    sent = await q.send(body, group="g", headers={"trace": "abc"})
    [message] = await q.receive()
    assert (message.id, message.body, message.headers, message.group) == (sent, body, {"trace": "abc"}, "g")
    assert (message.read_count, message.receipt) == (1, 1)
    assert 29 < (message.visible_at - message.enqueued_at).total_seconds() < 40


@pytest.mark.parametrize("body", [None, 0, "", [], {}, {"$payload": {"key": "x"}}, {"__onward": 1}])
async def test_any_json_is_a_body(client: Client, body: Any) -> None:
    await client.queue("q").send(body)
    assert bodies(await client.queue("q").receive()) == [body]


async def test_messages_come_in_the_order_of_sending(client: Client) -> None:
    q = client.queue("q")
    await q.send_many(range(5))
    await q.send_many([Send(5), Send(6, headers={"a": "b"})])
    assert bodies(await q.receive(4)) == [0, 1, 2, 3]
    assert bodies(await q.receive(10)) == [4, 5, 6]


async def test_a_message_that_is_out_is_nobody_elses(client: Client, skip: Skip) -> None:
    q = client.queue("q")
    await q.send("a")
    [first] = await q.receive(visibility="10s")
    assert await q.receive() == []
    await skip(11)
    [again] = await q.receive()
    assert (again.id, again.read_count, again.receipt) == (first.id, 2, 2)


async def test_a_delayed_message_is_not_there_before_its_time(client: Client, skip: Skip) -> None:
    q = client.queue("q")
    await q.send("later", delay="1h")
    assert await q.receive() == []
    assert (await q.stats()).delayed == 1
    await skip(3601)
    assert bodies(await q.receive()) == ["later"]


async def test_a_queue_belongs_to_its_tenant(url: str, client: Client) -> None:
    await client.queue("q").send("mine")
    async with Client(url, tenant="other") as other:
        assert await other.queue("q").receive() == []
        [message] = await client.queue("q").receive()
        assert await other.queue("q").delete(message) == 0
        assert await other.queue("q").purge() == 0
        with pytest.raises(NotFound):
            await other.queue("q").change_visibility(message, "1h")
    assert await client.queue("q").delete(message) == 1


# ---- groups --------------------------------------------------------------------------------------------------


async def test_a_group_goes_one_after_another(client: Client, skip: Skip) -> None:
    q = client.queue("q")
    await q.send_many([Send(n, group="g") for n in range(3)])
    await q.send_many([Send("other", group="h"), "free"])
    first = await q.receive(10, visibility=10)
    assert bodies(first) == [0, "other", "free"]
    assert await q.receive(10) == []
    await skip(11)  # whoever had them crashed
    again = await q.receive(10)
    assert bodies(again) == [0, "other", "free"]
    await q.delete(*again)
    assert bodies(await q.receive(10)) == [1]


async def test_a_delayed_message_holds_up_its_group(client: Client, skip: Skip) -> None:
    q = client.queue("q")
    await q.send("first", group="g", delay=60)
    await q.send("second", group="g")
    assert await q.receive(10) == []
    await skip(61)
    [first] = await q.receive(10)
    await q.delete(first)
    assert bodies(await q.receive(10)) == ["second"]


async def test_a_group_that_was_emptied_begins_anew(client: Client, root: asyncpg.Connection) -> None:
    q = client.queue("q")
    for n in range(3):
        await q.send(n, group="g")
        await q.delete(*await q.receive())
        assert await root.fetchval("select count(*) from onward.queue_group") == 0


# ---- receipts ------------------------------------------------------------------------------------------------


async def test_an_expired_receipt_that_was_handed_on_can_neither_delete_nor_extend(client: Client, skip: Skip) -> None:
    q = client.queue("q")
    await q.send("a", group="g")
    [stale] = await q.receive(visibility=10)
    await skip(11)
    [fresh] = await q.receive()
    with pytest.raises(Conflict, match="handed on"):
        await q.delete(stale)
    with pytest.raises(Conflict, match="handed on"):
        await q.change_visibility(stale, 0)
    assert await q.receive() == []
    assert await q.delete(fresh) == 1


async def test_an_expired_receipt_that_nobody_has_taken_over_still_counts(client: Client, skip: Skip) -> None:
    q = client.queue("q")
    await q.send_many(["a", "b"])
    a, b = await q.receive(2, visibility=10)
    await skip(11)
    assert await q.delete(a) == 1
    await q.change_visibility(b, 60)
    assert await q.receive(2) == []


async def test_deleting_twice_is_fine(client: Client) -> None:
    q = client.queue("q")
    await q.send_many(["a", "b"])
    messages = await q.receive(2)
    assert await q.delete(*messages) == 2
    assert await q.delete(*messages) == 0
    assert await q.delete() == 0


async def test_a_stale_receipt_does_not_keep_its_neighbours(client: Client, skip: Skip) -> None:
    q = client.queue("q")
    await q.send_many(["a", "b"])
    a, b = await q.receive(2, visibility=10)
    await q.change_visibility(b, 60)
    await skip(11)
    await q.receive()
    with pytest.raises(Conflict, match=a.id):
        await q.delete(a, b)
    assert (await q.stats()).in_flight == 1


async def test_a_message_that_was_never_handed_out_cannot_be_deleted(client: Client) -> None:
    q = client.queue("q")
    ids = [await q.send(n, group="g") for n in range(2)]
    for msg_id in ids:
        with pytest.raises(Conflict):
            await q.delete(Held(msg_id, 0))
    with pytest.raises(NotFound):
        await q.delete(Held("no uuid", 1))


async def test_visibility_can_be_extended_and_given_up(client: Client, skip: Skip) -> None:
    q = client.queue("q")
    await q.send("a")
    [message] = await q.receive(visibility=10)
    until = await q.change_visibility(message, "1h")
    assert 3500 < (until - message.enqueued_at).total_seconds() < 3700
    await skip(60)
    assert await q.receive() == []
    await q.change_visibility(message, 0)
    [again] = await q.receive()
    await q.delete(again)
    with pytest.raises(NotFound):
        await q.change_visibility(again, 10)


# ---- match ---------------------------------------------------------------------------------------------------


async def test_match_takes_only_what_contains_it(client: Client) -> None:
    q = client.queue("q")
    await q.send_many([{"kind": "a", "n": 1}, {"kind": "b"}, {"kind": "a", "n": 2, "x": "\x00"}])
    assert bodies(await q.receive(10, match={"kind": "a"})) == [
        {"kind": "a", "n": 1},
        {"kind": "a", "n": 2, "x": "\x00"},
    ]
    assert await q.receive(10, match={"kind": "a"}) == []
    assert bodies(await q.receive(10)) == [{"kind": "b"}]


async def test_nul_is_matched_and_not_mixed_up(client: Client) -> None:
    q = client.queue("q")
    await q.send_many(["\ue0000", "\x00"])
    assert bodies(await q.receive(10, match="\x00")) == ["\x00"]


async def test_match_looks_at_the_first_of_a_group_only(client: Client) -> None:
    q = client.queue("q")
    await q.send_many([Send(1, group="g"), Send(2, group="g")])
    assert await q.receive(match=2) == []
    await q.delete(*await q.receive(match=1))
    assert bodies(await q.receive(match=2)) == [2]


async def test_a_large_body_is_matched_by_the_client_and_given_back_uncounted(client: Client, folder: Path) -> None:
    q = client.queue("q", max_receives=1)
    large = {"kind": "large", "data": "x" * 100_000}
    await q.send(large, group="g")
    await q.send("behind", group="g")
    for _ in range(3):
        assert await q.receive(match={"kind": "small"}) == []
    [message] = await q.receive(match={"kind": "large"})
    assert (message.body, message.read_count) == (large, 1)
    await q.delete(message)
    assert bodies(await q.receive()) == ["behind"]


async def test_a_message_that_did_not_fit_keeps_its_place(client: Client, folder: Path) -> None:
    q = client.queue("q")
    await q.send("x" * 100_000)
    await q.send("after")
    assert await q.receive(match=0) == []
    assert bodies(await q.receive(2)) == ["x" * 100_000, "after"]


# ---- large bodies --------------------------------------------------------------------------------------------


async def test_a_large_body_lies_in_the_store(client: Client, folder: Path, root: asyncpg.Connection) -> None:
    q = client.queue("q")
    sent = await q.send("x" * 100_000)
    assert (folder / "onward/tmp/oversized/default" / f"{sent}.json").stat().st_size == 100_002
    assert await root.fetchval("select length(body) from onward.queued") < 400
    assert isinstance((await q.peek())[0].body, Ref)
    assert bodies(await q.receive()) == ["x" * 100_000]


async def test_a_body_that_cannot_be_had_goes_to_the_dead_letters_with_the_reason(client: Client, folder: Path) -> None:
    q = client.queue("q")
    sent = await q.send("x" * 100_000, group="g")
    await q.send("next", group="g")
    (folder / "onward/tmp/oversized/default" / f"{sent}.json").unlink()
    assert bodies(await q.receive()) == ["next"]
    [letter] = await client.queue("q.dead").receive()
    assert isinstance(letter.body, Ref)
    assert "PayloadMissing" in letter.headers["onward-dead-reason"]
    assert letter.headers["onward-dead-group"] == "g"


async def test_a_large_body_is_not_delayed_beyond_its_object(client: Client, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="ten days"):
        await client.queue("q").send("x" * 100_000, delay="10d")
    await client.queue("q").send("small", delay="10d")


# ---- dead letters --------------------------------------------------------------------------------------------


async def test_what_is_never_deleted_goes_to_the_dead_letters(client: Client, skip: Skip) -> None:
    q = client.queue("q", max_receives=2)
    await q.send({"n": 1}, group="g", headers={"trace": "abc"})
    await q.send("next", group="g")
    for _ in range(2):
        assert bodies(await q.receive(visibility=10)) == [{"n": 1}]
        await skip(11)
    assert bodies(await q.receive()) == ["next"]
    assert (await q.stats()).dead == 1
    [letter] = await client.queue("q.dead").receive()
    assert (letter.body, letter.group, letter.read_count) == ({"n": 1}, None, 1)
    assert letter.headers.pop("onward-dead-at")
    assert letter.headers == {
        "trace": "abc",
        "onward-dead-queue": "q",
        "onward-dead-group": "g",
        "onward-dead-receives": "2",
        "onward-dead-reason": "received 2 times and never deleted",
    }


async def test_a_dead_letter_is_out_of_reach_of_its_last_receiver(client: Client, skip: Skip) -> None:
    q = client.queue("q", max_receives=1)
    await q.send("a")
    [message] = await q.receive(visibility=10)
    await skip(11)
    assert await q.receive() == []
    with pytest.raises(Conflict):
        await q.delete(message)
    assert (await q.stats()).dead == 1


async def test_many_dead_letters_do_not_hide_what_is_alive(client: Client, skip: Skip) -> None:
    q = client.queue("q", max_receives=1)
    await q.send_many(range(500))
    await q.receive(500, visibility=10)
    await skip(11)
    await q.send_many(["a", "b"])
    assert bodies(await q.receive(1)) == ["a"]
    assert (await q.stats()).dead == 500
    assert bodies(await q.receive(1)) == ["b"]


async def test_dead_letters_are_sent_again_in_their_groups(client: Client, skip: Skip) -> None:
    q = client.queue("q", max_receives=1)
    await q.send_many([Send(1, group="g"), Send(2, group="g"), Send(3)])
    for _ in range(2):
        await q.receive(10, visibility=10)
        await skip(11)
    assert await q.receive(10) == []
    assert await q.resend_dead() == 3
    found = await q.receive(10)
    assert bodies(found) == [1, 3]
    assert [m.read_count for m in found] == [1, 1]
    assert found[0].headers == {}
    await q.delete(found[0])
    assert bodies(await q.receive(10)) == [2]
    assert await q.resend_dead() == 0


# ---- looking after a queue -----------------------------------------------------------------------------------


async def test_stats_tell_where_messages_are(client: Client, skip: Skip) -> None:
    q = client.queue("q", max_receives=1)
    assert tuple(await q.stats()) == ("q", 0, 0, 0, 0, None)
    await q.send("dies")
    await q.receive(visibility=1)
    await skip(2)
    assert await q.receive() == []
    await q.send_many([Send(n, group="g") for n in range(3)])
    await q.send("delayed", delay=60)
    await q.send_many(["a", "b"])
    await q.receive(2)
    stats = await q.stats()
    assert (stats.ready, stats.delayed, stats.in_flight, stats.dead) == (3, 1, 2, 1)
    assert stats.oldest is not None
    assert (await client.queue("q.dead").stats()).ready == 1


async def test_a_purge_takes_all_that_was_sent_before(client: Client, root: asyncpg.Connection) -> None:
    q = client.queue("q")
    await q.send_many([Send(n, group=f"g{n % 7}") for n in range(500)])
    await q.send_many(range(500))
    await client.queue("other").send("stays")
    await q.receive(10)
    assert await q.purge() == 1000
    assert await root.fetchval("select count(*) from onward.queued") == 1
    assert await root.fetchval("select count(*) from onward.queue_group") == 0


async def test_queues_of_runs_can_be_looked_at_and_not_touched(client: Client) -> None:
    await client.start("onboard", {})
    q = client.queue("__wf_onboard")
    assert (await q.stats())[:4] == ("__wf_onboard", 1, 0, 0)
    for touch in (q.send(1), q.receive(), q.purge(), q.resend_dead()):
        with pytest.raises(InvalidName, match="start a run"):
            await touch


@pytest.mark.parametrize("name", ["", "Emails", "a b", "-a", "a" * 48, "__x", "é", 3])
def test_a_name_that_breaks_the_rules_is_refused(client: Client, name: Any) -> None:
    with pytest.raises(InvalidName):
        client.queue(name)


async def test_the_longest_name_has_dead_letters_too(client: Client, skip: Skip) -> None:
    q = client.queue("a" * 47, max_receives=1)
    await q.send(1)
    await q.receive(visibility=1)
    await skip(2)
    await q.receive()
    assert bodies(await client.queue("a" * 47 + ".dead").receive()) == [1]


async def test_what_cannot_be_stored_is_refused_before_anything_is_sent(client: Client) -> None:
    q = client.queue("q")
    for wrong in (
        q.send(float("nan")),
        q.send({"a": object()}),
        q.send(1, group=""),
        q.send(1, group="\x00"),
        q.send(1, headers={"a": 1}),  # type: ignore[dict-item]
        q.send(1, headers={"a": "x" * 20_000}),
        q.send(1, delay=-1),
        q.send_many([1, float("inf")]),
        q.receive(0),
        q.receive(1001),
        q.receive(visibility=0),
    ):
        with pytest.raises(InvalidInput):
            await wrong
    with pytest.raises(InvalidInput):
        client.queue("q", max_receives=0)
    with pytest.raises(InvalidInput):
        client.queue("q.dead", max_receives=3)
    assert (await q.stats()).ready == 0


async def test_a_message_is_a_plain_record(client: Client) -> None:
    await client.queue("q").send(1)
    [message] = await client.queue("q").receive()
    assert {field.name for field in dataclasses.fields(message)} == {
        "id", "body", "headers", "group", "read_count", "enqueued_at", "visible_at", "receipt",
    }  # fmt: skip


async def test_many_senders_and_receivers_share_out_every_message_once(url: str) -> None:
    async with Client(url) as a, Client(url) as b:
        await asyncio.gather(*[c.queue("q").send_many(range(50)) for c in (a, b) for _ in range(10)])
        got = await asyncio.gather(*[c.queue("q").receive(50) for c in (a, b) for _ in range(40)])
        ids = [message.id for part in got for message in part]
        ids += [message.id for message in await a.queue("q").receive(1000)]  # those that others had locked
        assert len(ids) == len(set(ids)) == 1000
