"""Starting, joining and stopping the server. Callers hold the start lock throughout.

Who runs is decided by server.lock, which every process of the server inherits: while one of them lives
it cannot be taken. Postgres' own check (`postmaster.pid`) sees neither a postmaster in another container
nor the difference between its own old number and a stranger who has it now; where the lock is free and
the number is a stranger's, the file is stale and goes, because Postgres itself would refuse to start.

The server is in a session of its own: Ctrl-C in a terminal reaches the processes that use it, and the
last of them stops it in order. It does not follow its starter into death either; the others go on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import BinaryIO

from onward.embedded import channels, cluster, postmaster
from onward.embedded.binaries import usable
from onward.embedded.locks import LockFile
from onward.embedded.places import Place
from onward.embedded.postmaster import PidFile
from onward.embedded.trouble import from_output
from onward.errors import DatabaseUnavailable

START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0
QUIT_TIMEOUT = 10.0
PAUSE = 0.01
LOG_LIMIT = 10 * 1024 * 1024

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "1GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
    "log_min_messages": "warning",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

_children: list[subprocess.Popen[bytes]] = []


def ensure(place: Place, bin_dir: Path) -> str:
    """The URL of the server: the one that runs, or else one started now."""
    lock = LockFile(place.server_lock, place.account)
    deadline = time.monotonic() + START_TIMEOUT
    try:
        while time.monotonic() < deadline:
            before = postmaster.read(place.data)
            if _is_down(place, lock, before):
                return channels.url(place, _start(place, bin_dir, lock, before))
            if before and before.ready and postmaster.answers(before):
                return channels.url(place, before)
            time.sleep(PAUSE)
    finally:
        lock.close()
    raise _silent(place, "the server that runs does not answer")


def stop(place: Place) -> None:
    """Stop the server that runs, if one does and it is this machine's to stop."""
    lock = LockFile(place.server_lock, place.account)
    try:
        server = postmaster.read(place.data)
        if server is None or not postmaster.runs(server.pid, place.data, place.account):
            return
        if not _ended(place, lock, server, signal.SIGINT, STOP_TIMEOUT) and not _ended(
            place, lock, server, signal.SIGQUIT, QUIT_TIMEOUT
        ):
            raise _silent(place, f"the server (process {server.pid}) does not stop")
        channels.tidy(place, server)
    finally:
        lock.close()


def is_down(place: Place) -> bool:
    """Whether no process of the server lives."""
    lock = LockFile(place.server_lock, place.account)
    try:
        return _is_down(place, lock, postmaster.read(place.data))
    finally:
        lock.close()


def let_go() -> None:
    """Forget the servers that this process started: they live on without it."""
    for child in _children:
        if child.poll() is None:
            child.returncode = 0  # no longer ours to wait for; else Popen complains when collected
    _children.clear()


def _is_down(place: Place, lock: LockFile, server: PidFile | None) -> bool:
    _reap()
    if not lock.take():
        return False
    # A server that was started by hand holds no lock of ours.
    return server is None or not postmaster.runs(server.pid, place.data, place.account)


def _start(place: Place, bin_dir: Path, lock: LockFile, before: PidFile | None) -> PidFile:
    tools = usable(bin_dir, place.account)
    cluster.prepare(place, tools, lock)
    if before is None or _is_alive(before.pid):  # nonsense, or a stranger's number by now
        (place.data / "postmaster.pid").unlink(missing_ok=True)
    channel = channels.settings(place, before)
    command: list[str | Path] = [tools / "postgres", "-D", place.data]
    payloads = {"onward.payloads": (place.folder / "payloads").absolute().as_uri()}  # for whoever connects
    for name, value in {**SETTINGS, **channel, **payloads}.items():
        command += ["-c", f"{name}={value}"]
    with _log(place) as log:
        said = os.fstat(log.fileno()).st_size
        child = subprocess.Popen(  # noqa: S603  the server itself
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[lock.fd],
            **place.account.spawn,
        )
    lock.close()
    _children.append(child)
    return _started(place, child, said)


def _started(place: Place, child: subprocess.Popen[bytes], said: int) -> PidFile:
    deadline = time.monotonic() + START_TIMEOUT
    try:
        while time.monotonic() < deadline:
            server = postmaster.read(place.data)
            if child.poll() is not None:
                raise from_output("Postgres does not start", place, _said(place, said), place.log)
            if server and server.pid == child.pid and server.ready and postmaster.answers(server):
                return server
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        raise
    # Not killed: it may be replaying a long log, and would begin again. The next to come joins it.
    raise _silent(place, f"Postgres did not start within {START_TIMEOUT:.0f} s")


def _ended(place: Place, lock: LockFile, server: PidFile, signum: int, wait: float) -> bool:
    deadline = time.monotonic() + wait
    if postmaster.runs(server.pid, place.data, place.account):
        os.kill(server.pid, signum)
    while time.monotonic() < deadline:
        if _is_down(place, lock, server):
            return True
        time.sleep(PAUSE)
    return False


def _reap() -> None:
    _children[:] = [child for child in _children if child.poll() is None]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _log(place: Place) -> BinaryIO:
    """The log, emptied when it has grown large; only a start can do that without losing lines."""
    log = os.fdopen(place.account.open(place.log, os.O_WRONLY | os.O_APPEND), "ab")
    if os.fstat(log.fileno()).st_size > LOG_LIMIT:
        log.truncate(0)
    return log


def _said(place: Place, since: int = 0) -> str:
    try:
        with place.log.open("rb") as log:
            log.seek(max(since, os.fstat(log.fileno()).st_size - 65536))
            return log.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def _silent(place: Place, what: str) -> DatabaseUnavailable:
    last = (_said(place).splitlines() or ["nothing"])[-1].strip()
    return DatabaseUnavailable(f"{what}; {place.log} ends with: {last}")
