"""A worker that cannot reach the database stops beginning steps, and comes back by itself."""

from __future__ import annotations

import asyncio
import time

from faults.crew import Crew, Journal, until
from faults.program import marched
from faults.proxies import way
from onward import Start

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


async def test_a_half_open_connection_is_noticed(crew: Crew) -> None:
    async with way(crew.url) as path:
        hand = await crew.start("march", url=path.url, lease=LEASE)
        first = await crew.client.start("march", 1)
        assert await first.result(timeout=20) == marched(1)
        busy = await crew.client.start_many("march", [Start(i) for i in range(3)])
        await crew.until_begun(run=busy[0].id)
        path.swallow()
        assert await asyncio.gather(*(run.result(timeout=30) for run in busy)) == [marched(i) for i in range(3)]
        later = await crew.client.start("march", 4)
        assert await later.result(timeout=30) == marched(4)
        assert hand.lives
