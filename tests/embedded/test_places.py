"""Where the data lies, how the server is reached, and who may not reach it."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from embedded.users import User, server_processes
from onward.embedded import acquire, locate, remove
from onward.embedded.accounts import account_for
from onward.embedded.channels import LONGEST
from onward.embedded.places import ELSEWHERE, settle
from onward.errors import DatabaseUnavailable

Users = Callable[..., User]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who drops to another account")


async def ask(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def socket_folder(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


def test_the_nearest_folder_upward_is_found(tmp_path: Path) -> None:
    (tmp_path / ".onward").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert locate(tmp_path / "a" / "b") == tmp_path / ".onward"
    (tmp_path / "a" / ".onward").mkdir()
    assert locate(tmp_path / "a" / "b") == tmp_path / "a" / ".onward"


def test_a_file_of_that_name_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".onward").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate(tmp_path) not in (tmp_path / ".onward", None)
    assert tmp_path in locate(tmp_path).parents


@pytest.mark.parametrize(
    "name",
    ["""ünï 日本 😀 it's "quoted" $HOME `x` \\ %41""", "comma,comma", "x" * 150],
    ids=["strange", "comma", "long"],
)
async def test_any_name_of_a_folder_will_do(open_ground: Path, grounds, name: str) -> None:
    with acquire(grounds.watch(open_ground / name / ".onward")) as lease:
        assert await ask(lease.url, "select 1") == 1
        assert lease.data_dir == open_ground / name / ".onward" / "postgres"
        reached = socket_folder(lease.url)
        assert len(os.fsencode(reached / ".s.PGSQL.5432")) <= LONGEST
        assert mode(reached) == 0o700
    assert reached.exists() == (open_ground in reached.parents)  # one in the temporary directory goes


def test_a_control_character_in_the_name_is_refused_in_one_line(open_ground: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="rename") as refused:
        acquire(open_ground / "two\nlines")
    assert "\n" not in str(refused.value)


def test_a_new_folder_is_private_and_one_that_exists_keeps_its_mode(open_ground: Path, grounds) -> None:
    new, old = grounds.watch(open_ground / "new"), grounds.watch(open_ground / "old")
    old.mkdir()
    old.chmod(0o755)
    for folder in (new, old):
        acquire(folder).release()
    assert mode(new) == 0o700
    assert mode(old) == 0o755
    assert mode(open_ground) == 0o755
    assert mode(old / "run") == mode(old / "postgres") == 0o700


@as_root
async def test_no_parent_is_loosened_for_the_account_that_root_drops_to(tmp_path: Path, grounds) -> None:
    parent = tmp_path / "private"
    parent.mkdir(mode=0o700)
    with acquire(grounds.watch(parent / ".onward")) as lease:
        assert await ask(lease.url, "select 1") == 1
        home = lease.data_dir.parent
    assert mode(parent) == 0o700
    assert (parent / ".onward" / "postgres").readlink() == home / "postgres"
    assert home.parent == ELSEWHERE
    assert mode(home) == 0o700
    assert home.stat().st_uid == account_for(parent / ".onward").uid != 0


@as_root
async def test_a_folder_that_was_moved_takes_its_data_along(tmp_path: Path, grounds) -> None:
    old, new = grounds.watch(tmp_path / "old"), grounds.watch(tmp_path / "new")
    with acquire(old) as lease:
        await ask(lease.url, "create table kept as select 42 as answer")
    old.rename(new)
    with acquire(new) as moved, acquire(old) as anew:
        assert await ask(moved.url, "select answer from kept") == 42
        assert await ask(anew.url, "select to_regclass('kept')") is None


@as_root
def test_data_elsewhere_is_removed_with_its_place(tmp_path: Path) -> None:
    with acquire(tmp_path / "folder") as lease:
        home = lease.data_dir.parent
    remove(tmp_path / "folder")
    assert not home.exists()
    assert list((tmp_path / "folder").iterdir()) == []


async def test_a_link_made_by_hand_is_followed_and_only_our_files_are_removed(open_ground: Path) -> None:
    folder, disk = open_ground / ".onward", open_ground / "disk"
    for each in (folder, disk):
        each.mkdir()
    (disk / "other").write_text("not ours")
    (folder / "postgres").symlink_to("../disk/postgres")
    with acquire(folder) as lease:
        assert lease.data_dir == disk / "postgres"
        assert await ask(lease.url, "select 1") == 1
    remove(folder)
    assert not (disk / "postgres").exists()
    assert (disk / "other").read_text() == "not ours"


def test_data_in_use_is_not_removed(folder: Path, user: Users) -> None:
    holder = user(folder)
    data = Path(holder.acquire()["data_dir"])
    with pytest.raises(DatabaseUnavailable, match="in use"):
        remove(folder)
    holder.kill()
    with pytest.raises(DatabaseUnavailable, match="still runs"):
        remove(folder)
    acquire(folder).release()
    remove(folder)
    assert not data.exists()
    remove(folder)  # nothing left to do


async def test_an_ordinary_user_runs_the_server_as_themselves(ordinary, user: Users) -> None:
    account, home = ordinary
    folder = home / "project" / ".onward"
    owner = user(folder, account=account, env={"HOME": str(home)})
    found = owner.acquire()
    assert found["data_dir"] == str(folder / "postgres")
    wanted = os.geteuid() if account is None else account
    assert {process.uids().real for process in server_processes(folder / "postgres")} == {wanted}
    assert await ask(found["url"], "select 1") == 1
    owner.ask("release")
    assert not server_processes(folder / "postgres")


@as_root
async def test_root_and_the_owner_of_the_data_take_turns(ordinary, user: Users) -> None:
    account, home = ordinary
    folder = home / ".onward"
    owner = user(folder, account=account, env={"HOME": str(home)})
    await ask(owner.acquire()["url"], "create table kept as select 42 as answer")
    with acquire(folder) as joined:
        assert await ask(joined.url, "select answer from kept") == 42
        owner.ask("release")
        assert server_processes(joined.data_dir)
    assert not server_processes(folder / "postgres")
    with acquire(folder) as root_started:
        owner.acquire()
        assert {process.uids().real for process in server_processes(root_started.data_dir)} == {account}


@as_root
def test_another_users_folder_is_refused(ordinary, open_ground: Path, user: Users, grounds) -> None:
    account, home = ordinary
    theirs = grounds.watch(open_ground / "theirs")
    theirs.mkdir()
    os.chown(theirs, pwd.getpwnam("daemon").pw_uid, 0)
    theirs.chmod(0o777)
    answer = user(theirs, account=account, env={"HOME": str(home)}).ask("acquire")
    assert answer["type"] == "DatabaseUnavailable"
    assert "belongs to another user" in answer["error"]


@as_root
def test_another_user_cannot_connect(ordinary, open_ground: Path, grounds) -> None:
    """The socket's folder keeps them out, and so does the socket should somebody open the folder."""
    account, _ = ordinary
    with acquire(grounds.watch(open_ground / "mine")) as lease:
        address = socket_folder(lease.url) / ".s.PGSQL.5432"
        assert address.stat().st_uid != account
        assert _connects(address, 0)
        assert not _connects(address, account)
        for folder in (open_ground / "mine", address.parent):
            folder.chmod(0o755)
        assert not _connects(address, account)


def _connects(address: Path, account: int) -> bool:
    script = "use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); exit(connect(S, sockaddr_un($ARGV[0])) ? 0 : 1)"
    return subprocess.run(["perl", "-e", script, address], user=account, cwd="/").returncode == 0


@as_root
async def test_without_a_place_for_a_socket_loopback_asks_for_a_password(ordinary, user: Users, grounds) -> None:
    """A long name, and a temporary directory that cannot be written."""
    account, home = ordinary
    folder = home / ("x" * 120) / ".onward"
    sealed = f"mount --bind /tmp /tmp && mount --bind {home} {home} && mount -o remount,ro,bind /tmp"
    sealed += " && mount -t tmpfs -o ro none /var/tmp"
    through = ["unshare", "--mount", "sh", "-c", f'{sealed} && exec "$@"', "sh"]
    if subprocess.run([*through, "true"]).returncode:
        pytest.skip("may not mount")
    owner = user(folder, account=account, env={"HOME": str(home)}, through=through)
    url = owner.acquire()["url"]
    parts = urlsplit(url)
    assert parts.hostname == "127.0.0.1"
    assert parts.password
    assert await ask(url, "select 1") == 1
    for wrong in ("", ":guess"):
        with pytest.raises(asyncpg.PostgresError):
            await asyncpg.connect(f"postgresql://onward{wrong}@127.0.0.1:{parts.port}/onward", ssl=False)
    assert mode(folder / "password") == 0o600
    assert user(folder, account=account, through=through).acquire()["url"] == url


def test_the_log_is_bounded(folder: Path) -> None:
    acquire(folder).release()
    log = settle(folder).log
    with log.open("r+b") as file:
        file.truncate(11 * 1024 * 1024)
    acquire(folder).release()
    assert log.stat().st_size < 100_000
