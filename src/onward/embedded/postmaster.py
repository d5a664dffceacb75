"""What a running server says of itself: its `postmaster.pid`, its process, its answer.

The file alone proves nothing. It outlives a killed server, and after a reboot its number may be
anybody's. A process is this server only if it is a postgres whose working directory is the data
directory, where every postmaster goes first. And a process alone proves nothing either: it may be
starting, stopping or stuck, so who joins asks it, with the first packet of an ordinary connection.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from onward.embedded.accounts import Account

NAME = "onward"  # of the database, and of its one user


@dataclass(frozen=True)
class PidFile:
    """What `postmaster.pid` holds; a file that is still being written holds less."""

    pid: int
    port: int
    socket_dir: str
    status: str

    @property
    def ready(self) -> bool:
        return self.status == "ready"


def read(data: Path) -> PidFile | None:
    """The pid file of the data directory, if there is one that makes sense.

    A minus sign marks single-user mode; that is a process on the data all the same.
    """
    try:
        lines = (data / "postmaster.pid").read_text(errors="surrogateescape").splitlines()
        lines += [""] * (8 - len(lines))
        return PidFile(abs(int(lines[0])), int(lines[3] or 0), lines[4], lines[7].strip())
    except (FileNotFoundError, ValueError):
        return None


def runs(pid: int, data: Path, account: Account) -> bool:
    """Whether that process is the postmaster of that data directory.

    Root without CAP_SYS_PTRACE, the rule in containers, may not see where another user's process
    works; that user may, and so asks.
    """
    if not os.path.isdir("/proc/self"):
        return _runs_by_ps(pid, data)
    place = Path(f"/proc/{pid}/cwd")
    try:
        program = Path(f"/proc/{pid}/comm").read_text().strip()
        return program in ("postgres", "postmaster") and place.samefile(data)
    except PermissionError:
        return _owner_says_so(place, data, account)
    except OSError:
        return False


def _owner_says_so(place: Path, data: Path, account: Account) -> bool:
    """Ask with the process's own group too, as the kernel demands; the data's group may be another."""
    process = place.parent.stat()
    if process.st_uid != account.uid:
        return False
    owner = Account(process.st_uid, process.st_gid, account.dropped)
    return owner.run(["/bin/sh", "-c", 'test "$1" -ef "$2"', "sh", place, data]).returncode == 0


def _runs_by_ps(pid: int, data: Path) -> bool:
    """macOS has no /proc; the postmaster keeps its command line, which names the data directory.

    A name that is not ASCII is not asked for: ps writes it differently from locale to locale.
    """
    told = subprocess.run(  # noqa: S603  fixed arguments
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, check=False
    )
    return b"postgres" in told.stdout and (os.fsencode(data) in told.stdout or not str(data).isascii())


def answers(server: PidFile, wait: float = 1.0) -> bool:
    """Whether the server takes connections, by the rule of pg_isready.

    A refusal for any other reason than starting or stopping (too many clients) is an answer too.
    """
    try:
        with _connected(server, wait) as channel:
            channel.sendall(_startup_packet())
            reply = channel.recv(1024)
    except OSError:
        return False
    return reply[:1] == b"R" or (reply[:1] == b"E" and b"C57P03\0" not in reply)


def _connected(server: PidFile, wait: float) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX if server.socket_dir else socket.AF_INET)
    channel.settimeout(wait)
    name = f"{server.socket_dir}/.s.PGSQL.{server.port}"
    try:
        channel.connect(name if server.socket_dir else ("127.0.0.1", server.port))
    except BaseException:
        channel.close()
        raise
    return channel


def _startup_packet() -> bytes:
    body = struct.pack("!i", 196608) + f"user\0{NAME}\0database\0{NAME}\0\0".encode()
    return struct.pack("!i", len(body) + 4) + body
