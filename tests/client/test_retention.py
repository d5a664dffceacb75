"""Rows first, objects after: what a crash leaves is finished later, and what a row points to is never deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from client.stores import LAYOUT, Store, opened, parent, two_values, waiting
from onward import RunHandle, Worker
from onward.client import retention
from onward.errors import NotFound
from onward.payloads.objects import Objects, Stored
from onward.payloads.trouble import StoreUnavailable


@pytest.fixture
async def store(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", tmp_path.as_uri())
    async with opened(url, tmp_path) as store:
        yield store


async def whole(store: Store, run: RunHandle[Any]) -> list[Any]:
    """Every value of a run, read from where it lies."""
    return [await store.client.payloads.whole(s.output) for s in await store.client.step_records(run.id) if s.output]


async def test_payloads_go_with_their_run_and_only_with_theirs(store: Store) -> None:
    gone, stays = await store.ended(two_values, "ab"), await store.ended(two_values, "cd")
    await store.pass_by(gone)
    counts = await store.removed()
    assert counts == (1, 3, 210_002)
    assert store.of(gone) == []
    assert store.of(stays) == ["output.json", "first.txt", "second.txt"]
    assert await store.count("removed") == 0
    with pytest.raises(NotFound):
        await store.client.get(gone.id)


async def test_objects_that_no_row_names_go_with_their_run_as_well(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONWARD_PAYLOAD_PERSIST", "all")
    await store.client.close()
    run = await store.ended(two_values, "ab")
    left = store.write(LAYOUT.step(store.owner(run), "never journalled", "json"))
    assert store.of(run) == ["input.json", "output.json", "first.txt", left.rpartition("/")[2], "second.txt"]
    await store.pass_by(run)
    await store.removed()
    assert store.objects() == []


async def test_what_is_no_runs_stays(store: Store) -> None:
    run = await store.ended(two_values, "ab")
    kept = [store.write(LAYOUT.artifact(store.owner(run), "reports", "first", "txt")), store.write(f"{LAYOUT.tmp}x")]
    await store.pass_by(run)
    await store.removed()
    assert store.objects() == sorted(kept)


async def test_rows_go_before_objects_and_a_crash_between_is_finished_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await store.ended(two_values, "ab")
    await store.pass_by(run)

    async def crash(*_: Any) -> None:
        assert await store.count("run") == 0
        raise ConnectionAbortedError

    with monkeypatch.context() as patched:
        patched.setattr(Objects, "delete", crash)
        with pytest.raises(ConnectionAbortedError):
            await store.removed()
    assert len(store.of(run)) == 3
    assert await store.removed() == (0, 3, 210_002)
    assert (store.objects(), await store.count("removed")) == ([], 0)


async def test_a_crash_after_the_first_batch_of_objects_is_finished_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "OBJECTS_AT_ONCE", 2)
    run = await store.ended(two_values, "ab")
    for number in range(5):
        store.write(LAYOUT.step(store.owner(run), f"{number}", "json"))
    await store.pass_by(run)
    delete, calls = Objects.delete, []

    async def crash(objects: Objects, keys: Any) -> None:
        calls.append(list(keys))
        if len(calls) > 1:
            raise ConnectionAbortedError
        await delete(objects, calls[0])

    with monkeypatch.context() as patched:
        patched.setattr(Objects, "delete", crash)
        with pytest.raises(ConnectionAbortedError):
            await store.removed()
    assert (len(calls[0]), len(store.of(run))) == (2, 6)
    await store.removed()
    assert (store.objects(), await store.count("removed")) == ([], 0)


async def test_what_a_listing_hides_while_its_folder_is_emptied_goes_as_well(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, real = await store.ended(two_values, "ab"), Objects.list

    async def hiding(objects: Objects, prefix: str) -> AsyncIterator[Stored]:
        async for stored in real(objects, prefix):
            yield stored
            return

    monkeypatch.setattr(Objects, "list", hiding)
    await store.pass_by(run)
    assert (await store.removed()).objects == 3
    assert store.objects() == []


async def test_a_store_that_is_away_leaves_the_work_to_the_next_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.client.payloads.PATIENCE", 0.2)
    run = await store.ended(two_values, "ab")
    await store.pass_by(run)
    away = store.folder.with_name("away")
    store.folder.rename(away)
    with pytest.raises(StoreUnavailable):
        await store.removed()
    away.rename(store.folder)
    assert (await store.removed()).objects == 3
    assert await store.count("removed") == 0


async def test_an_object_that_a_rerun_points_to_outlives_its_run(store: Store) -> None:
    original = await store.ended(two_values, "ab")
    again = await store.client.rerun(original.id, from_step="second")
    await store.pass_by(original)
    await store.removed()
    assert store.of(original) == ["first.txt"]
    async with Worker(two_values, store.url):
        await again.result(timeout=20)  # it replays the value that it borrowed
    assert await whole(store, again) == [b'"' + b"a" * 70_000 + b'"', b'"' + b"b" * 70_000 + b'"', b"2"]
    await store.pass_by(again)
    await store.removed()
    assert (store.objects(), await store.count("removed"), await store.count("borrowed")) == ([], 0, 0)


async def test_an_object_outlives_its_run_over_any_chain_of_reruns(store: Store) -> None:
    first = await store.ended(two_values, "ab")
    runs = [first]
    for _ in range(3):
        runs.append(await store.client.rerun(runs[-1].id, from_step="small"))
        async with Worker(two_values, store.url):
            await runs[-1].result(timeout=20)
    for gone in (runs[1], runs[0], runs[2]):
        await store.pass_by(gone)
        await store.removed()
        assert store.of(first)[-2:] == ["first.txt", "second.txt"]
    assert len(await whole(store, runs[3])) == 3
    await store.pass_by(runs[3])
    await store.removed()
    assert store.objects() == []


async def test_what_a_child_gave_its_parent_stays_as_long_as_the_parent(store: Store) -> None:
    run = await store.ended(parent)
    [step] = await run.steps()
    child = store.client.handle(step.output.key.split("/")[-2])
    await store.pass_by(child)
    await store.removed()
    assert store.of(child) == ["output.json"]
    assert await whole(store, run) == [b'"' + b"x" * 70_000 + b'"']
    await store.pass_by(run)
    await store.removed()
    assert (store.objects(), await store.count("borrowed")) == ([], 0)


async def test_a_run_that_goes_on_is_left_alone(store: Store) -> None:
    async with Worker(waiting, store.url):
        run = await store.client.start(waiting, "a", retention=0)
        while (await run.get()).state != "waiting":
            pass
        assert await store.removed() == (0, 0, 0)
        assert store.of(run) == ["first.txt"]


@pytest.mark.usefixtures("no_store")
async def test_without_a_store_runs_are_removed_all_the_same(url: str, tmp_path: Path) -> None:
    async with opened(url, tmp_path) as store:
        async with Worker(two_values, url):
            run = await store.client.start(two_values, "ab")
            await run.result(timeout=20)
        await store.pass_by(run)
        assert await store.removed() == (1, 0, 0)
        assert (await store.count("removed"), await store.count("step")) == (0, 0)


async def test_retention_counts_from_the_end_of_a_run(store: Store) -> None:
    async with Worker(two_values, store.url):
        run = await store.client.start(two_values, "ab", retention="1h")
        await run.result(timeout=20)
    [row] = await store.sql(
        "select x.expires_at - x.completed_at from onward.run_result x where run_id = $1", UUID(run.id)
    )
    assert row[0].total_seconds() == 3600
