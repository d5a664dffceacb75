"""A Postgres that a test may restart and kill: durable against the death of its processes, unlike the shared one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import postgres
from onward.embedded import postmaster
from onward.embedded.accounts import Account, account_for
from onward.embedded.binaries import usable

SETTINGS = {
    "fsync": "off",  # the machine does not die, only the processes
    "synchronous_commit": "on",
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "timezone": "UTC",
}


class Server:
    """One server's data and its postmaster."""

    def __init__(self, ground: Path, tools: Path, account: Account) -> None:
        self._data, self._ground, self._tools, self._account = ground / "data", ground, tools, account
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://onward@/postgres?host={ground}"

    def make(self) -> None:
        asked = [self._tools / "initdb", "-D", self._data, "-U", "onward", "--auth=trust", "--no-sync"]
        done = self._account.run([*asked, "--locale=C", "--encoding=UTF8"])
        assert done.returncode == 0, done.stderr

    def start(self, seconds: float = 30) -> None:
        """Returns when it answers. A first try may meet what is left of a server that was killed."""
        deadline = time.monotonic() + seconds
        options = [f"--{name}={value}" for name, value in SETTINGS.items()]
        while True:
            self._process = subprocess.Popen(
                [self._tools / "postgres", "-D", self._data, "-k", self._ground, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                **self._account.spawn,
            )
            while self._process.poll() is None:
                found = postmaster.read(self._data)
                if found and found.pid == self._process.pid and found.ready and postmaster.answers(found):
                    return
                assert time.monotonic() < deadline, "Postgres does not start"
                time.sleep(0.02)

    def stop(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
            self._process.wait(20)
            self._process = None


@contextmanager
def own_server() -> Iterator[Server]:
    """A server of the test's own, gone with its files at the end."""
    ground = Path(tempfile.mkdtemp(prefix="onward-"))  # a socket's path must be short
    account = account_for(ground)
    ground.chmod(0o755)
    account.own(ground)
    server = Server(ground, usable(postgres.bundled(), account), account)
    try:
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGINT)
    finally:
        shutil.rmtree(ground, ignore_errors=True)
