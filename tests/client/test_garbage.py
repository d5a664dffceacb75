"""A sweep finds what no row needs, and nothing that a row needs or may yet come to need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from client.stores import LAYOUT, Store, opened, parent, two_values, waiting
from onward import RunHandle, Worker
from onward.client import garbage
from onward.payloads.layout import Owner, beside, staging
from onward.payloads.objects import Stored
from onward.store.handouts import HandOuts
from onward.store.references import References
from worker.conftest import World


@pytest.fixture
async def store(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", tmp_path.as_uri())
    async with opened(url, tmp_path) as store:
        await store.client.database()
        yield store


def keys(found: Iterable[Stored]) -> list[str]:
    return sorted(one.key for one in found)


async def running(store: Store) -> RunHandle[object]:
    """A run that waits, with one large value journalled."""
    async with Worker(waiting, store.url):
        run = await store.client.start(waiting, "a")
        while (await run.get()).state != "waiting":
            await asyncio.sleep(0.01)
        return run


async def test_a_crash_between_object_and_journal_leaves_an_orphan_that_sweep_finds_and_nothing_else(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never_answered(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async with AsyncExitStack() as stack:
        world = World(store.url, stack, store.client)
        with monkeypatch.context() as patched:
            patched.setattr(HandOuts, "commit", never_answered)
            worker = await world.worker(two_values)
            run = await store.client.start(two_values, "ab")
            while store.of(run) != ["first.txt"]:
                await asyncio.sleep(0.01)
            await world.crash(worker)
    await store.sql("update onward.run_input set input = '\"xy\"'")  # another value than the first time
    async with Worker(two_values, store.url):
        await run.result(timeout=20)
    [orphan] = [key for key in store.objects() if key.endswith("first.txt")]
    store.age(2)
    assert len(store.of(run)) == 4
    swept = await store.swept()
    assert (keys(swept.orphans), swept.looked_at) == ([orphan], 4)
    assert len(store.of(run)) == 3
    assert keys((await store.swept()).orphans) == []


async def test_what_rows_point_to_is_never_an_orphan(store: Store) -> None:
    ended, goes_on, above = await store.ended(two_values, "ab"), await running(store), await store.ended(parent)
    await store.client.signal(goes_on.id, "later", "s" * 70_000)
    await store.client.rerun(ended.id, from_step="second")
    await store.pass_by(ended)
    await store.removed()
    before = store.objects()
    store.age(100)
    swept = await store.swept(0)
    assert (swept.looked_at, keys(swept.orphans), keys(swept.unsettled)) == (len(before), [], [])
    assert store.objects() == before
    assert store.of(above) == []  # what it has is its child's


async def test_objects_of_runs_that_are_gone_or_never_came_are_orphans(store: Store) -> None:
    owner = Owner("acme", "never-started", uuid4())
    left = [
        store.write(key, days=2)
        for key in (LAYOUT.input(owner), LAYOUT.step(owner, "a", "json"), LAYOUT.signal(owner, uuid4()))
    ]
    assert keys((await store.swept()).orphans) == sorted(left)
    assert store.objects() == []


async def test_what_is_younger_than_a_day_is_left(store: Store) -> None:
    owner = Owner("default", "w", uuid4())
    young, old = (
        store.write(LAYOUT.step(owner, name, "json"), days=days) for name, days in (("young", 0.99), ("old", 1.01))
    )
    assert keys((await store.swept()).orphans) == [old]
    assert store.objects() == [young]
    assert keys((await store.swept(0.5)).orphans) == [young]


async def test_a_dry_run_tells_the_same_and_deletes_nothing(store: Store) -> None:
    key = store.write(LAYOUT.step(Owner("default", "w", uuid4()), "a", "json"), days=2)
    old = store.write(LAYOUT.invalid("default", uuid4()), days=11)
    dry = await store.swept(dry_run=True)
    assert store.objects() == sorted([key, old])
    assert dry == await store.swept()
    assert store.objects() == []


async def test_a_stale_attempts_object_is_an_orphan_once_its_step_is_journalled(store: Store) -> None:
    run = await running(store)
    owner = store.owner(run, "waiting")
    stale = [
        store.write(beside(LAYOUT.step(owner, "first", "txt"), "0" * 64), days=2),
        store.write(LAYOUT.step(owner, "first", "json"), days=2),
        store.write(staging(LAYOUT.step(owner, "first", "txt"), uuid4()), days=2),
        store.write(staging(LAYOUT.step(owner, "not journalled", "txt"), uuid4()), days=2),
        store.write(LAYOUT.signal(owner, uuid4()), days=2),
    ]
    assert keys((await store.swept()).orphans) == sorted(stale)


async def test_what_a_run_that_goes_on_may_still_take_up_is_told_and_left(store: Store) -> None:
    run = await running(store)
    open_ = store.write(LAYOUT.step(store.owner(run, "waiting"), "not journalled", "txt"), days=2)
    swept = await store.swept()
    assert (keys(swept.orphans), keys(swept.unsettled)) == ([], [open_])
    assert open_ in store.objects()
    await store.client.cancel(run.id)
    assert keys((await store.swept()).unsettled) == [open_]  # a batch may be in flight
    await store.sql("update onward.run_result set completed_at = completed_at - interval '11 minutes'")
    assert keys((await store.swept()).orphans) == [open_]


async def test_what_is_journalled_while_a_sweep_looks_is_not_deleted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await running(store)
    [there] = [key for key in store.objects() if run.id in key]
    store.age(2)
    row = await store.sql("delete from onward.step returning *")
    real = References.paths

    async def journalled_just_before(self: References, ids: object) -> object:
        await store.sql(
            "insert into onward.step (run_id, name, kind, output, attempt, receipt, started_at, completed_at) "
            "values ($1, $2, 'run', $3, 1, 1, now(), now())",
            *(row[0][name] for name in ("run_id", "name", "output")),
        )
        return await real(self, ids)  # type: ignore[arg-type]

    monkeypatch.setattr(References, "paths", journalled_just_before)
    assert keys((await store.swept()).orphans) == []
    assert store.objects() == [there]


async def test_inputs_and_outputs_that_are_written_for_all_runs_are_no_orphans(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONWARD_PAYLOAD_PERSIST", "all")
    await store.client.close()
    run = await store.ended(two_values, "ab")
    assert store.of(run)[:2] == ["input.json", "output.json"]
    store.age(2)
    await store.client.database()
    assert keys((await store.swept()).orphans) == []


async def test_what_is_no_object_of_a_run_is_left_alone(store: Store) -> None:
    strange = [
        store.write(key, days=2)
        for key in (
            "onward/workflow-payloads/readme.txt",
            "onward/executions/default/w/no-run/input.json",
            "other/workflow-payloads/default/w/01890a5d-ac96-774b-bcce-b302099a8057/a.json",
            LAYOUT.artifact(Owner("default", "w", uuid4()), "reports", "a", "json"),
        )
    ]
    assert keys((await store.swept(0)).orphans) == []
    assert store.objects() == sorted(strange)


async def test_a_folder_has_its_tmp_emptied_after_ten_days(store: Store) -> None:
    old, young = (store.write(LAYOUT.oversized("default", uuid4()), days=days) for days in (10.1, 9.9))
    assert keys((await store.swept()).outdated) == [old]
    assert store.objects() == [young]


async def test_a_sweep_goes_in_batches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_AT_ONCE", 3)
    run = await store.ended(two_values, "ab")
    store.age(2)
    for number in range(7):
        store.write(LAYOUT.step(store.owner(run), f"left {number}", "json"), days=2)
    swept = await store.swept()
    assert (swept.looked_at, len(swept.orphans)) == (10, 7)
    assert len(store.of(run)) == 3


@pytest.mark.usefixtures("no_store")
async def test_without_a_store_there_is_nothing_to_sweep(url: str, tmp_path: Path) -> None:
    async with opened(url, tmp_path) as store:
        assert await store.swept() == (0, (), (), ())
