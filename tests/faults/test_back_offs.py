"""A back-off is a fact in the database: it is kept through a kill, and takes nothing that belongs to the step."""

from __future__ import annotations

import asyncio

from faults.crew import Crew, until
from onward import Start


async def test_steps_that_back_off_side_by_side_all_come_to_their_end(crew: Crew) -> None:
    await crew.start("try-again")
    runs = await crew.client.start_many("try-again", [Start("30ms") for _ in range(20)])
    assert await asyncio.gather(*(run.result(timeout=20) for run in runs)) == [3] * 20


async def test_back_offs_side_by_side_go_on_where_they_were_after_a_kill(crew: Crew) -> None:
    first = await crew.start("try-again")
    run = await crew.client.start("try-again", "3s")
    ask = "select name, attempt, deadline from onward.pending where run_id = $1 order by name"

    async def all_back_off() -> list[object]:
        rows = await crew.sql(ask, run.id)
        return rows if len(rows) == 3 else []

    before = await until(all_back_off)
    await first.kill()
    second = await crew.start("try-again")
    assert await crew.sql(ask, run.id) == before
    assert await run.result(timeout=15) == 3
    executed = sorted((event.step, event.pid) for event in crew.began())
    assert executed == sorted((f"flawed {i}", hand.pid) for i in range(3) for hand in (first, second))
    journal = await crew.sql("select attempt, completed_at from onward.step where run_id = $1", run.id)
    assert [attempt for attempt, _ in journal] == [2, 2, 2]
    assert all(at >= min(deadline for _, _, deadline in before) for _, at in journal)
