"""Payloads in a folder of this machine.

An object appears whole under its key or not at all, and is there for good before its pointer is journalled:

1. It is written beside its key, under a name of its own, and synced.
2. That file is linked to the key. The link is made once: who comes second is told that the key is taken.
3. The folder is synced, and each folder above it that this process has not seen synced. A second creator syncs as well
   before it takes what it found for written: the first may not have come that far
   (`test_an_object_and_its_way_are_synced_before_it_counts`, `test_what_another_process_wrote_is_synced_...`).

A crash leaves at most a file `~{uuid}.part`, which lists like any object, belongs to the run and is swept as an orphan.

obstore has a local store too, and it would not do. Its create is atomic (a file beside, then a link), but neither file
nor folder is synced (object_store 0.14.2, seen with strace), so after a power failure a committed pointer could name an
empty object; its staging files are called `#1`, hidden from every listing, and stay for ever after a crash; its
copies are hard links, so one flipped bit damages both. The syncs cost little where several objects are written at
once, and most of the time of one that is written alone.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from io import RawIOBase
from itertools import islice
from pathlib import Path
from uuid import uuid4

from onward.payloads import layout, trouble
from onward.payloads.medium import Found, Stored

_LISTED_AT_ONCE = 1000
_REMEMBERED = 10_000


class Disk:
    """A folder. It is created when opened, with its contents for this user only, and never again: a folder that is gone
    later was unmounted, and to write in its place would hide what it holds."""

    threads = 4

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._synced: set[str] = set()
        with self._trouble():
            if not folder.is_dir():
                folder.mkdir(0o700, parents=True, exist_ok=True)

    def put(self, key: str, data: bytes, content_type: str) -> bool:
        with self._trouble():
            path = self._path(key)
            created = not os.path.exists(path) and self._create(path, data)
            self._sync(_above(path))
            return created

    def get(self, key: str, size: int) -> Found | None:
        with self._trouble():
            try:
                with open(self._path(key), "rb") as file:
                    there = os.fstat(file.fileno()).st_size
                    return Found(there, file.read() if there == size else b"")
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self._expect_folder()
                return None

    def head(self, key: str) -> int | None:
        with self._trouble():
            try:
                there = os.stat(self._path(key))
            except (FileNotFoundError, NotADirectoryError):
                self._expect_folder()
                return None
            return there.st_size if stat.S_ISREG(there.st_mode) else None

    def list(self, prefix: str) -> Iterator[Sequence[Stored]]:
        with self._trouble():
            self._expect_folder()
            files = self._files(prefix.rstrip("/"))
            while batch := list(islice(files, _LISTED_AT_ONCE)):
                yield batch

    def delete(self, keys: Sequence[str]) -> None:
        with self._trouble():
            for path in map(self._path, keys):
                with suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(path)
            for folder in {_above(self._path(key)) for key in keys}:
                self._prune(folder)

    def sign(self, key: str, expires: timedelta) -> None:
        return None

    def probe(self, key: str) -> None:
        key = layout.staging(key, uuid4())
        self.put(key, b"probe", "")
        self.get(key, 5)
        self.delete([key])

    # ---- writing -----------------------------------------------------------------------------------------

    def _create(self, path: str, data: bytes) -> bool:
        staged = self._staged(path, data)
        try:
            os.link(staged, path)
        except FileExistsError:
            return False
        finally:
            os.unlink(staged)
        return True

    def _staged(self, path: str, data: bytes) -> str:
        staged = layout.staging(path, uuid4())
        descriptor = self._opened(staged)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                _write(file, data)
                os.fsync(descriptor)
        except BaseException:
            os.unlink(staged)
            raise
        return staged

    def _opened(self, path: str) -> int:
        for last in (False, False, False, True):  # a folder that was just made may be pruned again before it is used
            try:
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                if last:
                    raise
                self._make(_above(path))
        raise AssertionError

    def _make(self, folder: str) -> None:
        missing = [folder]
        while missing:
            if missing[-1] == self._folder:
                self._expect_folder()
            try:
                os.mkdir(missing[-1], 0o700)
            except FileNotFoundError:
                missing.append(_above(missing[-1]))
            except FileExistsError:
                missing.pop()
            else:
                self._synced.discard(missing.pop())

    def _sync(self, folder: str) -> None:
        """This folder, and those above whose entries nobody here has synced yet."""
        new = []
        self._sync_one(folder)
        while folder != self._folder and folder not in self._synced:
            new.append(folder)
            folder = _above(folder)
            self._sync_one(folder)
        if len(self._synced) > _REMEMBERED:
            self._synced.clear()
        self._synced.update(new)

    def _sync_one(self, folder: str) -> None:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # what was in it has been deleted meanwhile, and the folder with it
            return self._expect_folder()
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # ---- the folder --------------------------------------------------------------------------------------

    def _files(self, prefix: str) -> Iterator[Stored]:
        folders = [self._path(prefix) if prefix else self._folder]
        while folders:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif stored := self._stored(entry):
                        yield stored

    def _stored(self, entry: os.DirEntry[str]) -> Stored | None:
        try:
            there = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        key = entry.path[len(self._folder) + 1 :]
        return Stored(key, there.st_size, datetime.fromtimestamp(there.st_mtime, UTC))

    def _prune(self, folder: str) -> None:
        """Removes it and the folders above while they are empty."""
        with suppress(OSError):
            while folder != self._folder:
                os.rmdir(folder)
                self._synced.discard(folder)
                folder = _above(folder)

    def _path(self, key: str) -> str:
        return f"{self._folder}/{key}"

    def _expect_folder(self) -> None:
        """An object is missing, and not the whole folder."""
        if not os.path.isdir(self._folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._folder)

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise trouble.from_os(problem, Path(self._folder)) from problem


def _write(file: RawIOBase, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _above(path: str) -> str:
    return path.rpartition("/")[0]
