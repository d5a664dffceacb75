"""The law of each SQL function: what it answers, that it may be repeated, what it leaves alone."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward.core.codec import searchable
from onward.store.handouts import Batch, HandOut, WorkerDead, hold_session
from onward.store.runs import ListQuery, NewSignal, Started
from store.stage import RETENTION, Client, Stage, Worker, ask, end, invoke, paths, retry, run, sleep, step, wait

# ---- start_runs ------------------------------------------------------------------------------------------


async def test_a_start_may_be_repeated(stage: Stage) -> None:
    again = run(data=b"1")
    assert await stage.root.start(again) == [Started(again.run_id, True)]
    assert await stage.root.start(again) == [Started(again.run_id, True)]
    other = run(run_id=again.run_id, data=b"2")
    assert await stage.root.start(other) == [Started(again.run_id, False)]
    assert await stage.root.fetchval("select count(*) from onward.message") == 1
    assert (await stage.root.describe(again.run_id)).input == b"1"


async def test_starts_are_answered_in_the_order_in_which_they_were_given(stage: Stage) -> None:
    there = await stage.root.new(key="b")
    runs = [run(key="c"), run(key="b"), run(), run(key="a"), run(key="b", data=b"9")]
    answers = await stage.root.start(*runs)
    assert [answer.run_id for answer in answers] == [runs[0].run_id, there, runs[2].run_id, runs[3].run_id, there]
    assert [answer.same for answer in answers] == [True, True, True, True, False]


async def test_one_key_twice_in_a_call_is_one_run(stage: Stage) -> None:
    one, two = await stage.root.start(run(key="k", data=b"1"), run(key="k", data=b"2"))
    assert one.run_id == two.run_id
    assert {one.same, two.same} == {True, False}


async def test_a_key_belongs_to_its_tenant_and_workflow(stage: Stage) -> None:
    other = await stage.client("other")
    ids = [
        await stage.root.new(key="k"),
        await stage.root.new(key="k", workflow="v"),
        await other.new(key="k"),
    ]
    assert len(set(ids)) == 3


async def test_a_key_is_kept_beyond_the_runs_end(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker, key="k")
    await worker.end(out)
    assert await stage.root.start(run(key="k")) == [Started(out.run_id, True)]
    assert await worker.claim() == []


async def test_an_ended_parent_starts_no_child(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    child = run()
    assert await stage.root.start(child, parent=out.run_id, call="invoke") == [Started(child.run_id, True)]
    await stage.root.runs.cancel(out.run_id)
    assert await stage.root.start(run(), run(), parent=out.run_id, call="start") == [Started(None, False)] * 2


async def test_a_start_and_the_cancel_of_its_parent_wait_for_each_other(stage: Stage) -> None:
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    async with worker.open():
        worker_as_client = Client(worker.session, "t")
        child = await worker_as_client.new(parent=out.run_id, call="invoke")
        cancelled = await stage.blocked(client.runs.cancel(out.run_id), client, by=worker)
    assert await cancelled == "cancelled"
    assert (await stage.root.describe(child)).status == "cancelled", "an invoked child goes with its parent"


async def test_a_start_without_a_version_takes_the_highest_that_lives(stage: Stage) -> None:
    await stage.worker("w@2")
    dead = await stage.worker("w@3")
    await stage.lapse(dead)
    run_id = await stage.root.new(version=None, retention=None)
    found = await stage.root.describe(run_id)
    assert (found.version, found.retention) == (2, timedelta(seconds=RETENTION))


async def test_a_delayed_start_is_not_due_before_its_time(stage: Stage) -> None:
    worker = await stage.worker()
    run_id = await stage.root.new(delay=60)
    assert await worker.claim() == []
    assert await worker.calls.next_due(worker.id) == pytest.approx(60, abs=5)
    await stage.move_clock(61)
    assert [out.run_id for out in await worker.claim()] == [run_id]


# ---- claim -----------------------------------------------------------------------------------------------


async def test_a_claim_hands_out_what_is_served_and_due_oldest_first(stage: Stage) -> None:
    worker = await stage.worker("w@1", "v@2")
    await stage.root.new(version=2)
    await stage.root.new("v", version=1)
    await stage.root.new("x")
    ids = [await stage.root.new("v", version=2) for _ in range(3)]
    assert [out.run_id for out in await worker.claim(2)] == ids[:2]
    assert [out.run_id for out in await worker.claim(2)] == ids[2:]
    assert await worker.claim(2) == []


async def test_a_hand_out_brings_input_and_identity(stage: Stage) -> None:
    worker = await stage.worker()
    run_id = await stage.root.new(data=b'{"a":1}')
    [out] = await worker.claim()
    assert out[:6] == (run_id, "t", "w", 1, 1, None)
    assert (out.input, out.deaths, out.partial, out.rows, out.back_offs) == (b'{"a":1}', 0, False, [], [])


async def test_two_claims_at_once_never_share_a_run_and_never_wait(stage: Stage) -> None:
    workers = [await stage.worker() for _ in range(4)]
    await stage.root.start(*[run() for _ in range(40)])
    async with workers[0].open():
        held = await workers[0].claim(10)
        others = await asyncio.gather(*[worker.claim(10) for worker in workers[1:]])
    ids = [out.run_id for outs in [held, *others] for out in outs]
    assert len(ids) == len(set(ids)) == 40


async def test_an_open_version_is_bound_at_the_first_claim_with_its_retention(stage: Stage) -> None:
    run_id = await stage.root.new(version=None, retention=None)
    assert (await stage.root.describe(run_id)).version is None
    worker = await stage.worker("w@1", "w@3")
    [out] = await worker.claim()
    assert out.version == 3
    found = await stage.root.describe(run_id)
    assert (found.version, found.retention) == (3, timedelta(seconds=RETENTION))
    await worker.ask(out, "release")
    assert await (await stage.worker("w@1")).claim() == [], "it stays with the version that it was bound to"


async def test_a_version_that_nobody_serves_yet_is_retained_by_default(stage: Stage) -> None:
    run_id = await stage.root.new(version=1, retention=None)
    worker = await stage.worker("w@1")
    await worker.claim()
    assert (await stage.root.describe(run_id)).retention == timedelta(days=30)


async def test_a_version_that_is_served_brings_its_retention(stage: Stage) -> None:
    await stage.worker("w@1")
    run_id = await stage.root.new(version=1, retention=None)
    assert (await stage.root.describe(run_id)).retention == timedelta(seconds=RETENTION)


async def test_the_last_owner_gets_the_rows_that_it_lacks_and_others_get_all(stage: Stage) -> None:
    worker, other = await stage.worker(), await stage.worker()
    out = await stage.hot(worker)
    await worker.step(out, "a")
    await worker.ask(out, "suspend", wait("e1"), rows=1)
    await stage.root.signal(out.run_id)
    [again] = await worker.claim()
    assert (again.receipt, again.partial, paths(again.rows)) == (2, True, ["e1"])
    await worker.ask(again, "suspend", wait("e2"), rows=2)
    await stage.root.signal(out.run_id)
    [last] = await other.claim()
    assert (last.receipt, last.partial, paths(last.rows)) == (3, False, ["a", "e1", "e2"])


async def test_a_hand_out_brings_back_offs_and_whether_they_are_over(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", retry("f", 10, attempt=2), retry("g", 60))
    await stage.move_clock(11)
    [again] = await worker.claim()
    assert [tuple(b) for b in again.back_offs] == [("f", 2, True), ("g", 1, False)]
    assert again.rows == []


async def test_a_paused_run_is_never_claimed(stage: Stage) -> None:
    worker = await stage.worker()
    run_id = await stage.root.new()
    assert await stage.root.runs.set_paused(run_id, True)
    assert await stage.root.runs.set_paused(run_id, True)
    assert await worker.claim() == []
    assert await worker.calls.next_due(worker.id) is None
    assert await stage.root.runs.set_paused(run_id, False)
    assert len(await worker.claim()) == 1


async def test_a_pause_does_not_move_a_deadline(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", sleep("s", 60))
    before = await stage.message(out.run_id)
    await stage.root.runs.set_paused(out.run_id, True)
    await stage.root.runs.set_paused(out.run_id, False)
    after = await stage.message(out.run_id)
    assert before["visible_at"] == after["visible_at"]


async def test_an_ended_or_unknown_run_cannot_be_paused(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.end(out)
    assert not await stage.root.runs.set_paused(out.run_id, True)
    assert not await stage.root.runs.set_paused(uuid4(), True)


# ---- commit: the lane, the answers ---------------------------------------------------------------------------


async def test_a_lanes_numbers_only_grow(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.steps(out, "a", "b", no=5)
    for number in (5, 4):
        with pytest.raises(WorkerDead):
            await worker.steps(out, f"c{number}", f"d{number}", no=number)
    await worker.steps(out, "e", no=9)
    assert await stage.journal(out.run_id) == ["a", "b", "e"]


async def test_a_lane_that_was_never_registered_takes_nothing(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    with pytest.raises(WorkerDead):
        await worker.copy(await stage.connect()).calls.commit(worker.id, 1, 1, Batch(results=[step(out)]))
    assert await stage.journal(out.run_id) == []


async def test_the_first_writer_wins(stage: Stage) -> None:
    worker, other = await stage.worker(), await stage.worker()
    out = await stage.hot(worker)
    assert await worker.step(out, "a", b"1") == "ok"
    assert await worker.step(out, "a", b"2") == "ok", "the row of one's own hand-out"
    await worker.ask(out, "release", rows=1)
    [again] = await other.claim()
    assert await other.step(again, "a", b"3") == "conflict"
    assert [row.output for row in await worker.calls.journal(out.run_id)] == [b"1"]


async def test_a_stale_worker_cannot_commit(stage: Stage) -> None:
    worker, other = await stage.worker(), await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "release")
    [again] = await other.claim()
    await stage.root.signal(out.run_id)
    answers = await worker.commit(ask(out, "register", wait("e")), step(out, "a"), end(out))
    assert (answers.asks[0].word, answers.results, answers.ends) == ("lost", ["lost"], ["lost"])
    assert (await worker.step(out, "a"), await worker.end(out)) == ("lost", "lost")
    for op in ("suspend", "release", "park", "mark"):
        assert (await worker.ask(out, op)).word == "lost"
    assert await stage.journal(out.run_id) == []
    assert await stage.pendings(out.run_id) == {}
    message = await stage.message(out.run_id)
    assert (message["owner"], message["receipt"]) == (other.id, again.receipt)


async def test_an_ended_run_takes_nothing(stage: Stage) -> None:
    worker = await stage.worker()
    ended, cancelled = await stage.hot(worker), await stage.hot(worker)
    assert await worker.end(ended) == "ok"
    await stage.root.runs.cancel(cancelled.run_id)
    outs = (ended, cancelled)
    answers = await worker.commit(
        *[ask(out, "register", wait("e")) for out in outs],
        *[step(out) for out in outs],
        *[end(out) for out in outs],
    )
    assert [answer.word for answer in answers.asks] == ["gone", "cancelled"]
    assert answers.results == ["gone", "cancelled"]
    assert answers.ends == ["gone", "cancelled"]
    assert [await worker.end(out) for out in outs] == ["gone", "cancelled"]
    assert await stage.root.fetchval("select count(*) from onward.step") == 0
    assert await stage.root.fetchval("select count(*) from onward.pending") == 0


async def test_one_lost_run_does_not_keep_its_neighbours(stage: Stage) -> None:
    worker, other = await stage.worker(), await stage.worker()
    outs = [await stage.hot(worker) for _ in range(3)]
    await worker.ask(outs[1], "release")
    await other.claim()
    answers = await worker.commit(*[step(out, "a") for out in outs])
    assert answers.results == ["ok", "lost", "ok"]
    answers = await worker.commit(*[end(out, rows=1) for out in outs])
    assert answers.ends == ["ok", "lost", "ok"]


async def test_asks_are_answered_in_the_order_in_which_they_were_given(stage: Stage) -> None:
    worker = await stage.worker()
    outs = [await stage.hot(worker) for _ in range(4)]
    await stage.root.signal(outs[2].run_id)
    answers = await worker.commit(
        ask(outs[3], "suspend", wait("e")),
        ask(outs[2], "suspend", wait("e")),
        ask(outs[1], "register", wait("e"), sleep("s", 5)),
        ask(outs[0], "release"),
    )
    assert [answer.word for answer in answers.asks] == ["suspended", "ok", "ok", "ok"]
    assert [paths(answer.rows) for answer in answers.asks] == [[], ["e"], [], []]
    assert [[w.path for w in answer.waits] for answer in answers.asks] == [["e"], [], ["e", "s"], []]


async def test_a_step_alone_is_answered_as_among_others(stage: Stage) -> None:
    worker, other = await stage.worker(), await stage.worker()
    fine, again, paused, conflict, lost, ended, cancelled = outs = [await stage.hot(worker) for _ in range(7)]
    await worker.steps(again, "a", "b")
    await stage.root.runs.set_paused(paused.run_id, True)
    await worker.ask(lost, "release")
    await other.claim()
    await worker.end(ended)
    await stage.root.runs.cancel(cancelled.run_id)
    await worker.steps(conflict, "a", "b")
    await stage.root.execute("update onward.step set receipt = 9 where run_id = $1", conflict.run_id)
    expected = ["ok", "ok", "paused", "conflict", "lost", "gone", "cancelled"]
    assert [await worker.step(out, "a") for out in outs] == expected
    answers = await worker.commit(*[step(out, "b") for out in outs])
    assert answers.results == expected
    assert await stage.journal(fine.run_id) == await stage.journal(paused.run_id) == ["a", "b"]
    rows = await stage.root.fetch(
        "select name, kind, output, attempt, receipt from onward.step where run_id = $1", fine.run_id
    )
    assert [tuple(row) for row in rows] == [("a", "run", b"1", 1, 1), ("b", "run", b"1", 1, 1)]


async def test_steps_are_journalled_in_the_order_of_the_batch(stage: Stage) -> None:
    worker = await stage.worker()
    outs = [await stage.hot(worker) for _ in range(3)]
    names = [f"s{n}" for n in range(50)]
    await worker.commit(*[step(outs[n % 3], name) for n, name in enumerate(names)])
    rows = await stage.root.fetch("select name from onward.step order by seq")
    assert [row["name"] for row in rows] == names


async def test_an_end_is_written_once(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "register", wait("e"))
    await stage.root.signal(out.run_id, "other")
    assert await worker.end(out) == "ok"
    assert await worker.end(out) == "gone"
    found = await stage.root.describe(out.run_id)
    assert (found.status, found.output) == ("completed", b'"done"')
    for table in ("message", "pending", "signal"):
        assert await stage.root.fetchval(f"select count(*) from onward.{table}") == 0


# ---- commit: waits -------------------------------------------------------------------------------------------


async def test_register_and_suspend_may_be_repeated(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    wants = wait("e", seconds=60), retry("f", 60)
    for _ in range(2):
        assert (await worker.ask(out, "register", *wants)).word == "ok"
    before = await stage.pendings(out.run_id)
    assert (await worker.ask(out, "suspend", *wants)).word == "suspended"
    assert (await worker.ask(out, "suspend", *wants)).word == "lost", "it is no longer this hand-out's"
    assert await stage.pendings(out.run_id) == before


async def test_a_suspended_run_sleeps_until_its_earliest_deadline(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", wait("e"), sleep("s", 60), retry("f", 30))
    pendings, message = await stage.pendings(out.run_id), await stage.message(out.run_id)
    assert message["owner"] is None
    assert message["visible_at"] == pendings["f"]["deadline"]
    assert await worker.calls.next_due(worker.id) == pytest.approx(30, abs=5)
    await stage.move_clock(31)
    [again] = await worker.claim()
    message = await stage.message(out.run_id)
    assert message["visible_at"] == pendings["s"]["deadline"], "its owner is told of the next one"
    assert again.rows == []


async def test_a_back_off_keeps_its_attempt_until_another_attempt_fails(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "register", retry("f", 10, attempt=1))
    first = (await stage.pendings(out.run_id))["f"]
    await stage.move_clock(11)
    answer = await worker.ask(out, "register", retry("f", 10, attempt=1))
    assert answer.rows == [], "a back-off that is over is not journalled"
    assert answer.waits[0].attempt == 1
    assert answer.waits[0].seconds is not None
    assert answer.waits[0].seconds <= 0
    await worker.ask(out, "register", retry("f", 10, attempt=2))
    second = (await stage.pendings(out.run_id))["f"]
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert second["deadline"] > first["deadline"]


async def test_a_back_off_that_is_over_keeps_a_run_hot(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    assert (await worker.ask(out, "suspend", retry("f", 0))).word == "ok"


async def test_waits_that_are_no_longer_asked_for_go(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "register", wait("x"), sleep("s", 60), retry("f", 60))
    await worker.ask(out, "register", sleep("s", 60))
    assert list(await stage.pendings(out.run_id)) == ["s"]
    await worker.ask(out, "register")
    assert await stage.pendings(out.run_id) == {}


async def test_signals_go_to_waits_in_the_order_of_registration(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    for n in range(3):
        await stage.root.signal(out.run_id, payload=str(n).encode())
    waits = [wait("z"), wait("a"), wait("m")]
    rows: list[tuple[str, bytes | None]] = []
    for known in range(3):
        answer = await worker.ask(out, "suspend", *waits[known:], rows=known)
        rows += [(row.path, row.output) for row in answer.rows]
    assert rows == [("z", b"0"), ("a", b"1"), ("m", b"2")]


async def test_clocks_are_journalled_by_their_time(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", sleep("late", 30), wait("mid", seconds=20), sleep("soon", 10))
    await stage.move_clock(31)
    [again] = await worker.claim()
    assert [(row.path, row.output) for row in again.rows] == [("soon", b"null"), ("mid", b"null"), ("late", b"null")]


async def test_ended_children_are_journalled_by_their_end(stage: Stage) -> None:
    worker, other = await stage.worker(), await stage.worker("c@1")
    out = await stage.hot(worker)
    ids = [await stage.root.new("c", parent=out.run_id, call="invoke") for _ in range(3)]
    children = {child.run_id: child for child in await other.claim()}
    wants = [invoke(f"child{n}", run_id) for n, run_id in enumerate(ids)]
    assert (await worker.ask(out, "suspend", *wants)).word == "suspended"
    await other.end(children[ids[2]])
    message = await stage.message(out.run_id)
    assert message["due"], "an end makes the parent due"
    await stage.root.runs.cancel(ids[0])
    failed = end(children[ids[1]])._replace(status="failed", output=None, error=b'{"type":"E"}')
    await other.commit(failed)
    [again] = await worker.claim()
    assert paths(again.rows) == ["child2", "child0", "child1"]
    assert again.rows[0].output == b'"done"'
    assert json.loads(again.rows[1].error or b"")["type"] == "RunCancelled"
    assert again.rows[2].error == b'{"type":"E"}'


async def test_a_child_that_ended_before_is_found_by_the_suspension(stage: Stage) -> None:
    worker, other = await stage.worker(), await stage.worker("c@1")
    out = await stage.hot(worker)
    child = await stage.root.new("c", parent=out.run_id, call="invoke")
    await other.end((await other.claim())[0])
    answer = await worker.ask(out, "suspend", invoke("child", child))
    assert (answer.word, paths(answer.rows)) == ("ok", ["child"])


async def test_answers_carry_bytes_as_they_are(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    payload = json.dumps("ä\u2028" * 400 + "\n").encode()
    await stage.root.signal(out.run_id, payload=payload)
    answer = await worker.ask(out, "suspend", wait("a\x1fb"))
    assert [(row.path, row.output) for row in answer.rows] == [("a\x1fb", payload)]


# ---- signal ------------------------------------------------------------------------------------------------


async def test_a_signal_is_told_what_became_of_it(stage: Stage) -> None:
    worker = await stage.worker()
    waiting, hot, ended = [await stage.hot(worker) for _ in range(3)]
    await worker.ask(waiting, "suspend", wait("e"))
    await worker.end(ended)
    items = [(hot.run_id, "e", b"1"), (uuid4(), "e", b"1"), (waiting.run_id, "e", b"1"), (ended.run_id, "e", b"1")]
    assert await stage.root.signals(*items) == ["buffered", "unknown", "resolved", "ended"]
    assert await stage.root.signal(waiting.run_id) == "buffered", "the only wait has its signal already"
    assert await stage.root.signal(hot.run_id, buffer=False) == "dropped"
    assert [s.payload for s in await stage.root.runs.signals(hot.run_id)] == [b"1"]


async def test_a_signal_finds_a_later_wait_that_it_matches(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", wait("x", match=b'{"n":1}'), wait("y", match=b'{"n":2}'))
    assert await stage.root.signal(out.run_id, payload=b'{"n":2}') == "resolved"
    [again] = await worker.claim()
    assert paths(again.rows) == ["y"]


async def test_a_signal_may_be_repeated(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", wait("e1"))
    same = NewSignal(uuid4(), out.run_id, "e", b"1", "1", True)
    assert await stage.root.runs.signal([same]) == ["resolved"]
    assert await stage.root.runs.signal([same]) == ["resolved"]
    [again] = await worker.claim()
    assert await stage.root.runs.signal([same]) == ["resolved"]
    answer = await worker.ask(again, "suspend", wait("e2"))
    assert (answer.word, answer.rows) == ("suspended", []), "it was taken once"


async def test_a_signal_moves_no_deadline_and_wakes_nobody_in_vain(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", wait("e", match=b"1", seconds=60))
    before = await stage.message(out.run_id)
    assert await stage.root.signal(out.run_id, payload=b"2") == "buffered"
    assert await stage.root.signal(out.run_id, "other", payload=b"1") == "buffered"
    assert await stage.message(out.run_id) == before


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "\0", "\ue000", "\ue0000", "0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "\0"]), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def _signal_and_match(draw: st.DrawFn) -> tuple[object, object]:
    """Half of the time the match is a part of the signal."""
    signal = draw(_json)
    return signal, _part(draw, signal) if draw(st.booleans()) else draw(_json)


def _part(draw: st.DrawFn, value: object) -> object:
    if isinstance(value, dict):
        return {key: _part(draw, inner) for key, inner in value.items() if draw(st.booleans())}
    if isinstance(value, list):
        return [_part(draw, inner) for inner in value if draw(st.booleans())]
    return value


def contains(whole: object, part: object) -> bool:
    """What `@>` says, by its documentation; NUL and all."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and contains(whole[key], inner) for key, inner in part.items())
    if isinstance(whole, list) and isinstance(part, list):
        return all(any(contains(mine, inner) for mine in whole) for inner in part)
    scalars = not isinstance(whole, (dict, list)) and not isinstance(part, (dict, list))
    return scalars and type(whole) is type(part) and whole == part


async def test_a_match_is_containment_nested_and_with_nul(stage: Stage) -> None:
    """`@>` over what `searchable` makes of values; at the top an array contains a scalar, as Postgres has it."""
    worker = await stage.worker()
    loop = asyncio.get_running_loop()

    async def answered(signal: object, match: object) -> bool:
        out = await stage.hot(worker)
        await worker.ask(out, "register", wait("e", match=json.dumps(match).encode()))
        word = await stage.root.signal(out.run_id, payload=json.dumps(signal).encode(), buffer=False)
        answer = await worker.ask(out, "register", wait("e", match=json.dumps(match).encode()))
        assert (word == "resolved") == (paths(answer.rows) == ["e"]), "signal and settle agree"
        await worker.end(out, rows=len(answer.rows))
        return word == "resolved"

    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(_signal_and_match())
    def check(pair: tuple[object, object]) -> None:
        signal, match = pair
        if isinstance(signal, list) and not isinstance(match, (list, dict)):
            return
        found = asyncio.run_coroutine_threadsafe(answered(signal, match), loop).result(10)
        assert found == contains(signal, match), (signal, match)

    await asyncio.to_thread(check)


async def test_nul_in_values_is_searched_and_kept(stage: Stage) -> None:
    worker = await stage.worker()
    data = b'{"k":"a\\u0000b"}'
    out = await stage.hot(worker, data=data)
    query = ListQuery(None, None, None, None, [searchable(data)], None, None, 10)
    assert [r.run_id for r in await stage.root.runs.page(query)] == [out.run_id]
    assert out.input == data
    await worker.ask(out, "suspend", wait("e", match=data))
    assert await stage.root.signal(out.run_id, payload=b'{"k":"ab"}', buffer=False) == "dropped"
    assert await stage.root.signal(out.run_id, payload=data) == "resolved"
    [again] = await worker.claim()
    assert again.rows[0].output == data


# ---- cancel, await_lanes -----------------------------------------------------------------------------------


async def test_a_cancel_tells_the_former_owner_and_the_children(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "register", wait("e"))
    await stage.root.signal(out.run_id, "other")
    child = await stage.root.new("c", parent=out.run_id, call="invoke")
    free = await stage.root.new("c", parent=out.run_id, call="start")
    row = await stage.root.fetchrow("select * from onward.cancel('t', $1)", out.run_id)
    assert tuple(row)[:3] == ("cancelled", worker.id, [child])
    assert (await stage.root.describe(free)).status == "running", "a started run goes its own way"
    for table in ("pending", "signal"):
        assert await stage.root.fetchval(f"select count(*) from onward.{table}") == 0


async def test_a_cancel_may_be_repeated_and_changes_no_end(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    assert await worker.end(out) == "ok"
    assert await stage.root.runs.cancel(out.run_id) == "completed"
    other = await stage.root.new()
    assert await stage.root.runs.cancel(other) == "cancelled"
    first = await stage.root.describe(other)
    assert await stage.root.runs.cancel(other) == "cancelled"
    assert await stage.root.describe(other) == first
    assert await stage.root.runs.cancel(uuid4()) is None


async def test_a_cancel_finishes_what_a_canceller_that_died_had_begun(stage: Stage) -> None:
    """It had cancelled the child, and had not come to the child's child."""
    worker = await stage.worker()
    top = await stage.hot(worker)
    child = await stage.hot(worker, parent=top.run_id, call="invoke")
    grandchild = await stage.hot(worker, parent=child.run_id, call="invoke")
    await stage.root.fetch("select onward.cancel('t', $1)", child.run_id)
    assert await stage.root.runs.cancel(top.run_id) == "cancelled"
    assert (await stage.root.describe(grandchild.run_id)).status == "cancelled"


async def test_a_cancel_and_an_end_at_once_leave_one_result(stage: Stage) -> None:
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    async with worker.open():
        assert await worker.end(out) == "ok"
        cancelled = await stage.blocked(client.runs.cancel(out.run_id), client, by=worker)
    assert await cancelled == "completed"


async def test_a_cancelled_child_makes_its_parent_due(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    child = await stage.root.new("c", parent=out.run_id, call="invoke")
    await worker.ask(out, "suspend", invoke("child", child))
    await stage.root.runs.cancel(child)
    [again] = await worker.claim()
    assert json.loads(again.rows[0].error or b"")["type"] == "RunCancelled"


async def test_waiting_for_a_workers_lanes_takes_as_long_as_its_batch(stage: Stage) -> None:
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    await client.fetch("select onward.await_lanes($1)", worker.id)
    async with worker.open():
        await worker.step(out)
        waited = await stage.blocked(client.fetch("select onward.await_lanes($1)", worker.id), client, by=worker)
    await waited
    await client.fetch("select onward.await_lanes(999)")


# ---- heartbeat, reap, bury, retire ---------------------------------------------------------------------------


async def test_a_beat_extends_the_lease(stage: Stage) -> None:
    worker, reaper = await stage.worker(lease=10), await stage.worker(lease=1000)
    out = await stage.hot(worker)
    await stage.move_clock(9)
    assert await worker.heartbeat()
    await stage.move_clock(18)
    assert await reaper.reap() == 0
    await stage.move_clock(20)
    assert await reaper.reap() == 1
    assert not await worker.heartbeat()
    with pytest.raises(WorkerDead):
        await worker.step(out)
    assert await reaper.reap() == 0


async def test_one_worker_is_reaped_a_call(stage: Stage) -> None:
    dead = [await stage.worker() for _ in range(2)]
    reaper = await stage.worker()
    for worker in dead:
        await stage.hot(worker)
    await stage.lapse(*dead)
    assert [await reaper.reap() for _ in range(3)] == [1, 1, 0]


async def test_a_worker_whose_session_ended_is_dead(stage: Stage) -> None:
    worker, reaper = await _with_session(stage)
    await stage.hot(worker)
    await _age(stage, worker, 2)
    assert await reaper.reap() == 0, "its session lives"
    await worker.session.close()
    assert await _until_reaped(reaper) == 1


async def test_a_worker_that_was_just_heard_of_is_alive_without_its_session(stage: Stage) -> None:
    worker, reaper = await _with_session(stage)
    await stage.hot(worker)
    await worker.session.close()
    await _until_free(stage, worker)
    assert await reaper.reap() == 0
    await _age(stage, worker, 2)
    assert await reaper.reap() == 1


async def test_sessions_are_no_sign_just_after_a_start_of_the_server(stage: Stage) -> None:
    worker, _ = await _with_session(stage)
    await stage.hot(worker)
    await stage.root.execute("create schema young")
    await stage.root.execute(
        "create function young.pg_postmaster_start_time() returns timestamptz language sql as "
        "'select clock_timestamp() - interval ''2 seconds'''"
    )
    young, old = await stage.worker(search_path="young, pg_catalog"), await stage.worker()
    await worker.session.close()
    await _until_free(stage, worker)
    await _age(stage, worker, 2)
    assert await young.reap() == 0
    assert await old.reap() == 1


async def test_a_session_lock_that_a_reaper_looks_at_can_be_had_later(stage: Stage) -> None:
    worker, reaper = await stage.worker(), await stage.client()
    async with reaper.open():
        await reaper.fetchval("select pg_try_advisory_xact_lock(onward.session_key($1))", worker.id)
        assert not await hold_session(worker.session, worker.id)
    assert await hold_session(worker.session, worker.id)
    assert await hold_session(worker.session, worker.id)


async def test_five_deaths_without_progress_fail_a_run(stage: Stage) -> None:
    run_id = await stage.root.new()
    for deaths in range(1, 5):
        [out] = await _die(stage, mark=[run_id])
        assert out.deaths == deaths - 1
        message = await stage.message(run_id)
        assert message["deaths"] == deaths
    await _die(stage, mark=[run_id])
    found = await stage.root.describe(run_id)
    assert found.status == "failed"
    assert json.loads(found.error or b"")["type"] == "PoisonRun"
    assert await stage.root.fetchval("select count(*) from onward.message") == 0


async def test_a_first_death_counts_for_all_and_later_ones_for_what_executed(stage: Stage) -> None:
    culprit, bystander = await stage.root.new(), await stage.root.new()
    await _die(stage)
    assert await _deaths(stage, culprit, bystander) == [1, 1]
    await _die(stage, mark=[culprit])
    await _die(stage, mark=[culprit])
    assert await _deaths(stage, culprit, bystander) == [3, 1]


async def test_progress_starts_the_count_anew(stage: Stage) -> None:
    run_id = await stage.root.new()
    for _ in range(3):
        await _die(stage, mark=[run_id])
    assert await _deaths(stage, run_id) == [3]
    worker = await stage.worker()
    [out] = await worker.claim()
    assert await worker.step(out, "a") == "ok"
    await _bury(stage, worker)
    assert await _deaths(stage, run_id) == [1]


async def test_leaving_in_order_is_no_death_and_hides_no_progress(stage: Stage) -> None:
    run_id = await stage.root.new()
    for _ in range(3):
        await _die(stage, mark=[run_id])
    worker = await stage.worker()
    [out] = await worker.claim()
    await worker.ask(out, "release")
    [out] = await worker.claim()
    await worker.calls.retire(worker.id)
    await worker.calls.retire(worker.id)
    assert await _deaths(stage, run_id) == [3]

    worker = await stage.worker()
    [out] = await worker.claim()
    assert await worker.step(out, "a") == "ok"
    await worker.calls.retire(worker.id)
    await _die(stage, mark=[run_id])
    assert await _deaths(stage, run_id) == [1], "a row was journalled since the last death"


async def test_a_mark_holds_while_the_run_is_hot(stage: Stage) -> None:
    run_id = await stage.root.new()
    await _die(stage)
    for op, deaths in (("register", 2), ("suspend", 3)):
        worker = await stage.worker()
        [out] = await worker.claim()
        await worker.ask(out, "mark")
        assert (await worker.ask(out, op, retry("f", 0, attempt=deaths))).word == "ok"
        await _bury(stage, worker)
        assert await _deaths(stage, run_id) == [deaths], f"after a {op} that keeps the run"


async def test_a_mark_ends_with_the_hand_out(stage: Stage) -> None:
    run_id = await stage.root.new()
    await _die(stage)
    worker = await stage.worker()
    [out] = await worker.claim()
    await worker.ask(out, "mark")
    await worker.ask(out, "release")
    await worker.claim()
    await _bury(stage, worker)
    assert await _deaths(stage, run_id) == [1]


async def test_a_parent_of_a_poisoned_run_is_woken_by_a_sweep(stage: Stage) -> None:
    parents = await stage.worker("p@1")
    parent = await stage.hot(parents, workflow="p")
    child = await stage.root.new(parent=parent.run_id, call="invoke")
    await parents.ask(parent, "suspend", invoke("child", child))
    await parents.calls.wake_parents()
    assert await parents.claim() == []
    for _ in range(5):
        await _die(stage, mark=[child])
    await parents.calls.wake_parents()
    [again] = await parents.claim()
    assert json.loads(again.rows[0].error or b"")["type"] == "PoisonRun"


async def test_a_worker_that_died_leaves_nothing_behind(stage: Stage) -> None:
    worker, reaper = await stage.worker("w@1", "w@2"), await stage.client()
    await stage.hot(worker)
    await stage.lapse(worker)
    await reaper.fetch("select onward.reap()")
    for table in ("worker", "lane", "serves"):
        assert await stage.root.fetchval(f"select count(*) from onward.{table}") == 0
    assert (await stage.worker()).id > worker.id, "ids are never used again"


# ---- park, poke, attend ----------------------------------------------------------------------------------------


async def test_a_parked_run_is_tried_again_after_a_while_and_by_new_workers(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    assert (await worker.ask(out, "park", note="because")).word == "ok"
    found = await stage.root.describe(out.run_id)
    assert (found.state, found.reason) == ("parked", "because")
    assert await worker.claim() == []
    await stage.worker("other@1")
    assert await worker.claim() == []
    await stage.worker("w@7")
    [again] = await worker.claim()
    await worker.ask(again, "park", note="because")
    await stage.move_clock(301)
    [again] = await worker.claim()
    assert (await stage.root.describe(out.run_id)).reason is None


async def test_a_resume_tries_a_parked_run_again(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "park", note="because")
    await stage.root.runs.set_paused(out.run_id, False)
    assert len(await worker.claim()) == 1


async def test_a_poked_run_is_due(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.ask(out, "suspend", wait("e"))
    await worker.calls.poke(out.run_id)
    await worker.calls.poke(out.run_id)
    [again] = await worker.claim()
    assert again.rows == []


async def test_an_owner_is_told_what_it_has_to_look_at(stage: Stage) -> None:
    worker, other = await stage.worker(), await stage.worker()
    quiet, due, paused, lost, ended, cancelled, unknown = [await stage.hot(worker) for _ in range(7)]
    for out in (quiet, due):
        await worker.ask(out, "register", wait("e"))
    await stage.root.signal(due.run_id)
    await stage.root.runs.set_paused(paused.run_id, True)
    await worker.ask(lost, "release")
    await other.claim()
    await worker.end(ended)
    await stage.root.runs.cancel(cancelled.run_id)
    held = [(o.run_id, o.receipt) for o in (quiet, due, paused, lost, ended, cancelled)]
    news = await worker.calls.attend(worker.id, held, everything=True)
    assert {n.run_id: n.word for n in news} == {
        due.run_id: "due",
        paused.run_id: "paused",
        lost.run_id: "gone",
        ended.run_id: "gone",
        cancelled.run_id: "cancelled",
        unknown.run_id: "unknown",
    }


# ---- await_result ------------------------------------------------------------------------------------------


async def test_who_was_told_of_an_end_waits_no_more(stage: Stage) -> None:
    worker, reader = await stage.worker(), await stage.client()
    alone, one, two = [await stage.hot(worker) for _ in range(3)]
    for out in (alone, one, two):
        await reader.runs.await_result(out.run_id, "c", 60)
    await worker.end(alone)
    await worker.commit(end(one), end(two))
    await worker.calls.announce([one.run_id, two.run_id], False)
    await reader.runs.await_result(alone.run_id, "c", 60)
    assert await stage.root.fetchval("select count(*) from onward.awaited") == 0


async def test_an_end_is_told_to_who_waits_for_it(stage: Stage) -> None:
    worker, client = await stage.worker(), await stage.client()
    out = await stage.hot(worker)
    heard: asyncio.Queue[str] = asyncio.Queue()
    await client.session.add_listener("c1", lambda *event: heard.put_nowait(event[3]))
    for _ in range(2):
        found = await client.runs.await_result(out.run_id, "c1", 60)
        assert found is not None
        assert found.status == "running"
    await worker.end(out)
    await worker.calls.announce([out.run_id], False)
    assert await asyncio.wait_for(heard.get(), 10) == str(out.run_id)
    found = await client.runs.await_result(out.run_id, "c1", 60)
    assert found is not None
    assert (found.status, found.output) == ("completed", b'"done"')
    assert await client.runs.await_result(uuid4(), "c1", 60) is None


async def test_waits_for_results_that_nobody_took_back_are_cleared(stage: Stage) -> None:
    run_id = await stage.root.new()
    await stage.root.runs.await_result(run_id, "c", 5)
    reaper = await stage.worker()
    await reaper.reap()
    assert await stage.root.fetchval("select count(*) from onward.awaited") == 1
    await stage.move_clock(6)
    await reaper.reap()
    assert await stage.root.fetchval("select count(*) from onward.awaited") == 0


# ---- rerun -----------------------------------------------------------------------------------------------------


async def test_a_rerun_copies_the_journal_before_the_step(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker, data=b"7")
    await worker.commit(*[step(out, path, path.encode()) for path in ("a", "b\x1finner", "c", "b", "d")])
    await worker.end(out, rows=5)
    new = uuid4()
    for _ in range(2):
        assert await stage.root.runs.rerun(out.run_id, new, "b", {"a": b'"other"'}) == "ok"
    assert await stage.journal(new) == ["a", "c"]
    [copy] = await worker.claim()
    assert (copy.run_id, copy.input, copy.deaths) == (new, b"7", 0)
    assert [(row.path, row.output) for row in copy.rows] == [("a", b'"other"'), ("c", b"c")]
    assert (await stage.root.describe(new)).rerun_of == out.run_id
    assert await stage.journal(out.run_id) == ["a", "b\x1finner", "c", "b", "d"]
    assert (await stage.root.describe(out.run_id)).status == "completed"


async def test_a_rerun_from_the_start_copies_the_input_only(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker, data=b"7")
    await worker.step(out)
    new = uuid4()
    assert await stage.root.runs.rerun(out.run_id, new, None, {}) == "ok"
    assert await stage.journal(new) == []
    found = await stage.root.describe(new)
    assert (found.input, found.version, found.state) == (b"7", 1, "queued")


async def test_a_replaced_output_takes_an_errors_place(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.commit(step(out, "a")._replace(output=None, error=b"{}"), step(out, "b"))
    new = uuid4()
    await stage.root.runs.rerun(out.run_id, new, "b", {"a": b"1"})
    [copy] = await worker.claim()
    assert (copy.rows[0].output, copy.rows[0].error) == (b"1", None)


async def test_a_rerun_of_what_is_not_there_makes_nothing(stage: Stage) -> None:
    run_id = await stage.root.new()
    assert await stage.root.runs.rerun(uuid4(), uuid4(), None, {}) == "unknown"
    assert await stage.root.runs.rerun(run_id, uuid4(), "nowhere", {}) == "no step"
    assert await stage.root.fetchval("select count(*) from onward.run") == 1


# ---- what people see -----------------------------------------------------------------------------------------


async def test_states_say_what_a_run_is_doing(stage: Stage) -> None:
    worker = await stage.worker()

    async def state(run_id: UUID) -> str:
        return (await stage.root.describe(run_id)).state

    async def suspended(*wants: object) -> HandOut:
        out = await stage.hot(worker)
        assert (await worker.ask(out, "suspend", *wants)).word == "suspended"  # type: ignore[arg-type]
        return out

    executing = await stage.hot(worker)
    assert await state(executing.run_id) == "executing"
    assert await state((await suspended(sleep("s", 60))).run_id) == "sleeping"
    assert await state((await suspended(sleep("s", 60), retry("f", 60))).run_id) == "retrying"
    assert await state((await suspended(retry("f", 60), wait("e"), sleep("s", 5))).run_id) == "waiting"
    assert await state((await suspended(invoke("c", uuid4()))).run_id) == "waiting"
    parked = await stage.hot(worker)
    await worker.ask(parked, "park", note="why")
    assert await state(parked.run_id) == "parked"
    ended = await stage.hot(worker)
    await worker.end(ended)
    assert await state(ended.run_id) == "completed"
    assert await state(await stage.root.new(delay=60)) == "queued"
    assert await state(await stage.root.new(version=2)) == "stranded"
    assert await state(await stage.root.new("nobodys", version=None)) == "stranded"
    queued = await stage.root.new()
    assert await state(queued) == "queued"
    await stage.root.runs.set_paused(queued, True)
    assert await state(queued) == "paused"
    await stage.lapse(worker)
    await stage.root.runs.set_paused(queued, False)
    assert await state(queued) == "stranded"


async def test_runs_are_described_in_the_order_asked_for(stage: Stage) -> None:
    ids = [await stage.root.new() for _ in range(5)]
    wanted = [ids[3], uuid4(), ids[0], ids[4]]
    assert [r.run_id for r in await stage.root.runs.describe(wanted)] == [ids[3], ids[0], ids[4]]


async def test_pages_are_stable_while_runs_arrive(stage: Stage) -> None:
    made = [await stage.root.new() for _ in range(7)]
    await stage.root.execute("update onward.run set started_at = '2020-01-01' where run_id = any ($1)", made[:4])
    seen: list[UUID] = []
    cursor = None, None
    while True:
        page = await stage.root.runs.page(ListQuery(None, None, None, None, None, *cursor, 2))
        if not page:
            break
        seen += [r.run_id for r in page]
        cursor = page[-1].started_at, page[-1].run_id
        await stage.root.new()
    assert seen == [*reversed(made[4:]), *sorted(made[:4], reverse=True)]


async def test_lists_can_be_narrowed(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker, data=b'{"a":{"b":1},"c":2}')
    await worker.end(out)
    other = await stage.root.new("v", data=b'{"a":{"b":2}}')

    async def listed(**fields: object) -> list[UUID]:
        query = ListQuery(None, None, None, None, None, None, None, 10)._replace(**fields)  # type: ignore[arg-type]
        return [r.run_id for r in await stage.root.runs.page(query)]

    assert await listed() == [other, out.run_id]
    assert await listed(workflow="v") == [other]
    assert await listed(status="completed") == [out.run_id]
    assert await listed(status="running") == [other]
    assert await listed(status="failed") == []
    assert await listed(patterns=['{"a":{"b":1}}']) == [out.run_id]
    assert await listed(patterns=['{"a":{"b":1}}', '{"a":{"b":2}}']) == [other, out.run_id]
    assert await listed(patterns=['{"c":3}']) == []
    between = (await stage.root.describe(other)).started_at
    assert await listed(since=between) == [other]
    assert await listed(until=between) == [out.run_id]


async def test_steps_are_listed_in_their_order_with_what_is_pending(stage: Stage) -> None:
    worker = await stage.worker()
    out = await stage.hot(worker)
    await worker.commit(step(out, "z"), step(out, "a")._replace(output=None, error=b"{}"))
    await worker.ask(out, "suspend", wait("e", match=b"1"), sleep("s", 60), retry("f", 60, attempt=3), rows=2)
    steps = await stage.root.runs.steps(out.run_id)
    assert [(s.path, s.kind, s.status, s.attempt) for s in steps] == [
        ("z", "run", "completed", 1),
        ("a", "run", "failed", 1),
        ("e", "wait", "waiting", 1),
        ("s", "sleep", "sleeping", 1),
        ("f", "run", "retrying", 3),
    ]
    assert (steps[2].event, steps[2].match, steps[2].deadline) == ("e", "1", None)
    assert steps[3].deadline is not None


async def test_workers_are_listed_with_what_they_serve_and_own(stage: Stage) -> None:
    worker, dead = await stage.worker("w@1", "w@2", "a@1"), await stage.worker()
    await stage.hot(worker, version=2)
    await stage.lapse(dead)
    one, two = await stage.root.runs.workers()
    assert (one.worker_id, one.alive, one.serves, one.owned) == (worker.id, True, ["a@1", "w@1", "w@2"], 1)
    assert (two.worker_id, two.alive, two.owned) == (dead.id, False, 0)


async def test_workflows_are_counted_by_status(stage: Stage) -> None:
    worker = await stage.worker()
    await worker.end(await stage.hot(worker))
    await stage.root.runs.cancel(await stage.root.new())
    await stage.root.new()
    await stage.root.new("v")
    counts = await stage.root.runs.workflows()
    assert [tuple(c) for c in counts] == [("v", 1, 0, 0, 0), ("w", 1, 1, 0, 1)]


async def test_tenants_never_see_each_other(stage: Stage) -> None:
    worker, stranger = await stage.worker(), (await stage.client("other")).runs
    out = await stage.hot(worker)
    await worker.step(out)
    await worker.ask(out, "suspend", wait("e"), rows=1)
    await stage.root.signal(out.run_id, "x")
    before = await stage.message(out.run_id), await stage.root.describe(out.run_id)
    assert await stranger.describe([out.run_id]) == []
    assert await stranger.page(ListQuery(None, None, None, None, None, None, None, 10)) == []
    assert await stranger.steps(out.run_id) == []
    assert await stranger.signals(out.run_id) == []
    assert await stranger.standing(out.run_id) is None
    assert await stranger.workflows() == []
    assert await stranger.await_result(out.run_id, "c", 5) is None
    assert await stranger.cancel(out.run_id) is None
    assert not await stranger.set_paused(out.run_id, True)
    assert await stranger.rerun(out.run_id, uuid4(), None, {}) == "unknown"
    assert await (await stage.client("other")).signal(out.run_id) == "unknown"
    assert (await stage.message(out.run_id), await stage.root.describe(out.run_id)) == before


async def test_a_tenant_cannot_take_anothers_run_id(stage: Stage) -> None:
    other = await stage.client("other")
    run_id = await stage.root.new(data=b"1")
    [refused] = await other.start(run(run_id=run_id, data=b"2"))
    assert refused.run_id is None
    assert (await stage.root.describe(run_id)).input == b"1"


# ---- how the deaths above come about ---------------------------------------------------------------------------


async def _die(stage: Stage, mark: list[UUID] | None = None) -> list[HandOut]:
    """A worker claims what there is, marks some of it, and dies."""
    worker = await stage.worker()
    outs = await worker.claim()
    for out in outs:
        if out.run_id in (mark or []):
            assert (await worker.ask(out, "mark")).word == "ok"
    await _bury(stage, worker)
    return outs


async def _bury(stage: Stage, worker: Worker) -> None:
    await stage.lapse(worker)
    await stage.root.fetch("select onward.reap()")
    assert not await worker.heartbeat()


async def _deaths(stage: Stage, *runs: UUID) -> list[int]:
    messages = [await stage.message(run_id) for run_id in runs]
    return [message["deaths"] for message in messages]


async def _with_session(stage: Stage) -> tuple[Worker, Worker]:
    """A worker that holds its session lock, and a reaper. The server has been up for long."""
    worker = await stage.worker()
    assert await hold_session(worker.session, worker.id)
    started = "select extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8"
    while await stage.root.fetchval(started) < 3:
        await asyncio.sleep(0.1)
    return worker, await stage.worker()


async def _age(stage: Stage, worker: Worker, seconds: float) -> None:
    """It was heard of so long ago."""
    await stage.root.execute(
        "update onward.worker set beat_at = onward.now() - make_interval(secs => $2) where worker_id = $1",
        worker.id,
        seconds,
    )


async def _until_free(stage: Stage, worker: Worker) -> None:
    """The server has noticed that the session is gone."""
    async with stage.root.open():
        while not await stage.root.fetchval("select pg_try_advisory_xact_lock(onward.session_key($1))", worker.id):
            await asyncio.sleep(0.005)


async def _until_reaped(reaper: Worker) -> int:
    while not (freed := await reaper.reap()):
        await asyncio.sleep(0.005)
    return freed
