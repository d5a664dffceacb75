"""Steps that kill their process: the run that does it ends, its neighbours do not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from faults.crew import Crew, Event, until
from onward import RunHandle, Start
from onward.errors import RunFailed

LIMIT = 5
"""Deliveries without progress."""


@asynccontextmanager
async def supervised(crew: Crew, *serve: str, **options: Any) -> AsyncIterator[list[int]]:
    """One worker, and the next one as soon as it dies. Gives the pids so far."""
    pids: list[int] = []

    async def supervise() -> None:
        while True:
            hand = await crew.launch(*serve, **options)
            pids.append(hand.pid)
            await hand.ended(300)

    task = asyncio.create_task(supervise())
    try:
        yield pids
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_run_that_kills_its_worker_fails_alone_and_its_neighbours_finish(crew: Crew) -> None:
    asleep, waiting = await crew.client.start("nod-off", 600.0), await crew.client.start("idle")
    lengthy = Start(1.0)  # too long to be done before the next death
    async with supervised(crew, "poison", "last", "dawdle", "idle", "nod-off") as pids:
        inactive = await crew.client.start("dawdle", "late")
        slow = await crew.client.start_many("last", [lengthy])
        bad = await crew.client.start("poison", "loose")
        slow += await crew.client.start_many("last", [lengthy, lengthy])
        for run in (bad, *slow):
            await crew.until_begun(run=run.id)
        await until(lambda: _stand(crew, {asleep.id: "sleeping", waiting.id: "waiting"}))
        crew.open("loose")
        with pytest.raises(RunFailed) as failed:
            await bad.result(timeout=60)
        assert failed.value.error["type"] == "PoisonRun"
        assert await asyncio.gather(*(run.result(timeout=30) for run in slow)) == ["lasted"] * 3

        deliveries = crew.began(run=bad.id)
        assert len(deliveries) == LIMIT
        assert len({event.pid for event in deliveries}) == LIMIT == len(pids) - 1
        assert _beside(crew, deliveries[-1]) == set()
        deaths = "select deaths from onward.message where msg_id = $1"
        assert [await crew.value(deaths, run.id) for run in (asleep, waiting)] == [0, 0]
        assert await crew.value(deaths, inactive.id) == 1  # at the first death nothing is known yet of who executed
        crew.open("late")
        assert await inactive.result(timeout=20) == "lasted"
        await waiting.signal("sign", "now")
        assert await waiting.result(timeout=20) == "now"
        assert (await asleep.get()).state == "sleeping"


async def test_a_run_that_gets_on_between_deaths_is_never_poison(crew: Crew) -> None:
    run = await crew.client.start("stumble", LIMIT + 1)
    async with supervised(crew, "stumble") as pids:
        assert await run.result(timeout=60) == sum(range(LIMIT + 1))
        assert len(pids) == LIMIT + 2


async def test_a_run_that_got_past_its_deadly_step_executes_beside_others_again(crew: Crew) -> None:
    run: RunHandle[str] = await crew.client.start("recover", LIMIT - 1)
    async with supervised(crew, "recover", "last"):
        await crew.until_begun(30, run=run.id, step="gated")
        other = await crew.client.start("last", 0.0)
        assert await other.result(timeout=10) == "lasted"
        crew.open("recovered")
        assert await run.result(timeout=10) == "recovered"


def _beside(crew: Crew, execution: Event) -> set[tuple[str, str]]:
    """What else the same process was executing when it began."""
    going: set[tuple[str, str]] = set()
    for event in crew.log():
        if event == execution:
            return going
        if event.pid == execution.pid:
            (going.add if event.what == "begin" else going.discard)((event.run, event.step))
    raise AssertionError(f"{execution} is not in the log")


async def _stand(crew: Crew, states: dict[str, str]) -> bool:
    return all([(await crew.client.get(run)).state == state for run, state in states.items()])
