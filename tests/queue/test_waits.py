"""Waiting for messages: long polls that hold no connection, in a fair line, and lose nothing when they end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from onward.client import Client, Message, arrivals
from onward.client.payloads import Payloads
from onward.errors import DatabaseUnavailable
from onward.store.queues import Queues

Until = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "POLL", 60.0)


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queues that the database was asked for messages of."""
    asked: list[str] = []
    receive = Queues.receive

    async def noted(self: Queues, queue: str, *args: Any) -> Any:
        asked.append(queue)
        return await receive(self, queue, *args)

    monkeypatch.setattr(Queues, "receive", noted)
    return asked


def waiting(client: Client, queue: str = "q") -> int:
    lines = client.arrivals._lines.get((client.tenant, queue), {})
    return sum(len(line.waiting) for line in lines.values())


async def at_rest(client: Client, until: Until, count: int, queue: str = "q") -> None:
    """So many wait, and none of them has anything to ask."""

    async def quiet() -> bool:
        lines = client.arrivals._lines.get((client.tenant, queue), {})
        rest = not client.arrivals._fresh and (client.tenant, queue) in client.arrivals._held
        return rest and waiting(client, queue) == count and not any(line.stirred for line in lines.values())

    await until(quiet)


async def test_a_wait_is_told_of_a_message_from_another_process(
    url: str, client: Client, until: Until, no_polls: None
) -> None:
    wait = asyncio.create_task(client.queue("q").receive(wait=30))
    await at_rest(client, until, 1)
    async with Client(url) as other:
        await other.queue("q").send("hello")
    [message] = await asyncio.wait_for(wait, 5)
    assert message.body == "hello"


async def test_a_wait_that_nobody_tells_looks_by_itself(client: Client, root: asyncpg.Connection, until: Until) -> None:
    wait = asyncio.create_task(client.queue("q").receive(wait=30))
    await at_rest(client, until, 1)
    await root.execute("delete from onward.queue_wait")  # its notification is lost
    await client.queue("q").send("hello")
    assert len(await asyncio.wait_for(wait, 5)) == 1


async def test_a_wait_ends_when_a_delay_does(client: Client) -> None:
    await client.queue("q").send("hello", delay="300ms")
    began = time.monotonic()
    assert len(await client.queue("q").receive(wait=30)) == 1
    assert time.monotonic() - began < 0.8


async def test_a_wait_ends_when_the_next_of_its_group_is_ready(client: Client, until: Until, no_polls: None) -> None:
    q = client.queue("q")
    await q.send("first", group="g")
    await q.send("second", group="g")
    [first] = await q.receive()
    wait = asyncio.create_task(q.receive(wait=30))
    await at_rest(client, until, 1)
    await q.delete(first)
    assert (await asyncio.wait_for(wait, 5))[0].body == "second"


async def test_a_wait_in_vain_ends_in_time(client: Client) -> None:
    began = time.monotonic()
    assert await client.queue("q").receive(wait="100ms") == []
    assert 0.1 <= time.monotonic() - began < 0.6
    assert not client.arrivals._lines


async def test_waits_are_served_in_the_order_in_which_they_came(client: Client, until: Until, no_polls: None) -> None:
    got: list[int] = []

    async def one(n: int) -> None:
        await client.queue("q").receive(wait=30)
        got.append(n)

    tasks = []
    for n in range(5):
        tasks.append(asyncio.create_task(one(n)))
        await at_rest(client, until, n + 1)
    for n in range(5):
        await client.queue("q").send(n)
        await tasks[n]
    assert got == [0, 1, 2, 3, 4]


async def test_one_batch_serves_many_waits(client: Client, until: Until, no_polls: None) -> None:
    waits = [asyncio.create_task(client.queue("q").receive(wait=30)) for _ in range(20)]
    await at_rest(client, until, 20)
    await client.queue("q").send_many(range(20))
    got = await asyncio.wait_for(asyncio.gather(*waits), 5)
    assert sorted(message.body for [message] in got) == list(range(20))


async def test_a_wait_with_a_match_does_not_keep_others_waiting(client: Client, until: Until, no_polls: None) -> None:
    picky = asyncio.create_task(client.queue("q").receive(wait=30, match={"for": "me"}))
    await at_rest(client, until, 1)
    anything = asyncio.create_task(client.queue("q").receive(wait=30))
    await at_rest(client, until, 2)
    await client.queue("q").send({"for": "others"})
    assert len(await asyncio.wait_for(anything, 5)) == 1
    assert not picky.done()
    await client.queue("q").send({"for": "me"})
    assert len(await asyncio.wait_for(picky, 5)) == 1


# ---- whoever goes loses nothing --------------------------------------------------------------------------------


async def test_a_cancelled_wait_loses_nothing(client: Client, root: asyncpg.Connection, until: Until) -> None:
    """Its question had been asked: what came is given back at once, and does not count."""
    q = client.queue("q")
    await q.send("hello", group="g")
    await root.execute("begin")
    await root.execute("lock table onward.queued in access exclusive mode")
    wait = asyncio.create_task(q.receive(visibility="1h", wait=30))
    await until(lambda: _blocked(root))
    wait.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await wait
    await root.execute("commit")
    [message] = await q.receive(wait=5)
    assert (message.body, message.read_count) == ("hello", 1)
    assert message.receipt > 1


async def test_what_a_cancelled_wait_gives_back_goes_to_the_next(
    client: Client, root: asyncpg.Connection, until: Until, no_polls: None
) -> None:
    q = client.queue("q")
    await q.send("hello")
    await root.execute("begin")
    await root.execute("lock table onward.queued in access exclusive mode")
    first = asyncio.create_task(q.receive(visibility="1h", wait=30))
    await until(lambda: _blocked(root))
    second = asyncio.create_task(q.receive(wait=30))
    await asyncio.sleep(0)
    first.cancel()
    await root.execute("commit")
    assert (await asyncio.wait_for(second, 5))[0].body == "hello"


async def test_a_cancelled_first_leaves_the_others_served(client: Client, until: Until, no_polls: None) -> None:
    waits = [asyncio.create_task(client.queue("q").receive(wait=30)) for _ in range(3)]
    await at_rest(client, until, 3)
    waits[0].cancel()
    await at_rest(client, until, 2)
    await client.queue("q").send_many([1, 2])
    assert len(await asyncio.wait_for(asyncio.gather(*waits[1:]), 5)) == 2


async def test_closing_a_client_gives_back_what_its_waits_had_asked_for(
    url: str, client: Client, root: asyncpg.Connection, until: Until
) -> None:
    await client.queue("q").send("hello")
    other = Client(url)
    await root.execute("begin")
    await root.execute("lock table onward.queued in access exclusive mode")
    wait = asyncio.create_task(other.queue("q").receive(visibility="1h", wait=30))
    await until(lambda: _blocked(root))
    wait.cancel()
    await asyncio.gather(wait, return_exceptions=True)
    closing = asyncio.create_task(other.close())
    await asyncio.sleep(0)
    await root.execute("commit")
    await closing
    assert len(await client.queue("q").receive()) == 1


async def test_closing_a_client_lets_who_has_asked_have_it(
    url: str, client: Client, root: asyncpg.Connection, until: Until
) -> None:
    await client.queue("q").send("hello")
    other = Client(url)
    await root.execute("begin")
    await root.execute("lock table onward.queued in access exclusive mode")
    wait = asyncio.create_task(other.queue("q").receive(wait=30))
    await until(lambda: _blocked(root))
    closing = asyncio.create_task(other.close())
    await asyncio.sleep(0)
    await root.execute("commit")
    await closing
    assert (await wait)[0].body == "hello"


async def test_closing_a_client_ends_its_waits(url: str, until: Until) -> None:
    client = Client(url)
    wait = asyncio.create_task(client.queue("q").receive(wait=30))
    await at_rest(client, until, 1)
    await client.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await wait
    assert await client.queue("q").receive(wait=0.05) == []  # it connects again
    await client.close()


async def test_a_body_that_cannot_be_fetched_just_now_gives_all_of_its_batch_back(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    q = client.queue("q")
    await q.send_many(["small", "x" * 100_000])
    whole = Payloads.whole

    async def broken(*_: Any) -> bytes:
        raise OSError("the store is away")

    monkeypatch.setattr(Payloads, "whole", broken)
    with pytest.raises(OSError, match="away"):
        await q.receive(2)
    monkeypatch.setattr(Payloads, "whole", whole)
    found: list[Message] = await q.receive(2)
    assert [len(m.body) for m in found] == [5, 100_000]
    assert [m.read_count for m in found] == [1, 1]


# ---- cost ----------------------------------------------------------------------------------------------------


async def test_a_thousand_idle_waits_use_five_connections_and_one_question_a_second(
    client: Client, root: asyncpg.Connection, until: Until, takes: list[str]
) -> None:
    waits = [asyncio.create_task(client.queue(f"q{n % 50}").receive(wait=60)) for n in range(1000)]

    async def all_wait() -> bool:
        return sum(waiting(client, f"q{n}") for n in range(50)) == 1000 and len(client.arrivals._held) == 50

    await until(all_wait)
    for n in range(50):
        await at_rest(client, until, 20, f"q{n}")
    count = "select count(*) from pg_stat_activity where application_name = 'onward client'"
    assert await root.fetchval(count) <= 5
    asked, spent = len(takes), time.process_time()
    await asyncio.sleep(2)  # nothing is waited for: this is how long idleness is looked at
    assert len(takes) == asked
    assert time.process_time() - spent < 0.2
    await client.queue("q7").send("hello")
    done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    assert len(done) == 1
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    assert not client.arrivals._lines


async def test_a_send_notifies_only_who_waits(client: Client, root: asyncpg.Connection, until: Until) -> None:
    told: list[str] = []
    await root.add_listener("onward_queue", lambda *args: told.append(args[-1]))
    await client.queue("q").send("nobody waits")
    wait = asyncio.create_task(client.queue("waited").receive(wait=30))
    await at_rest(client, until, 1, "waited")
    await client.queue("waited").send_many(range(10))
    await wait

    async def came() -> bool:
        await root.fetchval("select 1")
        return bool(told)

    await until(came)
    assert told == ["default/waited"]


async def _blocked(root: asyncpg.Connection) -> bool:
    found: bool = await root.fetchval("select exists (select from pg_locks where not granted)")
    return found
