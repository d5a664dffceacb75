"""The database goes away under load and comes back: workers and clients ride it out."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from faults.crew import Crew, Journal
from faults.program import marched
from faults.servers import Server, own_server
from onward import Start


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.fixture
async def crew(server: Server, tmp_path: Path) -> AsyncIterator[Crew]:
    crew = Crew(server.url, tmp_path)
    await crew.client.workflows()  # sets the schema up
    try:
        yield crew
    finally:
        await crew.close()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["restarted", "killed"])
async def test_a_database_that_goes_and_comes_back_costs_no_run_and_no_worker(
    server: Server, crew: Crew, end: signal.Signals
) -> None:
    hand = await crew.start("march", "last")
    number = await crew.worker_id(hand)
    journal = Journal(crew)
    watch = asyncio.create_task(journal.keep_looking())
    runs = await crew.client.start_many("march", [Start(i) for i in range(20)])
    long = await crew.client.start("last", 4.0)  # it ends after the database is back
    results = asyncio.gather(*(run.result(timeout=60) for run in runs))  # waited for all along
    await crew.until_begun(run=runs[-1].id, step="brisk 1")

    await asyncio.to_thread(server.stop, end)
    more = asyncio.create_task(crew.client.start("march", 20))  # while it is away
    await asyncio.to_thread(server.start)
    assert await results == [marched(i) for i in range(20)]
    assert await (await more).result(timeout=20) == marched(20)
    assert await long.result(timeout=20) == "lasted"
    watch.cancel()

    assert journal.repeated() == []
    assert hand.lives
    assert await crew.worker_id(hand) == number  # the same incarnation
    began = [(event.run, event.step) for event in crew.began() if event.step != "flawed"]
    assert len(began) == len(set(began))  # nothing was executed twice
