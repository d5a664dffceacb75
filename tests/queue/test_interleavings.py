"""Two connections, one of them held in the middle of a transaction: what READ COMMITTED could get wrong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from importlib import resources
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg
import pytest

from onward.store.queues import MessageRecord, NewMessage, Queues
from postgres import Connect

T = TypeVar("T")


class Hand:
    """One connection, and the store's calls over it."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.calls = Queues(connection, "t")  # type: ignore[arg-type]

    def open(self) -> Any:
        return self.connection.transaction()

    async def send(self, *bodies: bytes, group: str | None = "g") -> None:
        await self.calls.send("q", [NewMessage(uuid4(), group, None, body, None, None) for body in bodies])

    async def receive(
        self, most: int = 10, max_receives: int | None = None, seconds: float = 30
    ) -> list[MessageRecord]:
        return await self.calls.receive("q", most, seconds, max_receives, None)

    async def delete(self, *messages: MessageRecord) -> list[str]:
        return await self.calls.delete("q", [m.msg_id for m in messages], [m.receipt for m in messages])


class Stage:
    """Two hands, and one that looks on."""

    def __init__(self, a: Hand, b: Hand, root: asyncpg.Connection) -> None:
        self.a, self.b, self.root = a, b, root

    async def blocked(self, work: Coroutine[Any, Any, T], hand: Hand) -> asyncio.Task[T]:
        """Starts the work, and returns once it waits for a lock."""
        task = asyncio.ensure_future(work)
        while not await self.root.fetchval("select pg_blocking_pids($1)", hand.connection.get_server_pid()):
            assert not task.done(), f"it did not wait, but ended: {task!r}"
            await asyncio.sleep(0.002)
        return task

    async def weaken(self, function: str, old: str, new: str) -> None:
        """Puts a changed copy of a shipped function into this database."""
        text = (resources.files("onward.store") / "sql" / "functions" / f"{function}.sql").read_text("utf-8")
        pattern = r"\s+".join(map(re.escape, old.split()))
        text, count = re.subn(pattern, lambda _: new, text)
        assert count == 1, f"{function}.sql has {count} times: {old}"
        await self.root.execute(text)

    async def heads(self) -> list[tuple[str, str, bytes]]:
        rows = await self.root.fetch(
            "select queue, group_id, body from onward.queued where head and group_id is not null order by 1, 2"
        )
        return [tuple(row) for row in rows]


@pytest.fixture
async def stage(any_url: str, connect: Connect) -> Stage:
    hands = [Hand(await connect(any_url, lock_timeout="10s")) for _ in range(2)]
    return Stage(*hands, root=await connect(any_url))


def bodies(messages: list[MessageRecord]) -> list[bytes]:
    return [message.body for message in messages]


async def test_two_receivers_at_once_never_hold_two_of_a_group(stage: Stage) -> None:
    await stage.a.send(b"1", b"2", b"3")
    async with stage.a.open():
        assert bodies(await stage.a.receive()) == [b"1"]
        assert await stage.b.receive() == []
    assert await stage.b.receive() == []


async def test_the_next_of_a_group_is_not_handed_out_before_the_deletion_is_committed(stage: Stage) -> None:
    await stage.a.send(b"1", b"2")
    [first] = await stage.a.receive()
    async with stage.a.open():
        assert await stage.a.delete(first) == ["deleted"]
        assert await stage.b.receive() == []
    assert bodies(await stage.b.receive()) == [b"2"]


async def test_a_message_sent_while_its_group_is_emptied_is_not_stuck(stage: Stage) -> None:
    await stage.a.send(b"1")
    [first] = await stage.a.receive()
    async with stage.a.open():
        await stage.a.delete(first)
        sending = await stage.blocked(stage.b.send(b"2"), stage.b)
    await sending
    assert bodies(await stage.b.receive()) == [b"2"]


async def test_a_deletion_finds_what_is_being_sent_behind_it(stage: Stage) -> None:
    await stage.a.send(b"1")
    [first] = await stage.a.receive()
    async with stage.b.open():
        await stage.b.send(b"2")
        deleting = await stage.blocked(stage.a.delete(first), stage.a)
    assert await deleting == ["deleted"]
    assert bodies(await stage.b.receive()) == [b"2"]


async def test_without_the_groups_lock_a_message_would_be_stuck(stage: Stage) -> None:
    """What the lock in delete_messages is for."""
    await stage.weaken("delete_messages", "g.group_id = i.id for update) locked", "g.group_id = i.id) locked")
    await stage.a.send(b"1")
    [first] = await stage.a.receive()
    async with stage.b.open():
        await stage.b.send(b"2")
        await asyncio.wait([deleting := asyncio.ensure_future(stage.a.delete(first))], timeout=0.3)
    await deleting
    assert await stage.b.receive() == []
    assert await stage.heads() == []


async def test_two_senders_of_a_new_group_make_one_head(stage: Stage) -> None:
    async with stage.a.open():
        await stage.a.send(b"1")
        sending = await stage.blocked(stage.b.send(b"2"), stage.b)
    await sending
    assert await stage.heads() == [("q", "g", b"1")]


async def test_the_order_of_a_group_is_that_of_commit(stage: Stage) -> None:
    async with stage.a.open():
        await stage.a.send(b"1", group="h")
        await stage.a.send(b"1")
        sending = await stage.blocked(stage.b.send(b"2"), stage.b)
        await stage.a.send(b"3")
    await sending
    seen = []
    for _ in range(3):
        [*others, last] = [m for m in await stage.a.receive() if m.group == "g"]
        assert not others
        seen.append(last.body)
        await stage.a.delete(last)
    assert seen == [b"1", b"3", b"2"]


async def test_senders_of_many_groups_in_any_order_never_deadlock(stage: Stage) -> None:
    async def send(hand: Hand, groups: list[str]) -> None:
        for _ in range(30):
            await hand.calls.send("q", [NewMessage(uuid4(), g, None, b"1", None, None) for g in groups])

    groups = [f"g{n}" for n in range(20)]
    await asyncio.gather(send(stage.a, groups), send(stage.b, groups[::-1]))
    assert len(await stage.a.receive(100)) == 20


async def test_a_receiver_that_waits_for_nobody_reads_the_newest_row(stage: Stage) -> None:
    """An extension that is being made when its message is due: the message is skipped, not handed out twice."""
    await stage.a.send(b"1", group=None)
    [message] = await stage.a.receive(seconds=0)
    async with stage.a.open():
        word, _ = await stage.a.calls.change_visibility("q", message.msg_id, message.receipt, 60)
        assert word == "changed"
        assert await stage.b.receive() == []
    assert await stage.b.receive() == []


async def test_a_stale_delete_that_waited_for_the_new_hand_out_deletes_nothing(stage: Stage) -> None:
    await stage.a.send(b"1")
    [stale] = await stage.a.receive(seconds=0)
    async with stage.b.open():
        [fresh] = await stage.b.receive()
        deleting = await stage.blocked(stage.a.delete(stale), stage.a)
    assert await deleting == ["stale"]
    assert await stage.b.delete(fresh) == ["deleted"]


async def test_a_stale_extension_that_waited_for_the_new_hand_out_extends_nothing(stage: Stage) -> None:
    await stage.a.send(b"1")
    [stale] = await stage.a.receive(seconds=0)
    async with stage.b.open():
        await stage.b.receive()
        work = stage.a.calls.change_visibility("q", stale.msg_id, stale.receipt, 0)
        changing = await stage.blocked(work, stage.a)
    assert (await changing)[0] == "stale"
    assert await stage.a.receive() == []


async def test_letters_whose_groups_are_busy_neither_wait_nor_hide_others(stage: Stage) -> None:
    groups = [f"g{n:03}" for n in range(150)]
    for group in groups:
        await stage.a.send(b"1", group=group)
    await stage.a.receive(150, seconds=0)
    await stage.a.send(b"free", group=None)
    async with stage.a.open():
        for group in groups:
            await stage.a.send(b"2", group=group)
        assert bodies(await stage.b.receive(1, max_receives=1)) == [b"free"]
    assert bodies(await stage.b.receive(150, max_receives=1)) == [b"2"] * 150
    assert await stage.heads() == [("q", group, b"2") for group in groups]


async def test_a_send_may_be_repeated(stage: Stage) -> None:
    messages = [NewMessage(uuid4(), g, None, b"1", None, None) for g in ("g", "g", None)]
    for _ in range(2):
        await stage.a.calls.send("q", messages)
    assert await stage.root.fetchval("select count(*) from onward.queued") == 3


async def test_a_repeated_send_whose_head_has_died_leaves_its_group_a_head(stage: Stage) -> None:
    messages = [NewMessage(uuid4(), "g", None, body, None, None) for body in (b"1", b"2")]
    await stage.a.calls.send("q", messages)
    for _ in messages:
        await stage.a.receive(seconds=0, max_receives=1)
    assert await stage.a.receive(max_receives=1) == []  # both are dead
    await stage.root.execute("delete from onward.queued where body = '2'")
    await stage.a.calls.send("q", messages)
    assert bodies(await stage.a.receive()) == [b"2"]


async def test_no_state_with_two_heads_can_be_written(stage: Stage) -> None:
    await stage.a.send(b"1", b"2")
    with pytest.raises(asyncpg.UniqueViolationError):
        await stage.root.execute("update onward.queued set head = true")
