"""Locks that the kernel gives up when their holder dies.

flock belongs to the open file, not to the process, and a fork shares the open file. So a child drops
its copies the moment it is born, by closing them: closing leaves the parent's lock alone, while
LOCK_UN would take it from the parent, and keeping them would hold the lock after the parent's death.
A program that is started instead never sees them (close-on-exec), except the one that is handed one.

`remove` may delete a lock file that somebody waits for; who then gets the lock looks whether the name
still leads to the file it locked, and starts over if not.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onward.embedded.accounts import Account
from onward.errors import DatabaseUnavailable

WAIT = 180.0  # longer than the longest start, and a stop before it
PAUSE = 0.01

_guard = threading.Lock()  # opening and remembering a file is one act, or a fork could fall in between
_open: set[LockFile] = set()


class LockFile:
    """An open lock file. `close` gives up whatever it holds, and is safe twice."""

    def __init__(self, path: Path, account: Account) -> None:
        self.path = path
        with _guard:
            self.fd = account.open(path, os.O_RDWR)
            _open.add(self)

    def share(self) -> bool:
        """Take the lock together with others, if nobody has it alone."""
        return self._take(fcntl.LOCK_SH)

    def take(self) -> bool:
        """Take the lock alone, if nobody else has it."""
        return self._take(fcntl.LOCK_EX)

    def close(self) -> None:
        """Close this process's copy; a program that was handed one keeps the lock."""
        with _guard:
            self._forget()

    def is_current(self) -> bool:
        """Whether the name still leads to this file."""
        try:
            return os.path.samestat(os.fstat(self.fd), self.path.stat())
        except FileNotFoundError:
            return False

    def _take(self, kind: int) -> bool:
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _forget(self) -> None:
        _open.discard(self)
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@contextmanager
def alone(path: Path, account: Account) -> Iterator[None]:
    """Hold the lock at `path` exclusively; others wait their turn."""
    lock = _awaited(path, account, time.monotonic() + WAIT)
    try:
        yield
    finally:
        lock.close()


def _awaited(path: Path, account: Account, deadline: float) -> LockFile:
    """Wait by asking again, not in the kernel: a stopped holder must not hang us for ever."""
    while True:
        lock = LockFile(path, account)
        try:
            while not lock.take():
                if time.monotonic() > deadline:
                    raise DatabaseUnavailable(
                        f"another process has held {path} for {WAIT:.0f} s: find it with lsof, and end it"
                    )
                time.sleep(PAUSE)
        except BaseException:
            lock.close()
            raise
        if lock.is_current():
            return lock
        lock.close()


def _after_fork_in_child() -> None:
    for lock in list(_open):
        lock._forget()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_after_fork_in_child)
