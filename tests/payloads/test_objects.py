"""What holds for a folder and for a bucket alike."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from onward.core.pointers import BINARY, JSON, TEXT, Pointer
from onward.errors import InvalidInput, PayloadCorrupt, PayloadMissing
from onward.payloads import cloud, disk, layout
from onward.payloads.layout import Layout, Owner
from onward.payloads.medium import Medium
from onward.payloads.objects import Objects, StoreUnavailable
from payloads.places import Place, all_of

LAYOUT = Layout("onward")
OWNER = Owner("default", "onboard", UUID("01890a5d-ac96-774b-bcce-b302099a8057"))
KEY = LAYOUT.step(OWNER, "create-user", "json")
MIB = 1 << 20


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 100_000, 2 * MIB])
@pytest.mark.parametrize("content_type", [JSON, TEXT, BINARY])
async def test_an_object_comes_back_as_it_was(place: Place, size: int, content_type: str) -> None:
    objects, data = Objects.open(place.url), os.urandom(size)
    pointer = await objects.create(KEY, data, content_type)
    assert pointer == Pointer(KEY, sha(data), size, content_type)
    assert await objects.read(pointer) == data
    assert await objects.head(KEY) == size
    assert place.keys() == [KEY]


async def test_an_equal_object_is_taken_as_written(place: Place) -> None:
    first = await Objects.open(place.url).create(KEY, b"[1]", JSON)
    again = await Objects.open(place.url).create(KEY, b"[1]", JSON)
    assert again == first
    assert place.keys() == [KEY]


async def test_another_object_goes_beside_and_changes_nothing(place: Place) -> None:
    objects = Objects.open(place.url)
    first = await objects.create(KEY, b"[1]", JSON)
    other = await objects.create(KEY, b"[2]", JSON)
    third = await objects.create(KEY, b"[10]", JSON)
    assert other.key == layout.beside(KEY, sha(b"[2]"))
    assert await objects.create(KEY, b"[2]", JSON) == other
    assert [await objects.read(pointer) for pointer in (first, other, third)] == [b"[1]", b"[2]", b"[10]"]
    assert place.keys() == sorted([KEY, other.key, third.key])


async def test_of_creators_at_once_one_gets_the_key_and_each_reads_its_own(place: Place) -> None:
    values = [os.urandom(1000) for _ in range(3)]
    workers = [Objects.open(place.url) for _ in values]
    pointers = await asyncio.gather(
        *(worker.create(KEY, value, BINARY) for worker, value in zip(workers, values, strict=True))
    )
    assert [pointer.key for pointer in pointers].count(KEY) == 1
    assert len({pointer.key for pointer in pointers}) == len(values)
    assert await asyncio.gather(*(workers[0].read(pointer) for pointer in pointers)) == values


async def test_creators_of_the_same_object_at_once_share_it(place: Place) -> None:
    workers = [Objects.open(place.url) for _ in range(3)]
    pointers = await asyncio.gather(*(worker.create(KEY, b"[1]", JSON) for worker in workers))
    assert {pointer.key for pointer in pointers} == {KEY}
    assert place.keys() == [KEY]


# ---- large objects ---------------------------------------------------------------------------------------


async def test_a_large_object_is_created_once_and_comes_back(place: Place) -> None:
    objects, data = Objects.open(place.url), os.urandom(40 * MIB)
    pointer = await objects.create(KEY, data, BINARY)
    assert pointer == Pointer(KEY, sha(data), len(data), BINARY)
    assert await objects.create(KEY, data, BINARY) == pointer
    assert await objects.read(pointer) == data
    assert place.keys() == [KEY]


async def test_of_large_objects_at_once_one_gets_the_key(place: Place) -> None:
    values = [os.urandom(9 * MIB) for _ in range(2)]
    workers = [Objects.open(place.url) for _ in values]
    pointers = await asyncio.gather(
        *(worker.create(KEY, value, BINARY) for worker, value in zip(workers, values, strict=True))
    )
    assert [pointer.key for pointer in pointers].count(KEY) == 1
    assert await asyncio.gather(*(workers[0].read(pointer) for pointer in pointers)) == values
    assert place.keys() == sorted(pointer.key for pointer in pointers)


async def test_a_large_object_of_another_size_is_not_fetched(place: Place) -> None:
    objects = Objects.open(place.url)
    await objects.create(KEY, bytes(9 * MIB), BINARY)
    with pytest.raises(PayloadCorrupt, match=r"has 9,437,184 bytes and should have 20,971,520"):
        await objects.read(Pointer(KEY, sha(b""), 20 * MIB, BINARY))
    with pytest.raises(PayloadMissing):
        await objects.read(Pointer("not/there", sha(b""), 20 * MIB, BINARY))


async def test_the_event_loop_goes_on_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, hashed = set(), hashlib.sha256

    def hashing(data: bytes) -> object:
        seen.add(threading.current_thread())
        return hashed(data)

    monkeypatch.setattr("onward.payloads.objects.hashlib.sha256", hashing)
    objects = Objects.open(place.url)
    assert await objects.read(await objects.create(KEY, b"[1]", JSON)) == b"[1]"
    assert seen
    assert threading.current_thread() not in seen


# ---- damage ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: bytes([data[0] ^ 1]) + data[1:], "its SHA-256 is another"),
        (lambda data: data[:-1], "it has 999 bytes and should have 1,000"),
        (lambda data: data + b"\n", "it has 1,001 bytes and should have 1,000"),
        (lambda data: b"", "it has 0 bytes and should have 1,000"),
    ],
)
async def test_damage_is_noticed(place: Place, damage: Callable[[bytes], bytes], says: str) -> None:
    objects, data = Objects.open(place.url), os.urandom(1000)
    pointer = await objects.create(KEY, data, BINARY)
    place.overwrite(KEY, damage(data))
    with pytest.raises(PayloadCorrupt, match=f"{KEY}.*{says}"):
        await objects.read(pointer)


async def test_a_removed_object_is_missing_until_it_is_back(place: Place) -> None:
    objects = Objects.open(place.url)
    pointer = await objects.create(KEY, b"[1]", JSON)
    await objects.create(f"{KEY}.neighbour", b"[1]", JSON)
    place.remove(KEY)
    with pytest.raises(PayloadMissing, match=KEY):
        await objects.read(pointer)
    place.overwrite(KEY, b"[1]")
    assert await objects.read(pointer) == b"[1]"


async def test_a_damaged_object_is_not_taken_as_written(place: Place) -> None:
    objects = Objects.open(place.url)
    await objects.create(KEY, b"[1]", JSON)
    place.overwrite(KEY, b"[3]")
    pointer = await objects.create(KEY, b"[1]", JSON)
    assert pointer.key == layout.beside(KEY, sha(b"[1]"))
    assert await objects.read(pointer) == b"[1]"
    place.overwrite(pointer.key, b"[3]")
    with pytest.raises(PayloadCorrupt, match=pointer.key):
        await objects.create(KEY, b"[1]", JSON)


# ---- keys ------------------------------------------------------------------------------------------------


async def test_a_key_is_taken_and_listed_letter_by_letter(place: Place) -> None:
    objects = Objects.open(place.url)
    keys = [LAYOUT.step(OWNER, path, "json") for path in ("a b", "a%20b", "a/b", "ä#2", "..", "x" * 300, "a\x1fb", "A")]
    pointers = [await objects.create(key, key.encode(), JSON) for key in keys]
    assert [await objects.read(pointer) for pointer in pointers] == [key.encode() for key in keys]
    assert await all_of(objects, LAYOUT.run(OWNER)[0]) == sorted(keys)
    assert place.keys() == sorted(keys)


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "", "a/", "a\0b"])
async def test_no_key_leads_out_of_the_store(place: Place, key: str) -> None:
    objects = Objects.open(place.url)
    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: objects.create(key, b"", JSON),
        lambda: objects.read(Pointer(key, sha(b""), 0, JSON)),
        lambda: objects.head(key),
        lambda: objects.delete([key]),
        lambda: objects.url(key, timedelta(minutes=1)),
        lambda: all_of(objects, f"{key}/"),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match="no key of a payload"):
            await attempt()


# ---- lists, deletes, copies ------------------------------------------------------------------------------


async def test_a_list_shows_what_is_below_its_prefix_and_no_more(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_LISTED_AT_ONCE", 2)
    monkeypatch.setattr(cloud, "_LISTED_AT_ONCE", 2)
    objects = Objects.open(place.url)
    began = datetime.now(UTC) - timedelta(seconds=2)  # S3 tells whole seconds
    for key in ("a/b/1", "a/b/2", "a/b/c/3", "a/b/c/4", "a/b/5", "a/bc/6", "a/7"):
        await objects.create(key, key.encode() * len(key), JSON)
    found = [stored async for stored in objects.list("a/b/")]
    assert sorted(stored.key for stored in found) == ["a/b/1", "a/b/2", "a/b/5", "a/b/c/3", "a/b/c/4"]
    assert all(stored.size == len(stored.key) ** 2 for stored in found)
    assert all(began <= stored.modified <= datetime.now(UTC) for stored in found)
    assert len(await all_of(objects)) == 7
    assert await all_of(objects, "nothing/here/") == []


async def test_a_delete_takes_what_is_there_and_nothing_else(place: Place) -> None:
    objects = Objects.open(place.url)
    for key in ("a/1", "a/2", "b/1"):
        await objects.create(key, b"", JSON)
    for _ in range(2):
        await objects.delete(["a/1", "b/1", "never/there", "a/1"])
        assert place.keys() == ["a/2"]
    await objects.delete([])
    assert await objects.head("a/1") is None
    assert await objects.head("a/2") == 0


async def test_more_is_deleted_than_fits_into_one_request(place: Place) -> None:
    objects = Objects.open(place.url)
    await objects.create("a/1", b"", JSON)
    await objects.delete(f"a/{number}" for number in range(1200, 0, -1))
    assert place.keys() == []


async def test_a_copy_is_the_same_value_and_overwrites_nothing(place: Place) -> None:
    objects = Objects.open(place.url)
    source = await objects.create("tmp/a.json", b"[1]", JSON)
    copy = await objects.copy(source, KEY)
    assert copy == Pointer(KEY, source.sha256, 3, JSON)
    assert await objects.copy(source, KEY) == copy
    other = await objects.copy(await objects.create("tmp/b.json", b"[2]", JSON), KEY)
    assert other.key == layout.beside(KEY, sha(b"[2]"))
    place.overwrite("tmp/a.json", b"[9]")
    assert [await objects.read(pointer) for pointer in (copy, other)] == [b"[1]", b"[2]"]


async def test_what_is_damaged_is_not_copied(place: Place) -> None:
    objects = Objects.open(place.url)
    source = await objects.create("tmp/a.json", b"[1]", JSON)
    place.overwrite("tmp/a.json", b"[9]")
    with pytest.raises(PayloadCorrupt):
        await objects.copy(source, KEY)
    assert await objects.head(KEY) is None


async def test_an_object_that_is_deleted_while_it_is_compared_is_written_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects.open(place.url)
    await objects.create(KEY, b"[1]", JSON)
    medium: Medium = objects._medium
    get = medium.get

    def deleted_first(key: str, size: int) -> object:
        medium.delete([key])
        return get(key, size)

    monkeypatch.setattr(medium, "get", deleted_first)
    pointer = await objects.create(KEY, b"[1]", JSON)
    assert pointer.key == KEY
    assert place.keys() == [KEY]


# ---- a store that cannot be used -------------------------------------------------------------------------


async def test_a_good_store_passes_its_check_again_and_again(place: Place) -> None:
    objects = Objects.open(place.url)
    await objects.create(KEY, b"[1]", JSON)
    for _ in range(2):
        await objects.check(LAYOUT.probe)
        assert set(place.keys()) <= {KEY, LAYOUT.probe}


async def test_a_store_that_is_gone_is_unavailable_and_not_empty(own_place: Place) -> None:
    objects = Objects.open(own_place.url)
    pointer = await objects.create(KEY, b"[1]", JSON)
    own_place.vanish()
    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: objects.create(KEY, b"[1]", JSON),
        lambda: objects.create(KEY, bytes(9 * MIB), JSON),
        lambda: objects.read(pointer),
        lambda: objects.head(KEY),
        lambda: all_of(objects, LAYOUT.swept[0]),
        lambda: objects.check(LAYOUT.probe),
    ]
    for attempt in attempts:
        with pytest.raises(StoreUnavailable, match=r"there is no bucket|is not there"):
            await attempt()


@pytest.mark.parametrize("written", ["{}", "{}/"])
async def test_one_address_has_one_form(place: Place, written: str) -> None:
    objects = Objects.open(written.format(place.url))
    assert objects.address == place.url
    assert repr(objects) == f"Objects({place.url})"
