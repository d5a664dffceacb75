"""Who uses the server: one hold a process and folder, counted; one lease for each who asked.

A hold is the shared lock on users.lock. It is taken and given up under start.lock only, so "am I the
last?" cannot be overtaken by somebody who joins. A forked child has no part in its parent's hold: its
copies of the locks are closed at birth (see `locks`), its register is emptied, and releasing a lease that it
inherited does nothing.
"""

from __future__ import annotations

import atexit
import os
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from onward.embedded import server
from onward.embedded.binaries import binaries
from onward.embedded.locks import LockFile, alone
from onward.embedded.places import ELSEWHERE, Place, locate, settle, settled
from onward.embedded.trouble import from_os
from onward.errors import DatabaseUnavailable


@dataclass(eq=False)
class _Hold:
    place: Place
    users: LockFile
    count: int = 0


_mutex = threading.RLock()
_holds: dict[Path, _Hold] = {}


class Lease:
    """The right to use the server at `url` until `release`; the server outlives it while others have one."""

    def __init__(self, url: str, hold: _Hold) -> None:
        self.url = url
        self.folder = hold.place.folder
        self.data_dir = hold.place.data
        self._hold: _Hold | None = hold
        self._pid = os.getpid()

    def release(self) -> bool:
        """Give the server up; the last process to do so stops it, which is the answer. Safe twice."""
        with _mutex:
            hold, self._hold = self._hold, None
            if hold and self._pid == os.getpid():
                hold.count -= 1
                if hold.count == 0:
                    return _leave(hold)
            return False

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def acquire(folder: Path | None = None, *, bin_dir: Path | None = None) -> Lease:
    """Join the server of `folder` (by default that of `locate()`), or start it. Blocks until it answers."""
    wanted = folder or locate()
    try:
        with _mutex:
            return _acquire(settle(wanted), binaries(bin_dir))
    except OSError as problem:
        raise from_os(problem, wanted) from problem


def _acquire(place: Place, bin_dir: Path) -> Lease:
    with alone(place.start_lock, place.account):
        url = server.ensure(place, bin_dir)
        hold = _holds.get(place.home)
        if hold is None:
            hold = _Hold(place, LockFile(place.users_lock, place.account))
            hold.users.share()  # cannot fail: it is only ever taken alone under the start lock
            _holds[place.home] = hold
        hold.count += 1
        return Lease(url, hold)


def _leave(hold: _Hold) -> bool:
    _holds.pop(hold.place.home, None)
    try:
        with alone(hold.place.start_lock, hold.place.account):
            last = hold.users.take()
            if last:
                server.stop(hold.place)
            hold.users.close()  # still under the start lock: a later leaver must not see us
            return last
    finally:
        hold.users.close()


def remove(folder: Path) -> None:
    """Delete the data of a folder, wherever it lies. Refused while somebody uses it or the server runs."""
    try:
        place = settled(folder)
        if place is None:
            return
        if not place.home.is_dir():  # only the link is left
            (place.folder / "postgres").unlink()
            return
        with alone(place.start_lock, place.account):
            _check_unused(place)
            _delete(place)
    except OSError as problem:
        raise from_os(problem, folder) from problem


def _check_unused(place: Place) -> None:
    users = LockFile(place.users_lock, place.account)
    try:
        if not users.take():
            raise DatabaseUnavailable(f"{place.data} is in use: end the processes that use it first")
    finally:
        users.close()
    if not server.is_down(place):
        raise DatabaseUnavailable(f"the server of {place.data} still runs: acquire and release it first")


def _delete(place: Place) -> None:
    place.log.unlink(missing_ok=True)
    if place.home != place.folder:
        (place.folder / "postgres").unlink()
    if place.home.parent == ELSEWHERE:
        shutil.rmtree(place.home)
        return
    for tree in (place.data, place.run, *place.home.glob("postgres.new-*")):
        with suppress(FileNotFoundError):
            shutil.rmtree(tree)
    place.password.unlink(missing_ok=True)


def _release_all() -> None:
    """At the interpreter's end: nobody else will release what is still held."""
    for hold in list(_holds.values()):
        _leave(hold)
    server.let_go()


def _after_fork_in_child() -> None:
    global _mutex  # another thread of the parent may have held it
    _mutex = threading.RLock()
    _holds.clear()
    server.let_go()


atexit.register(_release_all)
os.register_at_fork(after_in_child=_after_fork_in_child)
