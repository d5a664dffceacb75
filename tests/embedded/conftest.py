"""Folders for embedded servers, and the promise that a test leaves nothing behind."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from embedded.users import User, server_processes
from onward.embedded import acquire, remove
from onward.embedded.places import ELSEWHERE, settle, settled

IS_ROOT = os.geteuid() == 0


class Grounds:
    """The processes and folders of one test."""

    def __init__(self) -> None:
        self.users: list[User] = []
        self.folders: list[Path] = []
        self.forks: list[int] = []

    def user(self, folder: Path, **kwargs: Any) -> User:
        self.watch(folder)
        self.users.append(User(folder, **kwargs))
        return self.users[-1]

    def watch(self, folder: Path) -> Path:
        if folder not in self.folders:
            self.folders.append(folder)
        return folder

    def clear(self) -> None:
        for pid in self.forks:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for user in self.users:
            user.kill()
            user.close()
        for folder in self.folders:
            self._clear(folder)

    def _clear(self, folder: Path) -> None:
        place = settled(folder) if folder.is_dir() else None
        if place is None:
            return
        if server_processes(place.data):  # its users were killed
            acquire(folder).release()
        remove(folder)
        assert not server_processes(place.data)
        assert not place.data.exists()
        if place.home != place.folder:
            assert not place.home.exists()


@pytest.fixture
def grounds() -> Iterator[Grounds]:
    grounds = Grounds()
    try:
        yield grounds
    finally:
        grounds.clear()


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where data lies that was created once, to be copied: creating takes most of a first start."""
    folder = tmp_path_factory.mktemp("pattern") / ".onward"
    with acquire(folder) as lease:
        home = lease.data_dir.parent
    yield home
    remove(folder)


@pytest.fixture
def new_folder(tmp_path: Path, grounds: Grounds) -> Path:
    """As root this lies below a folder of mode 0700, so that the data must lie elsewhere."""
    return grounds.watch(tmp_path / "new" / ".onward")


@pytest.fixture
def folder(tmp_path: Path, grounds: Grounds, pattern: Path) -> Path:
    """The same, used before."""
    folder = grounds.watch(tmp_path / "project" / ".onward")
    home = settle(folder).home
    subprocess.run(["cp", "-a", pattern / "postgres", pattern / "password", home], check=True)
    return folder


@pytest.fixture
def user(grounds: Grounds) -> Callable[..., User]:
    return grounds.user


@pytest.fixture
def open_ground(grounds: Grounds) -> Iterator[Path]:
    """A folder with a short name that every user can pass through, in the temporary directory."""
    ground = Path(tempfile.mkdtemp(prefix="onward-test-", dir="/tmp"))
    ground.chmod(0o755)
    try:
        yield ground
        grounds.clear()
    finally:
        shutil.rmtree(ground, ignore_errors=True)


@pytest.fixture
def ordinary(open_ground: Path) -> tuple[int | None, Path]:
    """An ordinary user, as the `account` of a `User`, and a home of theirs."""
    home = open_ground / "home"
    home.mkdir(mode=0o700)
    if not IS_ROOT:
        return None, home
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_uid)
    return nobody.pw_uid, home


@pytest.fixture(scope="session", autouse=True)
def _no_empty_folder_of_roots() -> Iterator[None]:
    yield
    with suppress(OSError):
        ELSEWHERE.rmdir()
