"""SIGTERM: what executes gets the grace time, all else is handed back at once, and the process ends."""

from __future__ import annotations

import signal
import time

from faults.crew import Crew, Hand, until
from onward import Start


async def test_a_step_that_executes_gets_the_grace_time_and_is_journalled(crew: Crew) -> None:
    hand = await crew.start("guard", grace="20s")
    run = await crew.client.start("guard", "gate")
    await crew.until_begun(run=run.id)
    await _told_to_stop(crew, hand)
    crew.open("gate")
    assert await hand.ended(10) == 0
    await _left_and_handed_back(crew, run.id, journalled=["gated"])
    assert crew.began(step="after") == []
    await crew.start("guard")
    assert await run.result(timeout=10) == "lasted"
    assert len(crew.began(step="gated")) == 1


async def test_a_worker_that_was_idle_once_gives_the_grace_time_as_well(crew: Crew) -> None:
    hand = await crew.start("guard", "last", grace="20s")
    assert await (await crew.client.start("last", 0.0)).result(timeout=10) == "lasted"
    run = await crew.client.start("guard", "gate")
    await crew.until_begun(run=run.id)
    await _told_to_stop(crew, hand)
    crew.open("gate")
    assert await hand.ended(10) == 0
    await _left_and_handed_back(crew, run.id, journalled=["gated"])


async def test_what_executes_nothing_is_handed_back_at_once(crew: Crew) -> None:
    hand = await crew.start("guard", "keep-appointments", "idle", grace="20s", concurrency=3)
    run = await crew.client.start("guard", "gate")
    beside = await crew.client.start("keep-appointments", "gate")
    waiting = await crew.client.start("idle")
    for busy in (run, beside):
        await crew.until_begun(run=busy.id)

    async def is_waiting() -> bool:
        return (await waiting.get()).state == "waiting"

    await until(is_waiting)
    at = await _told_to_stop(crew, hand)
    await waiting.signal("sign", "for another worker")
    other = await crew.start("guard", "keep-appointments", "idle")
    assert await waiting.result(timeout=10) == "for another worker"
    assert hand.lives  # its steps execute, and it keeps their runs meanwhile
    assert len(crew.began(pid=other.pid)) == 0
    before = await crew.value("select receipt from onward.message where msg_id = $1", run.id)
    crew.open("gate", hand)
    assert await hand.ended(10) == 0
    assert time.monotonic() - at < 20
    await crew.until_begun(run=run.id, step="after", pid=other.pid)
    assert await run.result(timeout=10) == "lasted"
    assert before == 1
    assert len(crew.began(step="gated")) == 2  # once for each of the two
    await beside.cancel()


async def test_a_step_that_outlasts_the_grace_time_is_handed_back(crew: Crew) -> None:
    hand = await crew.start("guard", grace="1s")
    run = await crew.client.start("guard", "gate")
    await crew.until_begun(run=run.id)
    at = await _told_to_stop(crew, hand)
    assert await hand.ended(10) == 0
    assert 0.9 < time.monotonic() - at < 4
    await _left_and_handed_back(crew, run.id, journalled=[])
    assert crew.ended() == []
    other = await crew.start("guard")
    await crew.until_begun(run=run.id, pid=other.pid)
    assert await crew.value("select receipt from onward.message where msg_id = $1", run.id) == 2


async def test_a_second_signal_stops_at_once(crew: Crew) -> None:
    for second in (signal.SIGTERM, signal.SIGINT):
        hand = await crew.start("guard", grace="60s")
        run = await crew.client.start("guard", "gate")
        await crew.until_begun(run=run.id, pid=hand.pid)
        await _told_to_stop(crew, hand)
        at = hand.send(second)
        assert await hand.ended(10) == 0
        assert time.monotonic() - at < 3
        await _left_and_handed_back(crew, run.id, journalled=[])
        await run.cancel()


async def test_a_thread_that_is_stuck_does_not_keep_the_process_alive(crew: Crew) -> None:
    hand = await crew.start("guard-in-a-thread", grace="1s")
    runs = await crew.client.start_many("guard-in-a-thread", [Start("never") for _ in range(2)])
    for run in runs:
        await crew.until_begun(run=run.id)
    at = await _told_to_stop(crew, hand)
    assert await hand.ended(10) == 0
    assert time.monotonic() - at < 4
    for run in runs:
        await _left_and_handed_back(crew, run.id, journalled=[])


async def _told_to_stop(crew: Crew, hand: Hand) -> float:
    """SIGTERM, and it has heard it: what is started now is not claimed. -> when"""
    at = hand.send(signal.SIGTERM)
    heard = crew.folder / f"stopping-{hand.pid}"

    async def has_heard() -> bool:
        return heard.exists()

    await until(has_heard)
    return at


async def _left_and_handed_back(crew: Crew, run_id: str, journalled: list[str]) -> None:
    assert await crew.sql("select worker_id from onward.worker") == []
    assert await crew.value("select owner from onward.message where msg_id = $1", run_id) is None
    assert await crew.value("select visible_at <= onward.now() from onward.message where msg_id = $1", run_id)
    names = await crew.sql("select name from onward.step where run_id = $1 order by seq", run_id)
    assert [name for (name,) in names] == journalled
