"""What holds for a folder only: when an object is there for good, and what a crash leaves."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from onward.core.pointers import JSON
from onward.payloads import disk, trouble
from onward.payloads.layout import Layout, Owner
from onward.payloads.objects import Objects, StoreUnavailable
from payloads.places import Folder, all_of

LAYOUT = Layout("onward")
OWNER = Owner("default", "onboard", UUID("01890a5d-ac96-774b-bcce-b302099a8057"))
KEY = LAYOUT.step(OWNER, "create-user", "json")


class Synced:
    """What was synced, and linked, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, int]] = []
        fsync, link = os.fsync, os.link

        def seen_fsync(descriptor: int) -> None:
            fsync(descriptor)
            self.done.append(("sync", os.fstat(descriptor).st_ino))

        def seen_link(source: str, target: str) -> None:
            link(source, target)
            self.done.append(("link", os.stat(target).st_ino))

        monkeypatch.setattr(disk.os, "fsync", seen_fsync)
        monkeypatch.setattr(disk.os, "link", seen_link)

    def take(self) -> list[tuple[str, int]]:
        done, self.done = self.done, []
        return done


async def test_an_object_and_its_way_are_synced_before_it_counts(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, objects = Synced(monkeypatch), Objects.open(folder.url)
    await objects.create(KEY, b"[1]", JSON)
    file = folder.path / KEY
    inode, *way = (path.stat().st_ino for path in [file, *file.parents][: KEY.count("/") + 2])
    assert way[-1] == folder.path.stat().st_ino
    assert synced.take() == [("sync", inode), ("link", inode), *(("sync", above) for above in way)]

    await objects.create(LAYOUT.step(OWNER, "another", "json"), b"[2]", JSON)
    assert synced.take()[2:] == [("sync", way[0])]


async def test_what_another_process_wrote_is_synced_before_it_is_taken(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Objects.open(folder.url).create(KEY, b"[1]", JSON)
    synced = Synced(monkeypatch)
    await Objects.open(folder.url).create(KEY, b"[1]", JSON)
    file = folder.path / KEY
    way = [path.stat().st_ino for path in [*file.parents][: KEY.count("/") + 1]]
    assert synced.take() == [("sync", above) for above in way]


CRASH = """
import asyncio, os, sys
from onward.core.pointers import JSON
from onward.payloads.objects import Objects
url, key, call = sys.argv[1:]
setattr(os, call, lambda *_: os._exit(9))
asyncio.run(Objects.open(url).create(key, b"[1]", JSON))
"""


@pytest.mark.parametrize("call", ["fsync", "link"])
async def test_a_crash_leaves_no_half_object_and_nothing_that_a_sweep_would_miss(folder: Folder, call: str) -> None:
    assert subprocess.run([sys.executable, "-c", CRASH, folder.url, KEY, call], check=False).returncode == 9
    objects = Objects.open(folder.url)
    assert await objects.head(KEY) is None
    (left,) = await all_of(objects, LAYOUT.run(OWNER)[0])
    assert LAYOUT.owner(left) == OWNER
    assert left != KEY
    assert (await objects.create(KEY, b"[1]", JSON)).key == KEY
    await objects.delete([left])
    assert folder.keys() == [KEY]


@pytest.mark.parametrize("call", ["fsync", "link"])
async def test_a_full_disk_leaves_nothing_and_passes(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    objects = Objects.open(folder.url)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(disk.os, call, full)
        with pytest.raises(StoreUnavailable, match="is full: free some space"):
            await objects.create(KEY, b"[1]", JSON)
        with pytest.raises(StoreUnavailable, match="is full: free some space"):
            await objects.check(LAYOUT.probe)
    assert folder.keys() == []
    assert (await objects.create(KEY, b"[1]", JSON)).key == KEY


async def test_what_lies_in_the_folder_is_for_its_owner_only(folder: Folder) -> None:
    await Objects.open(folder.url).create(KEY, b"[1]", JSON)
    file = folder.path / KEY
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for path in [*file.parents][: KEY.count("/") + 1]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_a_folder_that_is_there_keeps_its_mode(folder: Folder) -> None:
    folder.path.mkdir(parents=True)
    folder.path.chmod(0o750)
    await Objects.open(folder.url).create(KEY, b"[1]", JSON)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o750


async def test_folders_go_with_the_last_object_in_them(folder: Folder) -> None:
    objects = Objects.open(folder.url)
    keys = [*(LAYOUT.step(OWNER, name, "json") for name in "abc"), LAYOUT.input(OWNER)]
    for key in keys:
        await objects.create(key, b"[1]", JSON)
    await objects.delete(keys[1:])
    assert [path.name for path in (folder.path / "onward").iterdir()] == ["workflow-payloads"]
    await objects.delete(keys[:1])
    assert [*folder.path.iterdir()] == []


async def test_a_create_survives_that_its_folder_is_removed_meanwhile(folder: Folder) -> None:
    creator, sweeper = Objects.open(folder.url), Objects.open(folder.url)

    async def create_all() -> None:
        for number in range(200):
            await creator.create(KEY, b"%d" % number, JSON)

    creating = asyncio.create_task(create_all())
    while not creating.done():
        await sweeper.delete([stored.key async for stored in sweeper.list("") if not stored.key.endswith(".part")])
    await creating


async def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"file/payloads for payloads"):
        Objects.open(f"file://{tmp_path}/file/payloads")


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EACCES, r"/data .*make /data readable and writable for this user, or set ONWARD_PAYLOAD_URL"),
        (errno.EROFS, r"make /data readable and writable"),
        (errno.EDQUOT, r"/data is full"),
        (errno.ENOENT, r"/data for payloads is not there .*mount it"),
        (errno.EIO, r"cannot use the folder /data .*until then it is tried again"),
    ],
)
def test_trouble_with_a_folder_says_what_to_do(number: int, advice: str) -> None:
    error = trouble.from_os(OSError(number, os.strerror(number)), Path("/data"))
    assert error.args[0].count("\n") == 0
    with pytest.raises(StoreUnavailable, match=advice):
        raise error
