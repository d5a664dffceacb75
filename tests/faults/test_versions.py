"""Each version of a workflow is served by workers that have it, and by nobody else."""

from __future__ import annotations

from datetime import timedelta

from faults.crew import Crew, until
from onward import RunHandle


async def test_a_run_waits_for_a_worker_that_has_its_version(crew: Crew) -> None:
    newer = await crew.start("versioned@2")
    run = await crew.client.start("versioned", "", version=1)
    current = await crew.client.start("versioned", "")
    assert await current.result(timeout=10) == 2  # whoever is claimed after it was passed over
    stranded = await run.get()
    assert (stranded.version, stranded.state) == (1, "stranded")
    assert await crew.sql("select owner, receipt from onward.message") == [(None, 0)]
    assert crew.began(run=run.id) == []

    older = await crew.start("versioned@1")
    assert await run.result(timeout=10) == 1
    assert _pids(crew, run) == {older.pid}
    both: list[RunHandle[int]] = [await crew.client.start("versioned", "", version=v) for v in (1, 2, 1, 2)]
    assert [await run.result(timeout=10) for run in both] == [1, 2, 1, 2]
    assert [_pids(crew, run) for run in both] == [{older.pid}, {newer.pid}] * 2


async def test_a_run_whose_last_worker_is_gone_is_stranded_halfway_and_goes_on_later(crew: Crew) -> None:
    older = await crew.start("versioned@1")
    run = await crew.client.start("versioned", "sign")
    await crew.until_begun(run=run.id, step="before")
    await crew.start("versioned@2")
    await older.kill()

    async def is_stranded() -> bool:
        return (await run.get()).state == "stranded"

    await until(lambda: _is_free(crew, run))
    await run.signal("sign")
    await until(is_stranded)
    again = await crew.start("versioned@1")
    assert await run.result(timeout=10) == 1
    assert [event.pid for event in crew.began(run=run.id)] == [older.pid, again.pid]


async def test_a_run_started_by_name_alone_is_bound_by_the_first_claim(crew: Crew) -> None:
    run = await crew.client.start("versioned", "")
    waiting = await run.get()
    assert (waiting.version, waiting.retention, waiting.state) == (None, None, "stranded")
    await crew.start("versioned@1", "versioned@2")
    assert await run.result(timeout=10) == 2
    bound = await run.get()
    assert (bound.version, bound.retention) == (2, timedelta(days=20))

    await crew.start("versioned@3")  # the highest that a live worker serves
    later = await crew.client.start("versioned", "")
    assert await later.result(timeout=10) == 3
    record = await later.get()
    assert (record.version, record.retention) == (3, timedelta(days=30))


async def _is_free(crew: Crew, run: RunHandle[int]) -> bool:
    return await crew.value("select owner is null from onward.message where msg_id = $1", run.id)


def _pids(crew: Crew, run: RunHandle[int]) -> set[int]:
    return {event.pid for event in crew.began(run=run.id)}
