"""A check finds every object that is not what its pointer says, and says where it belongs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from client.stores import Store, opened, parent, two_values
from onward import Client, Worker
from onward.client import integrity
from onward.client.integrity import Checked, Damage
from onward.payloads.objects import Objects


@pytest.fixture
async def store(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", tmp_path.as_uri())
    async with opened(url, tmp_path) as store:
        await store.client.database()
        yield store


async def verified(store: Store, tenant: str | None = "default", **options: Any) -> Checked:
    database, total = await store.client.database(), Checked(0, 0, [])
    async for part in integrity.verify(database, store.client.payloads, tenant=tenant, **options):
        total = Checked(total.pointers + part.pointers, total.size + part.size, [*total.damaged, *part.damaged])
    return total


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


async def test_a_flipped_bit_a_truncated_and_a_removed_object_are_each_found(store: Store) -> None:
    run = await store.ended(two_values, "ab")
    assert await verified(store) == (3, 210_002, [])
    first, second, output = (
        next(store.folder / key for key in store.objects() if key.endswith(name))
        for name in ("first.txt", "second.txt", "output.json")
    )
    flip(first)
    second.write_bytes(second.read_bytes()[:-1])
    output.unlink()
    found = (await verified(store)).damaged
    assert {(d.run_id, d.where, d.key) for d in found} == {
        (UUID(run.id), "step 'first'", str(first.relative_to(store.folder))),
        (UUID(run.id), "step 'second'", str(second.relative_to(store.folder))),
        (UUID(run.id), "output", str(output.relative_to(store.folder))),
    }
    words = {d.where: d.problem for d in found}
    assert "SHA-256" in words["step 'first'"]
    assert "69,999 bytes" in words["step 'second'"]
    assert "is not in" in words["output"]


async def test_a_pointer_that_cannot_be_read_is_damage_too(store: Store) -> None:
    run = await store.ended(two_values, "ab")
    await store.sql("""update onward.step set output = '{"$payload":{"key":1}}' where name = 'first'""")
    [damage] = (await verified(store)).damaged
    assert (damage.run_id, damage.where, damage.key) == (UUID(run.id), "step 'first'", None)


async def test_one_run_a_tenant_or_all_are_checked(store: Store) -> None:
    one = await store.ended(two_values, "ab")
    await store.ended(parent)
    async with Client(store.url, tenant="other") as other, Worker(two_values, store.url):
        await (await other.start(two_values, "cd")).result(timeout=20)
    assert (await verified(store, run_id=UUID(one.id))).pointers == 3
    assert (await verified(store)).pointers == 3 + 3 + 1  # a parent's journal points to what its child gave
    assert (await verified(store, tenant=None)).pointers == 10


async def test_a_sample_is_as_large_as_asked_and_leaves_nothing_out_for_ever(store: Store) -> None:
    run = await store.ended(two_values, "ab")
    for key in store.objects():
        (store.folder / key).unlink()
    assert len((await verified(store, sample=100)).damaged) == 3
    seen: set[Damage] = set()
    while len(seen) < 3:
        sampled = await verified(store, sample=1)
        assert (sampled.pointers, len(sampled.damaged)) == (1, 1)
        seen |= set(sampled.damaged)
    assert {damage.run_id for damage in seen} == {UUID(run.id)}


async def test_a_run_that_is_removed_during_the_check_is_no_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await store.ended(two_values, "ab")
    read = Objects.read

    async def removed_meanwhile(objects: Objects, pointer: Any) -> bytes:
        await store.pass_by(run)
        await store.removed()
        return await read(objects, pointer)

    monkeypatch.setattr(Objects, "read", removed_meanwhile)
    assert (await verified(store)).damaged == []
    assert store.objects() == []


async def test_objects_are_read_side_by_side_but_not_without_bound(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ended(two_values, "ab")
    read, now, most = Objects.read, 0, 0

    async def counted(objects: Objects, pointer: Any) -> bytes:
        nonlocal now, most
        now += 1
        most = max(most, now)
        try:
            return await read(objects, pointer)
        finally:
            now -= 1

    monkeypatch.setattr(Objects, "read", counted)
    await verified(store)
    assert most == 3
    most = 0
    monkeypatch.setattr(integrity, "_BYTES_AT_ONCE", 150_000)
    await verified(store)
    assert most == 2
