"""What retention removes, what it must leave, and who keeps the objects of a run that is gone."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID, uuid4

import pytest

from onward.core import pointers
from onward.core.pointers import Pointer
from onward.store.handouts import HandOut
from onward.store.references import References
from onward.store.removals import Removals, Removed
from store.stage import RETENTION, Stage, Worker, invoke, run

TABLES = (
    "message", "run", "run_input", "run_result", "step", "pending", "signal", "awaited", "borrowed", "removed",
)  # fmt: skip


def pointer(name: str) -> bytes:
    return pointers.encode(Pointer(name, "0" * 64, 1, pointers.JSON))


@pytest.fixture
def removals(stage: Stage) -> Removals:
    return Removals(stage.root)  # type: ignore[arg-type]


@pytest.fixture
def references(stage: Stage) -> References:
    return References(stage.root)  # type: ignore[arg-type]


@pytest.fixture
async def worker(stage: Stage) -> Worker:
    """With a payload store, which is recorded before the first object is written."""
    await stage.root.fetch("select * from onward.payload_store('file:///nowhere', null)")
    return await stage.worker()


async def ended(stage: Stage, worker: Worker, *values: bytes, retention: float = RETENTION) -> UUID:
    """A run that journalled these values, a step each."""
    out = await stage.hot(worker, retention=retention)
    await journalled(worker, out, *values)
    return out.run_id


async def journalled(worker: Worker, out: HandOut, *values: bytes) -> None:
    for number, value in enumerate(values, len(out.rows)):
        assert await worker.step(out, f"step {number}", value) == "ok"
    assert await worker.end(out, rows=len(out.rows) + len(values)) == "ok"


async def rerun(stage: Stage, run_id: UUID, from_step: str) -> UUID:
    new = uuid4()
    assert await stage.root.runs.rerun(run_id, new, from_step, {}) == "ok"
    return new


async def there(stage: Stage, *run_ids: UUID) -> list[bool]:
    rows = await stage.root.fetch("select run_id from onward.run")
    return [run_id in {row["run_id"] for row in rows} for run_id in run_ids]


async def pass_by(stage: Stage, *run_ids: UUID) -> None:
    """The retention of these runs passes, and no other."""
    await stage.root.execute(
        "update onward.run_result set expires_at = '-infinity', completed_at = '-infinity' where run_id = any ($1)",
        list(run_ids),
    )


async def due(removals: Removals) -> list[UUID]:
    return [one.run_id for one in await removals.removed(100)]


async def needed(references: References, *owners: UUID) -> set[str]:
    return {pointers.decode(data).key for data in await references.needed(owners)}


async def finish(removals: Removals, kept: Iterable[UUID] = ()) -> list[Removed]:
    """What retention does between the two calls is another test's."""
    found = await removals.removed(100)
    await removals.finish([(one, one.run_id in set(kept)) for one in found])
    return found


# ---- which runs -------------------------------------------------------------------------------------------


async def test_a_run_goes_when_its_retention_has_passed_and_not_before(
    stage: Stage, worker: Worker, removals: Removals
) -> None:
    short, long = await ended(stage, worker, retention=100), await ended(stage, worker, retention=1000)
    await stage.move_clock(90)
    assert await removals.expired(10) == (0, False)
    await stage.move_clock(110)
    assert await removals.expired(10) == (1, False)
    assert await there(stage, short, long) == [False, True]


async def test_nothing_is_left_of_a_removed_run_but_the_note_that_its_objects_are_to_follow(
    stage: Stage, worker: Worker, removals: Removals
) -> None:
    original = await ended(stage, worker, b"1", b"2")
    again = await rerun(stage, original, "step 1")
    [out] = await worker.claim()
    await stage.root.signal(again)
    await stage.root.runs.await_result(again, "c", 1000)
    await journalled(worker, out, b"3")
    await pass_by(stage, original, again)
    assert await removals.expired(10) == (2, False)
    left = {table for table in TABLES if await stage.root.fetchval(f"select count(*) from onward.{table}")}
    assert left == {"removed"}
    assert set(await due(removals)) == {original, again}


async def test_where_no_store_was_ever_used_there_is_nothing_to_follow(stage: Stage, removals: Removals) -> None:
    run_id = await ended(stage, await stage.worker(), b"1")
    await pass_by(stage, run_id)
    assert await removals.expired(10) == (1, False)
    assert await due(removals) == []


async def test_a_running_run_is_never_removed(stage: Stage, worker: Worker, removals: Removals) -> None:
    out = await stage.hot(worker, retention=0)
    await worker.step(out)
    await stage.move_clock(10 * RETENTION)
    assert await removals.expired(10) == (0, False)
    assert await there(stage, out.run_id) == [True]


async def test_removal_goes_in_batches_and_says_whether_there_are_more(
    stage: Stage, worker: Worker, removals: Removals
) -> None:
    runs = [await ended(stage, worker) for _ in range(5)]
    await pass_by(stage, *runs)
    assert [await removals.expired(2) for _ in range(4)] == [(2, True), (2, True), (1, False), (0, False)]


async def test_a_run_that_somebody_copies_just_now_is_left_for_the_next_time(
    stage: Stage, worker: Worker, removals: Removals
) -> None:
    held, free = await ended(stage, worker), await ended(stage, worker)
    await pass_by(stage, held, free)
    other = await stage.client()
    async with other.open():
        await other.execute("select 1 from onward.run where run_id = $1 for key share", held)
        assert await removals.expired(10) == (1, False)
        assert await there(stage, held, free) == [True, False]
    assert await removals.expired(10) == (1, False)


async def test_two_sweeps_at_once_remove_each_run_once(stage: Stage, worker: Worker) -> None:
    runs = [await ended(stage, worker) for _ in range(4)]
    await pass_by(stage, *runs)
    one, two = await stage.client(), await stage.client()
    async with one.open():
        assert await Removals(one).expired(3) == (3, True)  # type: ignore[arg-type]
        waiting = await stage.blocked(Removals(two).expired(3), two, by=one)  # type: ignore[arg-type]
    assert await waiting == (1, False)


async def test_a_child_stays_while_its_parent_runs(stage: Stage, worker: Worker, removals: Removals) -> None:
    out = await stage.hot(worker)
    child = await stage.root.new(parent=out.run_id, call="invoke", retention=0)
    [inner] = await worker.claim()
    await worker.end(inner)
    await pass_by(stage, child)
    await removals.expired(10)
    assert await there(stage, child) == [True]  # a parent that replays would start it again
    await worker.end(out)
    await stage.move_clock(2 * 3600)
    assert await removals.expired(10) == (2, False)


async def test_a_cancelled_run_stays_until_no_batch_can_be_in_flight(
    stage: Stage, worker: Worker, removals: Removals
) -> None:
    out = await stage.hot(worker, retention=0)
    await stage.root.runs.cancel(out.run_id)
    assert await removals.expired(10) == (0, False)
    await stage.move_clock(600)
    assert await removals.expired(10) == (1, False)


# ---- whose objects are kept ---------------------------------------------------------------------------------


async def test_what_a_rerun_points_to_is_needed_when_its_original_is_gone(
    stage: Stage, worker: Worker, removals: Removals, references: References
) -> None:
    original = await ended(stage, worker, pointer("a"), pointer("b"), b"3")
    again = await rerun(stage, original, "step 1")
    await pass_by(stage, original)
    await removals.expired(10)
    assert await there(stage, original, again) == [False, True]
    assert await needed(references, original) == {"a"}


async def test_a_rerun_of_a_rerun_keeps_what_the_one_between_had_borrowed(
    stage: Stage, worker: Worker, removals: Removals, references: References
) -> None:
    original = await ended(stage, worker, pointer("a"), pointer("b"), b"3")
    between = await rerun(stage, original, "step 2")
    [out] = await worker.claim()
    await journalled(worker, out)
    last = await rerun(stage, between, "step 1")
    # so it is where the one between is a child that gave on what it had borrowed
    await stage.root.execute("delete from onward.borrowed where owner = $1 and borrower = $2", original, last)
    for gone in (original, between):
        await pass_by(stage, gone)
        await removals.expired(10)
        assert "a" in await needed(references, original)
    assert await there(stage, original, between, last) == [False, False, True]


async def test_objects_that_were_kept_are_due_again_when_the_last_borrower_goes(
    stage: Stage, worker: Worker, removals: Removals, references: References
) -> None:
    original = await ended(stage, worker, pointer("a"), b"2")
    again = await rerun(stage, original, "step 1")
    [out] = await worker.claim()
    await pass_by(stage, original)
    await removals.expired(10)
    await finish(removals, kept=[original])
    assert await due(removals) == []
    await journalled(worker, out)
    await pass_by(stage, again)
    await removals.expired(10)
    assert set(await due(removals)) == {original, again}
    assert await needed(references, original) == set()
    await finish(removals)
    assert await stage.root.fetchval("select count(*) from onward.removed") == 0


async def test_a_run_whose_borrower_goes_during_the_deletion_stays_due(
    stage: Stage, worker: Worker, removals: Removals
) -> None:
    original = await ended(stage, worker, pointer("a"), b"2")
    again = await rerun(stage, original, "step 1")
    [out] = await worker.claim()
    await journalled(worker, out)
    await pass_by(stage, original)
    await removals.expired(10)
    seen = await removals.removed(10)
    await pass_by(stage, again)
    await removals.expired(10)
    for kept in (True, False):
        await removals.finish([(one, kept) for one in seen])
        assert original in await due(removals)


async def test_what_a_parent_got_from_a_child_is_needed_when_the_child_is_gone(
    stage: Stage, worker: Worker, removals: Removals, references: References
) -> None:
    parent, child = await _parent_and_child(stage, worker)
    again = await rerun(stage, parent, "step 1")
    await pass_by(stage, child)
    await removals.expired(10)
    assert await there(stage, child, parent, again) == [False, True, True]
    assert await needed(references, child) == {"of the child"}
    await pass_by(stage, parent)
    await removals.expired(10)
    assert await there(stage, parent, again) == [False, True]
    assert await needed(references, child) == {"of the child"}


async def test_what_a_rerun_of_a_parent_has_of_a_child_is_needed_when_parent_and_child_are_gone(
    stage: Stage, worker: Worker, removals: Removals, references: References
) -> None:
    for parent_first in (True, False, None):
        parent, child = await _parent_and_child(stage, worker)
        again = await rerun(stage, parent, "step 1")
        steps = (
            [[parent, child]] if parent_first is None else [[parent], [child]] if parent_first else [[child], [parent]]
        )
        for gone in steps:
            await pass_by(stage, *gone)
            await removals.expired(10)
        assert await there(stage, parent, child, again) == [False, False, True]
        assert await needed(references, child) == {"of the child"}
        await worker.claim()


async def _parent_and_child(stage: Stage, worker: Worker) -> tuple[UUID, UUID]:
    """Both have ended. The child's output is an object of its own, and the parent's journal points to it."""
    out = await stage.hot(worker)
    new = run()
    await stage.root.start(new, parent=out.run_id, call="invoke")
    [inner] = await worker.claim()
    await stage.root.execute("delete from onward.message where msg_id = $1", new.run_id)
    await stage.root.execute(
        "insert into onward.run_result (run_id, status, output, completed_at, expires_at) "
        "values ($1, 'completed', $2, onward.now(), 'infinity')",
        inner.run_id,
        pointer("of the child"),
    )
    answer = await worker.ask(out, "register", invoke("step 0", inner.run_id))
    assert [row.path for row in answer.rows] == ["step 0"]
    assert await worker.step(out, "step 1") == "ok"
    assert await worker.end(out, rows=2) == "ok"
    return out.run_id, inner.run_id


# ---- pointers ------------------------------------------------------------------------------------------------


async def test_every_column_that_may_hold_a_pointer_is_looked_at(
    stage: Stage, worker: Worker, references: References
) -> None:
    out = await stage.hot(worker, data=b"1")
    await stage.root.execute("update onward.run_input set input = $1", pointer("the input"))
    await worker.steps(out, "a", output=pointer("a step"))
    await worker.steps(out, "b", output=pointers.literal(b'{"$payload":{"key":"a value that looks like one"}}'))
    await stage.root.signal(out.run_id, "event")
    await stage.root.execute("update onward.signal set payload = $1", pointer("a signal"))
    found = {(one.part, one.name, pointers.decode(one.pointer).key) for one in await references.of([out.run_id])}
    assert found == {("input", None, "the input"), ("step", "a", "a step"), ("signal", "event", "a signal")}
    await worker.end(out, rows=2)
    await stage.root.execute("update onward.run_result set output = $1", pointer("the output"))
    assert await needed(references, out.run_id) == {"the input", "a step", "the output"}


async def test_pointers_are_listed_page_by_page_for_one_tenant_or_all(
    stage: Stage, worker: Worker, references: References, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.store.references._PAGE", 2)
    other = await stage.client("other")
    mine, theirs = [await stage.root.new() for _ in range(3)], await other.new()
    await stage.root.execute("update onward.run_input set input = $1", pointer("k"))
    pages = [page async for page in references.all("t")]
    assert [len(page) for page in pages] == [2, 1]
    assert {one.run_id for page in pages for one in page} == set(mine)
    assert {one.run_id async for page in references.all(None) for one in page} == {*mine, theirs}
