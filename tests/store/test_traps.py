"""The traps of READ COMMITTED and of half-dead workers, each forced on a real Postgres.

`model/engine_model.py` takes one rule after the other away from the protocol and finds the shortest way to the
damage. Each test here goes such a way, with one side held where the model holds it. At the end of the file the rules
are taken away from the shipped functions too, and the tests must fail.

Not here, because they are rules of the Python worker: a run's batches on two lanes, the end sent while the last step
is in flight, dropping a run after `conflict` without a release.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple
from uuid import UUID, uuid4

import asyncpg
import pytest

from onward.store.handouts import Ask, Verdict, WorkerDead
from onward.store.runs import Started
from store.stage import Actor, Stage, Worker, ask, end, paths, retry, run, sleep, step, wait

ALONE_AND_TOGETHER = (["a"], ["a", "b"])
"""Steps of one batch: a single one has a function of its own."""

# ---- what is read behind a lock --------------------------------------------------------------------------


async def test_a_signal_sees_the_wait_of_the_suspension_that_it_waited_for(stage: Stage) -> None:
    """Model: signal locks and matches in one statement."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    async with worker.open():
        assert (await worker.ask(out, "suspend", wait("e"))).word == "suspended"
        sent = await stage.blocked(client.signal(out.run_id), client, by=worker)
    assert await sent == "resolved"
    [again] = await worker.claim()
    assert paths(again.rows) == ["e"]


async def test_a_claim_sees_all_that_was_journalled_before_it_got_the_lock(stage: Stage) -> None:
    """Model: claim locks and reads the journal in one statement."""
    # The late claim stands still in its locking statement, at `order by random()`. The clock steps back meanwhile,
    # so that what becomes due later is due for it too.
    await stage.root.execute("create schema stall")
    await stage.root.execute(
        "create function stall.random() returns float8 language sql volatile as "
        "'select 0.0::float8 from (select pg_advisory_xact_lock(1)) locked'"
    )
    late, worker, holder = await stage.worker(search_path="stall, pg_catalog"), await stage.worker(), stage.root
    run_id = await stage.root.new()
    await stage.move_clock(3600)
    await holder.execute("select pg_advisory_lock(1)")
    claim = await stage.blocked(late.claim(), late, by=holder)
    await stage.move_clock(0)
    [out] = await worker.claim()
    assert await worker.step(out, "a") == "ok"
    assert (await worker.ask(out, "suspend", wait("e"), rows=1)).word == "suspended"
    assert await stage.root.signal(run_id) == "resolved"
    await holder.execute("select pg_advisory_unlock(1)")
    [again] = await claim
    assert (again.receipt, paths(again.rows)) == (2, ["a", "e"])


async def test_a_suspension_sees_the_signal_that_it_waited_for(stage: Stage) -> None:
    """Model: suspend does not look at the buffer."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    async with client.open():
        assert await client.signal(out.run_id) == "buffered"
        asked = await stage.blocked(worker.ask(out, "suspend", wait("e")), worker, by=client)
    answer = await asked
    assert (answer.word, paths(answer.rows)) == ("ok", ["e"])
    message = await stage.message(out.run_id)
    assert message["owner"] == worker.id


async def test_two_starts_with_one_key_make_one_run(stage: Stage) -> None:
    """Model: duplicate start, the key looked up in the inserting statement."""
    first, second = await stage.client(), await stage.client()
    async with first.open():
        [one] = await first.start(run(key="k", data=b"1"))
        task = await stage.blocked(second.start(run(key="k", data=b"1"), run(key="k", data=b"2")), second, by=first)
    assert await task == [Started(one.run_id, True), Started(one.run_id, False)]
    assert await stage.root.fetchval("select count(*) from onward.message") == 1


async def test_a_start_that_waited_for_one_that_failed_makes_the_run(stage: Stage) -> None:
    """The other end of the same wait."""
    first, second = await stage.client(), await stage.client()
    transaction = first.open()
    await transaction.start()
    await first.start(run(key="k"))
    mine = run(key="k")
    task = await stage.blocked(second.start(mine), second, by=first)
    await transaction.rollback()
    assert await task == [Started(mine.run_id, True)]


# ---- who journals, and in which order ----------------------------------------------------------------------


async def test_only_the_owners_lane_journals_into_a_hot_run(stage: Stage) -> None:
    """Model: signal journals into a hot run."""
    worker, client, gate = await stage.worker(), await stage.client(), await stage.client()
    out = await stage.hot(worker)
    await worker.ask(out, "register", wait("e"))
    async with gate.open():
        await gate.execute("select from onward.lane for update")
        stepped = await stage.blocked(worker.step(out, "a"), worker, by=gate)
        assert await client.signal(out.run_id) == "resolved"
    assert await stepped == "ok"
    assert await stage.journal(out.run_id) == ["a"], "what the body was told first stands first"
    answer = await worker.ask(out, "register", wait("e"), rows=1)
    assert paths(answer.rows) == ["e"]
    assert await stage.journal(out.run_id) == ["a", "e"]


async def test_a_wait_is_answered_while_other_branches_run(stage: Stage) -> None:
    """Model: waits are registered at suspension only. (That the worker registers them is tested with the worker.)"""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    async with worker.open():
        answer = await worker.ask(out, "register", wait("e"))
        assert (answer.word, [w.path for w in answer.waits]) == ("ok", ["e"])
        sent = await stage.blocked(client.signal(out.run_id), client, by=worker)
    assert await sent == "resolved"
    assert await worker.news(out) == ["due"]
    answer = await worker.ask(out, "register", wait("e"))
    assert paths(answer.rows) == ["e"]
    message = await stage.message(out.run_id)
    assert message["owner"] == worker.id


async def test_a_suspension_keeps_the_run_while_nobody_has_read_a_signal(stage: Stage) -> None:
    """Model: a suspend lets go past a signal that nobody has read."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    sent, _ = await client.signal_outside(out.run_id)
    answer = await worker.ask(out, "suspend", wait("e", match=b'{"k": 1}'))
    assert (answer.word, [(u.signal_id, u.match) for u in answer.undecided]) == ("ok", [(sent, '{"k": 1}')])
    assert answer.rows == []
    await worker.calls.judge(out.run_id, [Verdict(sent, '{"k": 1}', True)])
    answer = await worker.ask(out, "suspend", wait("e", match=b'{"k": 1}'))
    assert (paths(answer.rows), answer.undecided) == (["e"], [])


async def test_a_signal_that_somebody_has_to_read_makes_the_run_due(stage: Stage) -> None:
    """Model: a signal that somebody has to read wakes nobody."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    assert (await worker.ask(out, "suspend", wait("e", match=b'{"k": 1}'))).word == "suspended"
    assert (await client.signal_outside(out.run_id))[1] == "buffered"
    assert len(await worker.claim()) == 1


async def test_nothing_is_settled_past_a_signal_that_nobody_has_read(stage: Stage) -> None:
    """An older signal goes before a newer one; one that does not fit lets the newer one through."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    sent, _ = await client.signal_outside(out.run_id)
    await client.signal(out.run_id, payload=b'{"k": 1}')
    wanted = wait("e", match=b'{"k": 1}')
    assert (await worker.ask(out, "register", wanted)).rows == []
    await worker.calls.judge(out.run_id, [Verdict(sent, '{"k": 1}', False)])
    answer = await worker.ask(out, "register", wanted)
    assert [(row.path, row.output) for row in answer.rows] == [("e", b'{"k": 1}')]


async def test_a_register_stands_before_the_steps_of_its_batch(stage: Stage) -> None:
    """Model: a register settles behind steps of its batch."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    async with client.open():
        await client.signal(out.run_id)
        batch = worker.commit(ask(out, "register", wait("e")), step(out, "a"))
        sent = await stage.blocked(batch, worker, by=client)
    answers = await sent
    assert paths(answers.asks[0].rows) == ["e"]
    assert answers.results is None
    assert await stage.journal(out.run_id) == ["e", "a"]


async def test_a_suspension_takes_one_signal_and_lets_the_body_react(stage: Stage) -> None:
    """Model: a settle journals every signal that matches."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    race = wait("x1", match=b'{"n":1}'), wait("y1", match=b'{"n":2}')
    async with client.open():
        await client.signals((out.run_id, "e", b'{"n":2}'), (out.run_id, "e", b'{"n":1}'))
        asked = await stage.blocked(worker.ask(out, "suspend", *race), worker, by=client)
    answer = await asked
    assert (answer.word, paths(answer.rows)) == ("ok", ["x1"])
    assert await worker.news(out) == ["due"], "the other signal is still there"
    answer = await worker.ask(out, "suspend", wait("y2", match=b'{"n":2}'), rows=1)
    assert paths(answer.rows) == ["y2"], "the wait that was given up has not swallowed it"


async def test_a_signal_that_is_there_goes_before_a_clock(stage: Stage) -> None:
    """Model: a settle lets a clock go before a signal."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    await worker.ask(out, "register", sleep("s", 10), wait("e", seconds=10))
    await stage.move_clock(11)
    async with client.open():
        await client.signal(out.run_id)
        asks = worker.ask(out, "suspend", sleep("s", 10), wait("e", seconds=10))
        asked = await stage.blocked(asks, worker, by=client)
    answer = await asked
    assert (answer.word, paths(answer.rows)) == ("ok", ["e"])
    assert answer.rows[0].output == b"1"
    assert list(await stage.pendings(out.run_id)) == ["s"]


async def test_a_wait_that_is_asked_for_again_keeps_its_deadline(stage: Stage) -> None:
    """Model: a wait registered again gets a new deadline."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    x, y = wait("x", match=b"1"), wait("y", match=b"2", seconds=60)
    async with client.open():
        await client.signal(out.run_id, payload=b"1")
        asked = await stage.blocked(worker.ask(out, "suspend", x, y), worker, by=client)
    answer = await asked
    assert (answer.word, paths(answer.rows), answer.waits[0].seconds) == ("ok", ["x"], 60)
    deadline = (await stage.pendings(out.run_id))["y"]["deadline"]
    await stage.move_clock(20)
    answer = await worker.ask(out, "suspend", y, rows=1)
    assert answer.word == "suspended"
    assert answer.waits[0].seconds == pytest.approx(40, abs=5)
    assert (await stage.pendings(out.run_id))["y"]["deadline"] == deadline
    message = await stage.message(out.run_id)
    assert message["visible_at"] == deadline


async def test_a_claim_settles_only_what_was_suspended(stage: Stage) -> None:
    """Model: claim settles a run that was not suspended."""
    worker, other, client = await stage.worker(), await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    await worker.ask(out, "register", wait("e1"), sleep("s", 10))
    await stage.move_clock(11)
    answer = await worker.ask(out, "register", wait("e1"), sleep("s", 10))
    assert paths(answer.rows) == ["s"]  # the body gives e1 up, and its worker dies before it can say so
    await stage.lapse(worker)
    async with client.open():
        assert await client.signal(out.run_id) == "resolved"
        reaped = await stage.blocked(other.reap(), other, by=client)
    assert await reaped == 1
    [again] = await other.claim()
    assert paths(again.rows) == ["s"]
    answer = await other.ask(again, "suspend", wait("e2"), rows=1)
    assert paths(answer.rows) == ["e2"], "the signal went to the wait that the body really waits for"


async def test_a_claim_settles_nothing_for_a_run_that_was_handed_out_since_it_was_suspended(stage: Stage) -> None:
    """Its body went on, and its worker died: it may have given up a wait that it was suspended with."""
    worker, other = await stage.worker(), await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", wait("e1"), sleep("s", 10))
    await stage.move_clock(11)
    [again] = await worker.claim()
    assert paths(again.rows) == ["s"]
    await stage.lapse(worker)
    assert await stage.root.signal(out.run_id) == "resolved"
    await other.reap()
    [found] = await other.claim()
    assert paths(found.rows) == ["s"]


async def test_a_back_off_whose_step_was_journalled_is_gone(stage: Stage) -> None:
    """The worker's list may still hold it: its result stood behind the last register."""
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "register", retry("f", 60))
    assert await worker.step(out, "f") == "ok"
    await worker.ask(out, "register", retry("f", 60), rows=1)
    assert await stage.pendings(out.run_id) == {}


async def test_a_reaper_waits_for_no_parent_of_a_poisoned_run(stage: Stage) -> None:
    """It holds the child's lock, and waiting for the parent's could be out of order."""
    parents, worker, client = await stage.worker("p@1"), await stage.worker(), await stage.client()
    parent = await stage.hot(parents, workflow="p")
    child = await stage.hot(worker, parent=parent.run_id, call="invoke")
    await stage.root.execute("update onward.message set deaths = 4, executing = true where msg_id = $1", child.run_id)
    reaper = await stage.client()
    await reaper.execute("set lock_timeout = '1s'")
    async with client.open():
        await client.execute("select 1 from onward.message where msg_id = $1 for update", parent.run_id)
        await reaper.fetch("select onward.bury($1, true)", worker.id)
    assert (await stage.root.describe(child.run_id)).status == "failed"


# ---- batches whose outcome is unknown ------------------------------------------------------------------------


async def test_a_repeated_batch_knows_its_own_rows(stage: Stage) -> None:
    """Model: repeated commit meets its own row: `lost`."""
    for names in ALONE_AND_TOGETHER:
        worker = await stage.worker()
        copy, out = await stage.copy(worker), await stage.hot(worker)
        async with worker.open():
            await worker.steps(out, *names, no=1)
            again = await stage.blocked(copy.steps(out, *names, no=2), copy, by=worker)
        assert await again == ["ok"] * len(names)
        assert await stage.journal(out.run_id) == names
        answers = await worker.commit(*[step(out, name) for name in names], no=3)
        rows = await stage.root.fetch("select completed_at from onward.step where run_id = $1 order by seq", out.run_id)
        assert answers.times == [row["completed_at"] for row in rows]  # what a replay will say


async def test_a_copy_that_arrives_late_is_void(stage: Stage) -> None:
    """Model: late copy of a batch after a broken connection."""
    worker = await stage.worker()
    copy, out = await stage.copy(worker), await stage.hot(worker)
    async with copy.open():
        await copy.commit(ask(out, "register", wait("e")), no=2)
        late = await stage.blocked(worker.commit(ask(out, "suspend", wait("e")), no=1), worker, by=copy)
    with pytest.raises(WorkerDead):
        await late
    message = await stage.message(out.run_id)
    assert message["owner"] == worker.id


async def test_a_hand_out_of_the_same_worker_that_is_over_takes_nothing(stage: Stage) -> None:
    """The worker owns the run again, under another receipt: only what that one sends may be journalled."""
    worker = await stage.worker()
    over, neighbour = await stage.hot(worker), await stage.hot(worker)
    await worker.ask(over, "release")
    [again] = await worker.claim()
    answers = await worker.commit(step(over, "a"), step(neighbour, "a"))
    assert answers.results == ["lost", "ok"]
    assert await worker.step(over, "b") == "lost"
    answers = await worker.commit(step(over, "c"), step(again, "d"), step(neighbour, "b"))
    assert answers.results == ["lost", "ok", "ok"]
    assert await stage.journal(over.run_id) == ["d"]
    assert (await worker.ask(over, "release")).word == "lost"
    assert (await stage.message(over.run_id))["owner"] == worker.id


async def test_a_step_that_arrives_late_is_void(stage: Stage) -> None:
    """Model: late copy of a batch after a broken connection."""
    worker = await stage.worker()
    copy, out = await stage.copy(worker), await stage.hot(worker)
    async with copy.open():
        await copy.steps(out, "b", no=2)
        late = await stage.blocked(worker.steps(out, "a", no=1), worker, by=copy)
    with pytest.raises(WorkerDead):
        await late
    assert await stage.journal(out.run_id) == ["b"]


async def test_an_end_that_arrives_late_is_void(stage: Stage) -> None:
    """Model: late copy of a batch after a broken connection."""
    worker = await stage.worker()
    copy, out = await stage.copy(worker), await stage.hot(worker)
    async with copy.open():
        await copy.commit(ask(out, "register", wait("e")), no=2)
        late = await stage.blocked(worker.commit(end(out), no=1), worker, by=copy)
    with pytest.raises(WorkerDead):
        await late
    assert (await stage.root.describe(out.run_id)).status == "running"


async def test_a_repeated_register_settles_nothing_behind_rows_that_its_sender_did_not_know(stage: Stage) -> None:
    """Model: a repeated register settles behind lost answers."""
    worker, client = await stage.worker(), await stage.client()
    copy, out = await stage.copy(worker), await stage.hot(worker)
    batch = ask(out, "register", wait("e")), step(out, "a")
    async with worker.open():
        await worker.commit(*batch, no=1)  # whose answer is lost
        again = await stage.blocked(copy.commit(*batch, no=2), copy, by=worker)
        sent = await stage.blocked(client.signal(out.run_id), client, by=worker)
    assert await sent == "resolved"
    await again
    answers = await copy.commit(*batch, no=3)
    assert answers.asks[0].word == "stale"
    assert await stage.journal(out.run_id) == ["a"], "a decided the race before the signal came"
    assert await worker.news(out) == ["due"]


async def test_a_repeated_suspend_settles_nothing_behind_rows_that_its_sender_did_not_know(stage: Stage) -> None:
    """Model: a repeated suspend settles behind lost answers."""
    worker = await stage.worker()
    copy, out = await stage.copy(worker), await stage.hot(worker)
    race = wait("x1", match=b"1"), wait("y1", match=b"2")
    await stage.root.signals((out.run_id, "e", b"1"), (out.run_id, "e", b"2"))
    async with worker.open():
        await worker.commit(ask(out, "suspend", *race), no=1)  # whose answer is lost
        again = await stage.blocked(copy.commit(ask(out, "suspend", *race), no=2), copy, by=worker)
    [answer] = (await again).asks
    assert (answer.word, paths(answer.rows)) == ("stale", ["x1"])
    assert await stage.journal(out.run_id) == ["x1"]
    message = await stage.message(out.run_id)
    assert message["owner"] == worker.id


# ---- workers that are declared dead --------------------------------------------------------------------------


async def test_reaping_waits_for_the_batch_in_flight(stage: Stage) -> None:
    """Model: receipt fence alone, no gate; a racing body."""
    for names in ALONE_AND_TOGETHER:
        worker, other, reaper = await stage.worker(), await stage.worker(), await stage.worker()
        out = await stage.hot(worker)
        await stage.lapse(worker)
        async with worker.open():
            await worker.steps(out, *names)
            reaped = await stage.blocked(reaper.reap(), reaper, by=worker)
            assert await other.claim() == []
        assert await reaped == 1
        [again] = await other.claim()
        assert (again.receipt, paths(again.rows)) == (2, names)


async def test_a_batch_that_waited_for_the_reaper_is_lost(stage: Stage) -> None:
    """The other order: receipt fence alone, no gate."""
    for names in ALONE_AND_TOGETHER:
        worker, reaper = await stage.worker(), await stage.worker()
        out = await stage.hot(worker)
        await stage.lapse(worker)
        async with reaper.open():
            assert await reaper.reap() == 1
            late = await stage.blocked(worker.steps(out, *names), worker, by=reaper)
        with pytest.raises(WorkerDead):
            await late
        assert await stage.journal(out.run_id) == []
        await stage.root.runs.cancel(out.run_id)


async def test_a_worker_that_is_being_reaped_is_handed_nothing(stage: Stage) -> None:
    """Model: reaper frees only those it kills; claim unchecked."""
    worker, reaper = await stage.worker(), await stage.worker()
    run_id = await stage.root.new()
    await stage.lapse(worker)
    async with reaper.open():
        await reaper.reap()
        claim = await stage.blocked(worker.claim(), worker, by=reaper)
    with pytest.raises(WorkerDead):
        await claim
    [out] = await reaper.claim()
    assert (out.run_id, out.receipt) == (run_id, 1)


async def test_no_worker_is_reaped_in_the_middle_of_its_claim(stage: Stage) -> None:
    """Model: reaper frees only those it kills; claim unchecked."""
    worker, reaper = await stage.worker(), await stage.worker()
    await stage.root.new()
    await stage.lapse(worker)
    async with worker.open():
        assert len(await worker.claim()) == 1
        assert await reaper.reap() == 0
    assert await worker.heartbeat(), "it was left alone"
    await stage.lapse(worker)
    assert await reaper.reap() == 1


async def test_a_worker_that_beats_while_the_reaper_looks_is_left_alone(stage: Stage) -> None:
    """The reaper checks again under the lock, and does not wait for it."""
    worker, reaper = await stage.worker(), await stage.worker()
    await stage.lapse(worker)
    async with worker.open():
        await worker.heartbeat()
        assert await reaper.reap() == 0
    assert await reaper.reap() == 0
    assert await worker.heartbeat()


async def test_what_is_owned_by_nobody_alive_becomes_free(stage: Stage) -> None:
    """Model: reaper frees only those it kills; claim unchecked."""
    worker, reaper, client = await stage.worker(), await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    await stage.root.execute("update onward.message set owner = 999")
    async with client.open():
        await client.signal(out.run_id)
        await client.runs.set_paused(out.run_id, False)
        assert await reaper.reap() == 0, "a message that somebody holds is left for the next sweep"
    assert await reaper.reap() == 1
    [again] = await reaper.claim()
    assert (again.run_id, again.receipt) == (out.run_id, 2)


async def test_who_meets_anothers_row_is_told_and_can_let_go(stage: Stage) -> None:
    """Model: no gate; the owner in a conflict is told `lost`; and: no gate; `conflict`, but no release."""
    ghost_row = (
        "insert into onward.step (run_id, name, kind, output, attempt, receipt, started_at, completed_at) "
        "values ($1, 'a', 'run', '0', 1, 77, now(), now())"
    )
    for names in ALONE_AND_TOGETHER:
        worker, other, ghost = await stage.worker(), await stage.worker(), await stage.client()
        out = await stage.hot(worker)
        async with ghost.open():
            await ghost.execute(ghost_row, out.run_id)
            stepped = await stage.blocked(worker.steps(out, *names), worker, by=ghost)
        assert await stepped == ["conflict", "ok"][: len(names)]
        assert (await worker.ask(out, "release")).word == "ok"
        [again] = await other.claim()
        assert (again.rows[0].path, again.rows[0].output) == ("a", b"0")


async def test_an_end_that_does_not_know_every_row_is_refused(stage: Stage) -> None:
    """Model: the end is sent with the last step in flight. (That the worker waits is tested with the worker.)"""
    for runs in (1, 2):  # a single end has a function of its own
        worker = await stage.worker()
        copy, outs = await stage.copy(worker), [await stage.hot(worker) for _ in range(runs)]
        async with worker.open():
            await worker.step(outs[0], "a")
            ended = await stage.blocked(copy.commit(*[end(out, rows=0) for out in outs]), copy, by=worker)
        assert (await ended).ends == ["conflict", "ok"][:runs]
        assert await worker.end(outs[0], rows=1) == "ok"


# ---- people ------------------------------------------------------------------------------------------------


async def test_a_cancel_is_acknowledged_when_nothing_more_can_be_journalled(stage: Stage) -> None:
    """Model: cancel acknowledged without the barrier."""
    for names in ALONE_AND_TOGETHER:
        worker, client = await stage.worker(), await stage.client()
        out = await stage.hot(worker)
        async with worker.open():
            await worker.steps(out, *names)
            cancelled = await stage.blocked(client.runs.cancel(out.run_id), client, by=worker)
        assert await cancelled == "cancelled"
        assert await worker.step(out, "c") == "cancelled"
        assert await worker.steps(out, "d", "e") == ["cancelled"] * 2
        assert await stage.journal(out.run_id) == names


async def test_a_repeated_cancel_waits_for_the_batch_in_flight_too(stage: Stage) -> None:
    """Repeating repeats both halves: the answer to the first may have been lost between them."""
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    async with worker.open():
        await worker.step(out, "a")
        await stage.root.fetch("select onward.cancel('t', $1)", out.run_id)  # whose answer is lost
        cancelled = await stage.blocked(client.runs.cancel(out.run_id), client, by=worker)
    assert await cancelled == "cancelled"


async def test_a_signal_does_not_undo_a_pause(stage: Stage) -> None:
    """Model: pause is a far visible_at."""
    worker, client, other = await stage.worker(), await stage.client(), await stage.client()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", wait("e"))
    async with client.open():
        assert await client.runs.set_paused(out.run_id, True)
        sent = await stage.blocked(other.signal(out.run_id), other, by=client)
    assert await sent == "resolved"
    assert await worker.claim() == []
    assert await client.runs.set_paused(out.run_id, False)
    [again] = await worker.claim()
    assert paths(again.rows) == ["e"]


# ---- locks in order ----------------------------------------------------------------------------------------


async def two_runs(stage: Stage, worker: Worker) -> tuple[UUID, UUID]:
    """Both owned by the worker; the lower id first."""
    low, high = sorted([uuid4(), uuid4()])
    await stage.root.start(run(run_id=high), run(run_id=low))
    assert len(await worker.claim()) == 2
    return low, high


async def check_order(stage: Stage, low: UUID, high: UUID, actor: Actor, act: Callable[[], Awaitable[object]]) -> None:
    """While it waits for the lower one, it holds nothing of the higher one."""
    holder, other = await stage.client(), await stage.client()
    lock = "select from onward.message where msg_id = $1 for update nowait"

    async def acting() -> object:
        return await act()

    async with holder.open():
        assert await holder.fetchrow(lock, low) is not None
        done = await stage.blocked(acting(), actor, by=holder)
        assert await other.fetchrow(lock, high) is not None
    await done


async def test_a_batch_locks_messages_in_order(stage: Stage) -> None:
    """Model: message rows locked in any order."""
    worker = await stage.worker()
    low, high = await two_runs(stage, worker)
    batch = [Ask(run_id, 1, "suspend", 0, None, (wait("e"),)) for run_id in (high, low)]
    await check_order(stage, low, high, worker, lambda: worker.commit(*batch))


async def test_an_end_locks_its_parent_in_order(stage: Stage) -> None:
    """Model: message rows locked in any order."""
    parents, worker = await stage.worker("p@1"), await stage.worker()
    low, high = sorted([uuid4(), uuid4()])
    await stage.root.start(run(run_id=low), workflow="p")
    await parents.claim()
    await stage.root.start(run(run_id=high), parent=low, call="invoke")
    [out] = await worker.claim()
    await check_order(stage, low, high, worker, lambda: worker.commit(end(out)))


async def test_a_signal_locks_messages_in_order(stage: Stage) -> None:
    """Model: message rows locked in any order."""
    worker, client = await stage.worker(), await stage.client()
    low, high = await two_runs(stage, worker)
    await check_order(stage, low, high, client, lambda: client.signals((high, "e", b"1"), (low, "e", b"1")))


async def test_a_cancel_locks_messages_in_order(stage: Stage) -> None:
    """Model: message rows locked in any order."""
    client = await stage.client()
    low, high = sorted([uuid4(), uuid4()])
    await stage.root.start(run(run_id=low))
    await stage.root.start(run(run_id=high), parent=low, call="invoke")
    await check_order(stage, low, high, client, lambda: client.runs.cancel(high))


async def test_a_reaper_locks_messages_in_order(stage: Stage) -> None:
    """Model: message rows locked in any order."""
    worker, reaper = await stage.worker(), await stage.worker()
    low, high = await two_runs(stage, worker)
    await stage.lapse(worker)
    await check_order(stage, low, high, reaper, reaper.reap)


async def test_starts_take_their_keys_in_order(stage: Stage) -> None:
    """Model: message rows locked in any order; here unique keys."""
    first, second, third = await stage.client(), await stage.client(), await stage.client()
    async with first.open():
        await first.start(run(key="a"))
        task = await stage.blocked(second.start(run(key="b"), run(key="a")), second, by=first)
        [there] = await third.start(run(key="b"))
    b, _ = await task
    assert b == there, "it had not taken b while it waited for a"


# ---- each rule taken away breaks its test --------------------------------------------------------------------


class Weak(NamedTuple):
    """A rule taken away: replacements in a shipped function, and the law that must break."""

    law: Callable[[Stage], Awaitable[None]]
    function: str
    replacements: tuple[tuple[str, str], ...]


def weak(law: Callable[[Stage], Awaitable[None]], function: str, *replacements: tuple[str, str]) -> Weak:
    return Weak(law, function, replacements)


BACKWARDS = ("order by msg_id for update", "order by msg_id desc for update")

WEAKENED = {
    "signal locks and matches in one statement": weak(
        test_a_signal_sees_the_wait_of_the_suspension_that_it_waited_for,
        "signal",
        ("v_item record;", "v_item record; v_waiting uuid[];"),
        (
            "perform 1 from onward.message where msg_id = any (p_runs) and tenant = p_tenant "
            "order by msg_id for update;",
            "select array_agg(p.run_id) into v_waiting from (select msg_id from onward.message "
            "where msg_id = any (p_runs) and tenant = p_tenant order by msg_id for update) locked "
            "join onward.pending p on p.run_id = locked.msg_id;",
        ),
        ("case when onward.is_answer(", "case when v_item.run = any (v_waiting) and onward.is_answer("),
    ),
    "claim locks and reads the journal in one statement": weak(
        test_a_claim_sees_all_that_was_journalled_before_it_got_the_lock,
        "claim",
        ("v_new boolean;", "v_new boolean; v_top bigint;"),
        (
            "bool_and(due.receipt = 0) into v_ids, v_mine, v_exact, v_open, v_new",
            "bool_and(due.receipt = 0), (select coalesce(max(s.seq), 0) from onward.step s) "
            "into v_ids, v_mine, v_exact, v_open, v_new, v_top",
        ),
        ("where s.run_id = c.id and s.seq >", "where s.run_id = c.id and s.seq <= v_top and s.seq >"),
    ),
    "claim takes a run for a fresh one by what it read before the lock": weak(
        test_a_claim_sees_all_that_was_journalled_before_it_got_the_lock,
        "claim",
        (
            "bool_and(due.receipt = 0)",
            "bool_and((select x.receipt from onward.message x where x.msg_id = due.msg_id) = 0)",
        ),
    ),
    "suspend does not look at the buffer": weak(
        test_a_suspension_sees_the_signal_that_it_waited_for,
        "commit_asks",
        ("perform onward.settle(case when", "perform (case when"),
        (", p_now); end if;", "); end if;"),
        ("or onward.is_due(w.run, p_now)", ""),
    ),
    "the key is looked up in the inserting statement": weak(
        test_two_starts_with_one_key_make_one_run,
        "start_runs",
        ("v_created bigint;", "v_created bigint; v_seen uuid[];"),
        (
            "select count(*) into v_created from inserted;",
            "select count(*), (select array_agg(x.run_id) from onward.run x) into v_created, v_seen from inserted;",
        ),
        ("limit 1) r on true", "limit 1) r on r.run_id = any (v_seen) or r.run_id = any (p_ids)"),
    ),
    "signal journals into a hot run": weak(
        test_only_the_owners_lane_journals_into_a_hot_run,
        "signal",
        ("v_wake := true;", "v_wake := true; perform onward.settle(array[v_item.run], onward.now());"),
    ),
    "a suspend lets go past a signal that nobody has read": weak(
        test_a_suspension_keeps_the_run_while_nobody_has_read_a_signal,
        "is_due",
        ("or exists (select 1 from onward.undecided(p_run))", ""),
    ),
    "a signal that somebody has to read wakes nobody": weak(
        test_a_signal_that_somebody_has_to_read_makes_the_run_due,
        "signal",
        ("if outcome in ('resolved', 'undecided') then", "if outcome = 'resolved' then"),
    ),
    "a settle goes past a signal that nobody has read": weak(
        test_nothing_is_settled_past_a_signal_that_nobody_has_read,
        "settle",
        ("where not exists (select 1 from onward.undecided(id))", ""),
    ),
    "waits are registered at suspension only": weak(
        test_a_wait_is_answered_while_other_branches_run,
        "commit_asks",
        (
            "coalesce(array_agg(m.msg_id) filter (where a.op in ('register', 'suspend')), '{}'),",
            "coalesce(array_agg(m.msg_id) filter (where a.op = 'suspend'), '{}'),",
        ),
    ),
    "asks stand behind the steps of their batch": weak(
        test_a_register_stands_before_the_steps_of_its_batch,
        "commit",
        (
            "if a_runs is not null then",
            "if s_runs is not null then perform onward.commit_steps(p_worker, at, s_held::uuid[], s_sum, "
            "s_runs::uuid[], s_receipts::bigint[], string_to_array(s_names, e'\\x1e'), s_kinds::text[], s_values, "
            "s_starts::integer[], s_sizes::integer[], s_attempts::integer[], s_micros::bigint[]); "
            "end if; if a_runs is not null then",
        ),
    ),
    "a settle journals every signal that matches": weak(
        test_a_suspension_takes_one_signal_and_lets_the_body_react,
        "settle",
        ("distinct on (p.run_id)", "distinct on (p.run_id, p.seq)"),
    ),
    "a settle lets clocks go with a signal": weak(
        test_a_signal_that_is_there_goes_before_a_clock,
        "settle",
        ("v_quiet := array_remove(v_quiet, v_wait.run_id);", ""),
    ),
    "a wait registered again gets a new deadline": weak(
        test_a_wait_that_is_asked_for_again_keeps_its_deadline,
        "commit_asks",
        ("on conflict do nothing", "on conflict (run_id, name) do update set deadline = excluded.deadline"),
    ),
    "claim settles a run that was not suspended": weak(
        test_a_claim_settles_only_what_was_suspended,
        "claim",
        ("array_agg(due.msg_id) filter (where due.cached_by is not null)", "array_agg(due.msg_id)"),
    ),
    "a repeated commit that meets its own row is refused": weak(
        test_a_repeated_batch_knows_its_own_rows,
        "step_word",
        ("case when s.receipt <> p_receipt then 'conflict'", "case when s.receipt > 0 then 'conflict'"),
    ),
    "a late copy is taken": weak(test_a_copy_that_arrives_late_is_void, "commit", ("and last_no < p_no", "")),
    "a late step is taken": weak(test_a_step_that_arrives_late_is_void, "commit_step", ("and last_no < p_no", "")),
    "a late end is taken": weak(test_an_end_that_arrives_late_is_void, "commit_end", ("and last_no < p_no", "")),
    "a repeated register settles behind lost answers": weak(
        test_a_repeated_register_settles_nothing_behind_rows_that_its_sender_did_not_know,
        "commit_asks",
        ("and a.rows <>", "and false and a.rows <>"),
    ),
    "a repeated suspend settles behind lost answers": weak(
        test_a_repeated_suspend_settles_nothing_behind_rows_that_its_sender_did_not_know,
        "commit_asks",
        ("and a.rows <>", "and false and a.rows <>"),
    ),
    "receipt fence alone, no gate": weak(
        test_reaping_waits_for_the_batch_in_flight,
        "bury",
        ("perform 1 from onward.lane where worker_id = p_worker order by lane for update;", ""),
        ("delete from onward.lane where worker_id = p_worker;", ""),
    ),
    "the lanes outlive their worker": weak(
        test_a_batch_that_waited_for_the_reaper_is_lost,
        "bury",
        ("delete from onward.lane where worker_id = p_worker;", ""),
    ),
    "claim unchecked": weak(
        test_a_worker_that_is_being_reaped_is_handed_nothing,
        "claim",
        ("raise exception 'worker % was declared dead', p_worker using errcode = 'OW001';", "null;"),
    ),
    "claim does not hold its worker": weak(
        test_no_worker_is_reaped_in_the_middle_of_its_claim,
        "claim",
        (
            "perform 1 from onward.worker where worker_id = p_worker for key share;",
            "perform 1 from onward.worker where worker_id = p_worker;",
        ),
    ),
    "the reaper takes a worker that somebody holds": weak(
        test_a_worker_that_beats_while_the_reaper_looks_is_left_alone,
        "reap",
        ("order by w.worker_id limit 1 for update skip locked;", "order by w.worker_id limit 1;"),
    ),
    "a claim leaves what it was suspended with": weak(
        test_a_claim_settles_nothing_for_a_run_that_was_handed_out_since_it_was_suspended,
        "claim",
        ("trouble = null, cached_by = null,", "trouble = null,"),
    ),
    "a settle keeps what was journalled": weak(
        test_a_back_off_whose_step_was_journalled_is_gone,
        "settle",
        (
            "delete from onward.pending p using onward.step s where p.run_id = any (p_runs) and s.run_id = p.run_id "
            "and s.name = p.name;",
            "",
        ),
    ),
    "poison waits for its parents": weak(
        test_a_reaper_waits_for_no_parent_of_a_poisoned_run,
        "fail_poison",
        ("for update of m skip locked", "for update of m"),
    ),
    "the fence of an ask looks at owners only": weak(
        test_a_hand_out_of_the_same_worker_that_is_over_takes_nothing,
        "commit_asks",
        (
            "where m.msg_id = a.run and m.receipt = a.receipt and m.owner is not distinct from p_worker;",
            "where m.msg_id = a.run and m.owner is not distinct from p_worker;",
        ),
    ),
    "the fence of a batch looks at owners only": weak(
        test_a_hand_out_of_the_same_worker_that_is_over_takes_nothing,
        "commit_steps",
        ("and sum(receipt) = p_sum", ""),
    ),
    "the fence of each step looks at owners only": weak(
        test_a_hand_out_of_the_same_worker_that_is_over_takes_nothing,
        "commit_steps",
        ("where m.receipt = i.receipt and", "where"),
    ),
    "the fence of a lone step looks at owners only": weak(
        test_a_hand_out_of_the_same_worker_that_is_over_takes_nothing,
        "commit_step",
        ("and receipt = p_receipt", ""),
    ),
    "the reaper frees only those it kills": weak(
        test_what_is_owned_by_nobody_alive_becomes_free,
        "reap",
        ("where m.owner is not null and not exists", "where false and not exists"),
    ),
    "the owner in a conflict is told `lost`": weak(
        test_who_meets_anothers_row_is_told_and_can_let_go, "step_word", ("then 'conflict'", "then 'lost'")
    ),
    "a release does not let go": weak(
        test_who_meets_anothers_row_is_told_and_can_let_go,
        "commit_asks",
        ("a.op in ('register', 'mark')", "a.op in ('register', 'mark', 'release')"),
    ),
    "an end does not count the rows": weak(
        test_an_end_that_does_not_know_every_row_is_refused,
        "commit_end",
        ("(select count(*) from onward.step where run_id = p_run) <> p_rows", "false"),
    ),
    "ends do not count the rows": weak(
        test_an_end_that_does_not_know_every_row_is_refused,
        "commit_ends",
        ("and i.rows = (select count(*) from onward.step s where s.run_id = i.run)", ""),
    ),
    "cancel is acknowledged without the barrier": weak(
        test_a_cancel_is_acknowledged_when_nothing_more_can_be_journalled,
        "await_lanes",
        ("order by lane for update", "order by lane"),
    ),
    "pause is a far visible_at": weak(
        test_a_signal_does_not_undo_a_pause,
        "set_paused",
        (
            "set paused = p_paused, visible_at = case when not p_paused and reason is not null "
            "then onward.now() else visible_at end",
            "set visible_at = case when p_paused then 'infinity' else onward.now() end",
        ),
    ),
    "a batch locks in any order": weak(test_a_batch_locks_messages_in_order, "commit", BACKWARDS),
    "an end locks in any order": weak(test_an_end_locks_its_parent_in_order, "commit_end", BACKWARDS),
    "a signal locks in any order": weak(test_a_signal_locks_messages_in_order, "signal", BACKWARDS),
    "a cancel locks in any order": weak(test_a_cancel_locks_messages_in_order, "cancel", BACKWARDS),
    "a reaper locks in any order": weak(
        test_a_reaper_locks_messages_in_order,
        "bury",
        ("order by m.msg_id for update", "order by m.msg_id desc for update"),
    ),
    "starts take their keys in any order": weak(
        test_starts_take_their_keys_in_order, "start_runs", ("from item order by key, id", "from item order by ord")
    ),
}

BROKEN = (AssertionError, asyncpg.LockNotAvailableError, WorkerDead, ValueError, pytest.fail.Exception)
"""How a law breaks: a check fails, a row is missing or too many, a lock cannot be had."""


@pytest.mark.parametrize("taken_away", WEAKENED.values(), ids=WEAKENED.keys())
async def test_each_rule_taken_away_breaks_its_law(stage: Stage, taken_away: Weak) -> None:
    await stage.weaken(taken_away.function, *taken_away.replacements)
    with pytest.raises(BROKEN):
        await taken_away.law(stage)
