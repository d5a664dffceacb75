"""A worker that was frozen past its lease: what it held is somebody else's when it wakes."""

from __future__ import annotations

import asyncio
import signal

from faults.crew import Crew, Journal, until
from faults.program import marched
from onward import Start


async def test_a_thawed_worker_commits_nothing_of_what_others_hold_and_serves_on(crew: Crew) -> None:
    frozen = await crew.start("guard", "march", lease="1s")
    number = await crew.worker_id(frozen)
    guards = await crew.client.start_many("guard", [Start("gate") for _ in range(3)])
    for run in guards:
        await crew.until_begun(run=run.id, pid=frozen.pid)
    marches = await crew.client.start_many("march", [Start(i) for i in range(5)])
    await crew.until_begun(run=marches[0].id, step="brisk 1")
    frozen.send(signal.SIGSTOP)

    other = await crew.start("guard", "march", lease="1s")
    for run in guards:
        await crew.until_begun(run=run.id, pid=other.pid)
    ask = "select msg_id, owner, receipt from onward.message where queue = '__wf_guard' order by 1"
    held = await crew.sql(ask)
    assert {owner for _, owner, _ in held} == {await crew.worker_id(other)}
    journal = Journal(crew)
    watch = asyncio.create_task(journal.keep_looking())

    crew.open("gate", frozen)  # when it wakes, its steps end at once, with results to commit
    frozen.send(signal.SIGCONT)

    async def knows() -> bool:
        return await crew.worker_id(frozen) not in (None, number)

    await until(knows)
    assert len(crew.ended(pid=frozen.pid, step="gated")) == 3
    assert await crew.value("select count(*) from onward.step where name = 'gated'") == 0
    assert await crew.sql(ask) == held
    crew.open("gate")
    assert await asyncio.gather(*(run.result(timeout=30) for run in guards)) == ["lasted"] * 3
    assert await asyncio.gather(*(run.result(timeout=30) for run in marches)) == [marched(i) for i in range(5)]
    watch.cancel()
    assert journal.repeated() == []
    assert crew.began(pid=frozen.pid, step="after") == []

    await other.kill()
    later = await crew.client.start_many("march", [Start(i) for i in range(3)])
    assert await asyncio.gather(*(run.result(timeout=30) for run in later)) == [marched(i) for i in range(3)]
    assert {event.pid for run in later for event in crew.began(run=run.id)} == {frozen.pid}
    assert frozen.lives
