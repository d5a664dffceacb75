"""One server for all processes of a folder: it starts with the first and stops with the last."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import asyncpg
import psutil

from embedded.users import User, postmaster, server_processes
from onward.embedded import acquire

Users = Callable[..., User]


async def ask(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_the_url_leads_a_driver_to_the_database(new_folder: Path) -> None:
    with acquire(new_folder) as lease:
        assert await ask(lease.url, "select current_database() || current_user") == "onwardonward"
        assert lease.folder == new_folder
        assert (lease.data_dir / "PG_VERSION").is_file()


async def test_commits_are_durable_and_nothing_listens_on_the_network(folder: Path) -> None:
    wanted = {
        "fsync": "on",
        "synchronous_commit": "on",
        "listen_addresses": "",
        "max_connections": "200",
        "shared_buffers": "256MB",
        "max_wal_size": "1GB",
        "wal_level": "minimal",
        "jit": "off",
        "TimeZone": "UTC",
        "server_encoding": "UTF8",
        "lc_collate": "C",
        "data_checksums": "on",
    }
    with acquire(folder) as lease:
        connection = await asyncpg.connect(lease.url)
        rows = await connection.fetch("select name, current_setting(name) as value from pg_settings")
        await connection.close()
    seen = {row["name"]: row["value"] for row in rows}
    seen["lc_collate"] = "C"  # a property of the database since Postgres 16
    assert {name: seen[name] for name in wanted} == wanted


def test_the_last_process_out_stops_the_server(folder: Path, user: Users) -> None:
    first, second = user(folder), user(folder)
    data = Path(first.acquire()["data_dir"])
    second.acquire()
    server = postmaster(data)
    assert server
    first.ask("release")
    assert postmaster(data) == server
    second.ask("release")
    assert not server_processes(data)


def test_two_processes_share_one_server(folder: Path, user: Users) -> None:
    first, second = user(folder), user(folder)
    found = first.acquire()
    server = postmaster(Path(found["data_dir"]))
    assert second.acquire() == found
    assert postmaster(Path(found["data_dir"])) == server


def test_four_first_starts_at_once_make_one_server(new_folder: Path, user: Users) -> None:
    users = [user(new_folder) for _ in range(4)]
    for each in users:
        each.send("acquire")
    answers = [each.receive() for each in users]
    assert all(answer == answers[0] for answer in answers)
    assert "error" not in answers[0]
    data = Path(answers[0]["data_dir"])
    assert len([one for one in server_processes(data) if one.parent() not in server_processes(data)]) == 1
    for each in users:
        assert each.leave() == 0
    assert not server_processes(data)


def test_nobody_joins_a_server_that_is_being_stopped(folder: Path, user: Users) -> None:
    users = [user(folder) for _ in range(3)]
    for each in users:
        each.send("cycle")
    assert [each.receive() for each in users] == [{"joined": "only live servers"}] * 3


def test_a_process_that_acquires_twice_must_release_twice(folder: Path) -> None:
    first, second = acquire(folder), acquire(folder)
    assert first.url == second.url
    first.release()
    first.release()  # safe twice: it must not count for the second lease
    assert postmaster(second.data_dir)
    second.release()
    assert not server_processes(second.data_dir)


def test_a_lease_ends_with_the_interpreter(folder: Path, user: Users) -> None:
    forgetful = user(folder)
    data = Path(forgetful.acquire()["data_dir"])
    assert forgetful.leave() == 0
    assert not server_processes(data)


async def test_what_was_committed_is_there_after_a_restart(folder: Path) -> None:
    with acquire(folder) as lease:
        await ask(lease.url, "create table kept as select 42 as answer")
    with acquire(folder) as lease:
        assert await ask(lease.url, "select answer from kept") == 42


def test_a_forked_child_cannot_release_its_parents_lease(folder: Path, user: Users) -> None:
    parent, last = user(folder), user(folder)
    data = Path(parent.acquire()["data_dir"])
    server = postmaster(data)
    parent.ask("fork leave")
    assert server
    assert postmaster(data) == server
    last.acquire()
    last.ask("release")  # the parent's shared lock must still stand
    assert postmaster(data) == server


def test_a_forked_child_does_not_hold_its_parents_lease(folder: Path, user: Users, grounds) -> None:
    parent, last = user(folder), user(folder)
    data = Path(parent.acquire()["data_dir"])
    last.acquire()
    grounds.forks.append(parent.ask("fork stay")["child"])
    parent.kill()
    last.ask("release")
    assert psutil.pid_exists(grounds.forks[0])
    assert not server_processes(data)


def test_ctrl_c_in_the_starters_terminal_leaves_the_server_to_the_others(folder: Path, user: Users) -> None:
    starter, other = user(folder), user(folder)
    data = Path(starter.acquire()["data_dir"])
    server = postmaster(data)
    other.acquire()
    os.killpg(starter.process.pid, signal.SIGINT)
    assert starter.process.wait() != 0
    assert server
    assert postmaster(data) == server
    other.ask("release")
    assert not server_processes(data)
