"""Whoever dies, however: the server goes on for the others, and the next to come finds it usable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from embedded.users import User, is_gone, postmaster, server_processes, until
from onward.embedded import acquire
from onward.embedded.binaries import binaries
from onward.embedded.places import settle

Users = Callable[..., User]


@pytest.fixture
def stranger(folder: Path) -> Iterator[int]:
    """A live process of the server's own account that is no Postgres."""
    sleeper = subprocess.Popen(["/bin/sleep", "600"], **settle(folder).account.spawn)
    yield sleeper.pid
    sleeper.kill()
    sleeper.wait()


def crash(data: Path) -> None:
    """Kill the postmaster, and wait for its children to leave."""
    server = postmaster(data)
    assert server
    left = server.children()
    server.kill()
    until(lambda: all(is_gone(one) for one in (server, *left)))


def test_the_server_survives_the_process_that_started_it(folder: Path, user: Users) -> None:
    starter, other = user(folder), user(folder)
    data = Path(starter.acquire()["data_dir"])
    server = postmaster(data)
    other.acquire()
    starter.kill()
    assert server
    assert postmaster(data) == server
    other.ask("release")
    assert not server_processes(data)


def test_a_server_whose_users_were_all_killed_is_joined_and_then_stopped(folder: Path, user: Users) -> None:
    killed = user(folder)
    data = Path(killed.acquire()["data_dir"])
    server = postmaster(data)
    killed.kill()
    assert server
    assert postmaster(data) == server
    with acquire(folder):
        assert postmaster(data) == server
    assert not server_processes(data)


async def test_a_killed_postmaster_is_replaced_at_the_same_address(folder: Path, user: Users) -> None:
    holder = user(folder)
    url = holder.acquire()["url"]
    with acquire(folder) as lease:
        connection = await asyncpg.connect(lease.url)
        await connection.execute("create table kept as select 42 as answer")
        first = postmaster(lease.data_dir)
        assert first
        first.kill()
        with acquire(folder) as again:
            second = postmaster(again.data_dir)
            assert second
            assert second != first
            assert again.url == url
            fresh = await asyncpg.connect(again.url)
            assert await fresh.fetchval("select answer from kept") == 42
            await fresh.close()
        connection.terminate()


async def test_no_server_starts_beside_the_orphans_of_a_killed_one(folder: Path, user: Users) -> None:
    first, second = user(folder), user(folder)
    found = first.acquire()
    data = Path(found["data_dir"])
    connection = await asyncpg.connect(found["url"])
    orphan = psutil.Process(connection.get_server_pid())
    orphan.suspend()  # it cannot notice that its postmaster has gone
    server = postmaster(data)
    assert server
    rest = [child for child in server.children() if child != orphan]
    server.kill()
    until(lambda: all(is_gone(one) for one in (server, *rest)))
    second.send("acquire")
    start_lock = data.parent / "start.lock"
    until(lambda: _is_locked(start_lock))
    asked = _pauses(second)
    until(lambda: second.has_answered() or _pauses(second) > asked + 30)  # it asks, and waits, and asks
    assert not second.has_answered()
    orphan.kill()
    answer = second.receive()
    assert "error" not in answer, answer
    connection.terminate()


def _pauses(user: User) -> int:
    return int(psutil.Process(user.process.pid).num_ctx_switches().voluntary)


def _is_locked(path: Path) -> bool:
    return f":{path.stat().st_ino} " in Path("/proc/locks").read_text()


def test_a_pid_file_of_a_dead_process_is_no_server(folder: Path) -> None:
    with acquire(folder) as lease:
        crash(lease.data_dir)
        assert (lease.data_dir / "postmaster.pid").exists()
        with acquire(folder) as again:
            assert postmaster(again.data_dir)


def test_a_pid_file_that_names_a_stranger_is_no_server(folder: Path, stranger: int) -> None:
    with acquire(folder) as lease:
        crash(lease.data_dir)
        for stale in (lease.data_dir / "postmaster.pid", settle(folder).run / ".s.PGSQL.5432.lock"):
            lines = stale.read_text().splitlines(keepends=True)
            stale.write_text("".join([f"{stranger}\n", *lines[1:]]))
        with acquire(folder) as again:
            assert postmaster(again.data_dir)
    assert psutil.pid_exists(stranger)


@pytest.mark.parametrize("nonsense", ["", "what\n"])
def test_a_pid_file_of_nonsense_is_no_server(folder: Path, nonsense: str) -> None:
    with acquire(folder) as lease:
        crash(lease.data_dir)
        (lease.data_dir / "postmaster.pid").write_text(nonsense)
        with acquire(folder) as again:
            assert postmaster(again.data_dir)


def test_a_crash_while_creating_leaves_nothing_half_made(new_folder: Path, user: Users) -> None:
    home = settle(new_folder).home
    victim = user(new_folder)
    victim.send("acquire")
    until(lambda: list(home.glob("postgres.new-*/PG_VERSION")))
    victim.kill()
    assert not (home / "postgres").is_dir()
    with acquire(new_folder) as lease:
        assert postmaster(lease.data_dir)
    assert not list(home.glob("postgres.new-*"))


def test_a_server_that_was_started_by_hand_is_joined(folder: Path) -> None:
    acquire(folder).release()
    place = settle(folder)
    command = [binaries() / "postgres", "-D", place.data, "-c", "listen_addresses="]
    command += ["-c", f'unix_socket_directories="{place.run}"']
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, **place.account.spawn) as by_hand:
        until(lambda: "ready" in _text(place.data / "postmaster.pid"))
        with acquire(folder):
            server = postmaster(place.data)
            assert server
            assert server.pid == by_hand.pid
    assert not server_processes(place.data)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="root may drop a capability")
def test_root_that_may_not_look_into_processes_still_knows_its_server(folder: Path, user: Users) -> None:
    container = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]
    first, second = user(folder, through=container), user(folder, through=container)
    data = Path(first.acquire()["data_dir"])
    server = postmaster(data)
    second.acquire()
    assert server
    first.ask("release")
    assert postmaster(data) == server
    second.ask("release")
    assert not server_processes(data)


def test_a_server_that_ignores_a_fast_stop_is_stopped_all_the_same(folder: Path, user: Users) -> None:
    """A stopped process ignores both signals until it goes on; the release waits meanwhile."""
    only = user(folder)
    data = Path(only.acquire()["data_dir"])
    server = postmaster(data)
    assert server
    server.suspend()
    only.send("release")
    until(lambda: _pending(server.pid, signal.SIGINT))
    server.resume()
    assert only.receive() == {"released": True}
    assert not server_processes(data)


def _pending(pid: int, signum: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
