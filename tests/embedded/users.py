"""Real processes that use an embedded Postgres, driven over their standard input.

Run as a program this file is such a process: it reads one command a line and answers with one line of
JSON. Imported it is the driver.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

import onward
from onward.embedded import acquire, remove, server
from onward.embedded import postmaster as postmaster_file

# What a child imports: this very checkout, and whatever the caller had in mind.
SOURCE = os.pathsep.join([str(Path(onward.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])


class User:
    """A process of its own, in a session of its own, that acquires and releases."""

    def __init__(
        self,
        folder: Path,
        *,
        account: int | None = None,
        env: dict[str, str] | None = None,
        through: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*through, sys.executable, "-B", __file__, os.fspath(folder), str(account or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={**os.environ, "PYTHONPATH": SOURCE, **(env or {})},
            start_new_session=True,
        )

    def send(self, command: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the process ended instead of answering"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def has_answered(self) -> bool:
        assert self.process.stdout
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def ask(self, command: str) -> dict[str, Any]:
        self.send(command)
        return self.receive()

    def acquire(self) -> dict[str, Any]:
        answer = self.ask("acquire")
        assert "error" not in answer, answer
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def leave(self) -> int:
        """End the ordinary way; the server is stopped, or not, by the time this returns."""
        self.close()
        return self.process.wait()

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


def postmaster(data: Path) -> psutil.Process | None:
    """The live postmaster of a data directory, found without trusting the code under test."""
    try:
        process = psutil.Process(int((data / "postmaster.pid").read_text().splitlines()[0]))
        if process.name() == "postgres" and process.status() != psutil.STATUS_ZOMBIE:
            return process if _works_in(process, data) else None
    except (FileNotFoundError, IndexError, ValueError, psutil.Error):
        pass
    return None


def _works_in(process: psutil.Process, data: Path) -> bool:
    """Root in a container may not look into another user's process, but may ask as that user."""
    here = f"/proc/{process.pid}/cwd"
    try:
        return os.path.samefile(here, data)
    except PermissionError:
        command = ["/bin/sh", "-c", f'test {here} -ef "$1"', "sh", data]
        who = {"user": process.uids().real, "group": process.gids().real, "extra_groups": []}
        return subprocess.run(command, cwd="/", **who).returncode == 0
    except FileNotFoundError:
        return False


def until(condition: Callable[[], object], patience: float = 30) -> None:
    """Wait for the thing itself; the pause only spares the processor."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def is_gone(process: psutil.Process) -> bool:
    """Whether it runs no more; whether its parent has noticed is another matter."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def server_processes(data: Path) -> list[psutil.Process]:
    """Every live process that works in the data directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() == "postgres" and _works_in(process, data):
                found.append(process)
        except psutil.Error:
            continue
    return found


def _answer(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def _acquire(leases: list[Any], folder: Path) -> None:
    try:
        lease = acquire(folder)
    except Exception as problem:
        _answer(error=str(problem), type=type(problem).__name__)
        return
    leases.append(lease)
    _answer(url=lease.url, data_dir=str(lease.data_dir), folder=str(lease.folder))


def _cycle(folder: Path) -> None:
    """Come and go many times, and each time see whether the server is really there."""
    for _ in range(20):
        with acquire(folder) as lease:
            found = postmaster_file.read(lease.data_dir)
            if found is None or not postmaster_file.answers(found):
                _answer(joined="a server that had gone")
                return
    _answer(joined="only live servers")


def _remove(folder: Path) -> None:
    try:
        remove(folder)
    except Exception as problem:
        _answer(error=str(problem), type=type(problem).__name__)
        return
    _answer(removed=True)


def _become(account: int) -> None:
    """Only now: the interpreter itself may lie where that user cannot go."""
    os.setgroups([])
    os.setgid(account)
    os.setuid(account)


def _fork(leases: list[Any], how: str) -> None:
    """A child that releases what it inherited and ends as an interpreter does, or one that stays."""
    born, birth = os.pipe()
    pid = os.fork()
    if pid == 0:
        if how == "stay":
            os.write(birth, b"!")
            signal.pause()
        for lease in leases:
            lease.release()
        sys.exit(0)
    if how == "leave":
        os.waitpid(pid, 0)
    else:
        os.read(born, 1)  # what the child does at its birth is done
    _answer(child=pid)


def main(folder: Path) -> None:
    leases: list[Any] = []
    while command := sys.stdin.readline().strip():
        if command == "acquire":
            _acquire(leases, folder)
        elif command == "release":
            leases[-1].release()
            _answer(released=True)
        elif command == "remove":
            _remove(folder)
        elif command == "cycle":
            _cycle(folder)
        elif command == "forget":
            leases.pop()
            _answer(left=len(leases))
        elif command.startswith("timeout "):
            server.START_TIMEOUT = float(command.split()[1])
            _answer(set=True)
        elif command.startswith("fork "):
            _fork(leases, command.split()[1])


if __name__ == "__main__":
    if sys.argv[2]:
        _become(int(sys.argv[2]))
    main(Path(sys.argv[1]))
