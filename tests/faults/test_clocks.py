"""Time is the database's: a worker whose clock is wrong does everything on time."""

from __future__ import annotations

import asyncio
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from faults.crew import Crew

NEAR = timedelta(seconds=5)
HOUR = 3600
LIBRARY = "faketime/libfaketimeMT.so.1"
PLACES = [Path(place) for place in ("/usr/lib", "/usr/lib64", "/usr/local/lib")]


def _clock_that_is(off: str) -> dict[str, str]:
    """The environment of a process whose wall clock is wrong; the one for intervals goes on as on any machine."""
    found = [file for place in PLACES for file in (place / LIBRARY, *place.glob(f"*/{LIBRARY}")) if file.exists()]
    if not found:
        pytest.skip("libfaketime is not there, which gives workers a wrong clock: install the package faketime")
    return {"LD_PRELOAD": str(found[0]), "FAKETIME": off, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.mark.parametrize("off", ["+1h", "-1h"])
async def test_a_worker_whose_clock_is_wrong_keeps_the_time(crew: Crew, off: str) -> None:
    before: datetime = await crew.value("select onward.now()")
    hand = await crew.start("tell-the-time", "nod-off", env=_clock_that_is(off))
    run, delayed = await asyncio.gather(
        crew.client.start("tell-the-time"), crew.client.start("nod-off", 0.0, delay="1s")
    )
    machine, answer, *shown = await run.result(timeout=20)
    await delayed.result(timeout=20)
    after: datetime = await crew.value("select onward.now()")

    assert abs(abs(machine - before.timestamp()) - HOUR) < 60  # it is wrong indeed
    assert answer is None
    hand.send(signal.SIGTERM)  # libfaketime tidies up behind itself where it can
    assert await hand.ended() == 0
    times = [datetime.fromisoformat(text) for text in shown]
    assert times == sorted(times)
    assert before - NEAR < times[0] < times[-1] < after + NEAR
    assert times[-1] - times[0] < after - before

    taken = {step.name: step.completed_at - step.started_at for step in await run.steps()}
    for name in ("nap", "sign"):
        assert timedelta(seconds=1) <= taken[name] < timedelta(seconds=3)
    record = await run.get()
    stamps = [record.started_at, record.completed_at]
    stamps += [at for step in await run.steps() for at in (step.started_at, step.completed_at)]
    assert all(before - NEAR < at < after + NEAR for at in stamps)
    late = await delayed.get()
    assert timedelta(seconds=1) <= late.completed_at - late.started_at < timedelta(seconds=4)
