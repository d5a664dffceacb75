"""A worker that cannot reach the database stops beginning steps, and comes back by itself."""

from __future__ import annotations

import asyncio
import time

from faults.crew import Crew, Journal, until
from faults.program import marched
from faults.proxies import way
from onward import Client, Start
from postgres import Connect

LEASE = 2.0


async def test_a_worker_without_the_database_begins_no_step_after_its_lease(crew: Crew) -> None:
    async with way(crew.url) as path:
        hand = await crew.start("drip", url=path.url, lease=LEASE)
        run = await crew.client.start("drip", 30)
        await crew.until_begun(run=run.id, step="drop 2")
        journal = Journal(crew)
        await path.cut()
        cut = time.monotonic()

        async def lapsed() -> bool:
            return await crew.value("select bool_and(lease_until < onward.now() - interval '1s') from onward.worker")

        await until(lapsed)
        await journal.look()
        last = max(event.at for event in crew.began(pid=hand.pid))
        assert cut < last < cut + LEASE  # it went on while its lease stood
        assert len(crew.began(pid=hand.pid)) < 20  # without a fence, one each 200 ms

        await path.open()
        assert await run.result(timeout=20) == 30
        assert hand.lives
        assert journal.repeated() == []


async def test_a_step_that_queues_for_a_thread_does_not_begin_after_the_lease(crew: Crew) -> None:
    async with way(crew.url) as path:
        hand = await crew.start("guard-in-a-thread", url=path.url, lease=LEASE, threads=1)
        first = await crew.client.start("guard-in-a-thread", "first")
        await crew.until_begun(run=first.id)
        queued = await crew.client.start("guard-in-a-thread", "second")
        await until(lambda: _owned(crew, 2))
        await path.cut()
        await until(lambda: _lapsed(crew))
        crew.open("first")
        await until(lambda: _told_the_end(crew, first.id))
        opened = time.monotonic()
        crew.open("second")
        await path.open()
        assert await queued.result(timeout=20) == "second"
        assert [event.at > opened for event in crew.began(run=queued.id)] == [True]
        assert hand.lives


async def _told_the_end(crew: Crew, run_id: str) -> bool:
    return any(event.what == "end" and event.run == run_id for event in crew.log())


async def _owned(crew: Crew, runs: int) -> bool:
    return bool(await crew.value("select count(*) from onward.message where owner is not null") == runs)


async def _lapsed(crew: Crew) -> bool:
    return bool(await crew.value("select bool_and(lease_until < onward.now() - interval '1s') from onward.worker"))


async def test_a_half_open_connection_is_noticed(crew: Crew) -> None:
    async with way(crew.url) as path:
        hand = await crew.start("last", url=path.url, lease=LEASE)
        busy = await crew.client.start_many("last", [Start(0.5) for _ in range(3)])
        for run in busy:
            await crew.until_begun(run=run.id)
        path.swallow()  # with results to come
        assert await asyncio.gather(*(run.result(timeout=20) for run in busy)) == ["lasted"] * 3
        later = await crew.client.start("last", 0.0)
        assert await later.result(timeout=10) == "lasted"
        assert hand.lives


async def test_a_connection_that_has_had_its_last_words_is_not_used_again(crew: Crew) -> None:
    """A server that crashes says so before it closes: in between the connection seems to be there still."""
    async with way(crew.url) as path, Client(path.url) as client:
        run = await client.start("march", 1)
        path.farewell()
        await asyncio.sleep(0.1)  # heard: nothing can be seen of that
        asked = asyncio.create_task(client.get(run.id))
        await asyncio.wait([asked], timeout=0.1)
        await path.cut()
        await path.open()
        assert (await asked).id == run.id


async def test_statements_that_an_administrator_cancels_stop_no_worker(crew: Crew, connect: Connect) -> None:
    hand = await crew.start("march", lease=LEASE)
    holder = await connect(crew.url)
    cancel = """
        select count(pg_cancel_backend(pid)) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock' and query ~ 'onward\\.(heartbeat|claim)'
    """
    async with holder.transaction():
        await holder.execute("select 1 from onward.worker for update")
        run = await crew.client.start("march", 1)
        assert await until(lambda: crew.value(cancel)) > 0
        assert await until(lambda: crew.value(cancel)) > 0
    number = await crew.worker_id(hand)
    assert await run.result(timeout=15) == marched(1)
    beat = "select beat_at from onward.worker where worker_id = $1"
    before = await crew.value(beat, number)

    async def beats() -> bool:
        return await crew.value(beat, number) != before

    assert await until(beats)
    assert hand.lives
