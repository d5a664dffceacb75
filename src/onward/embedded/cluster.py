"""Creating the data directory: all of it or nothing.

initdb and the database's creation work in `postgres.new-<pid>`, which is renamed at the end; a crash on
the way leaves a name that nobody reads, and the next to hold the start lock removes it. Both programs
share the server lock, so "the next" waits until an initdb whose starter was killed has ended, rather
than delete files while they are written. initdb syncs what it wrote, single-user mode ends with a
checkpoint, and the rename is synced here.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from onward.embedded.accounts import Account
from onward.embedded.binaries import version
from onward.embedded.locks import LockFile
from onward.embedded.places import Place
from onward.embedded.postmaster import NAME
from onward.embedded.trouble import ELSE, from_output
from onward.errors import DatabaseUnavailable


def prepare(place: Place, bin_dir: Path, lock: LockFile) -> None:
    """Create the data directory where there is none, else check it. `lock` is the server lock, taken."""
    for half_made in place.home.glob("postgres.new-*"):
        shutil.rmtree(half_made)
    try:
        held = (place.data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        _check_empty(place.data)
        _create(place, bin_dir, lock)
        return
    there = version(bin_dir)
    if held != str(there):
        raise DatabaseUnavailable(
            f"{place.data} holds data of Postgres {held}, but {bin_dir} holds Postgres {there}: "
            f"set ONWARD_PG_BIN to the bin folder of a Postgres {held}, or move the data away to start anew"
        )


def _check_empty(data: Path) -> None:
    if data.is_dir() and any(data.iterdir()):
        raise DatabaseUnavailable(
            f"{data} is not empty, but holds no data of Postgres (PG_VERSION is missing): "
            f"restore it from a copy, move it away to start anew, {ELSE}"
        )


def _create(place: Place, bin_dir: Path, lock: LockFile) -> None:
    beside = place.home / f"postgres.new-{os.getpid()}"
    _write_password(place.password, place.account)
    try:
        place.account.make_folder(beside)
        _initialise(place, bin_dir, beside, lock)
        _create_database(place, bin_dir, beside, lock)
        beside.rename(place.data)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    _sync(place.home)


def _write_password(path: Path, account: Account) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(account.open(path, os.O_WRONLY), "w") as file:
        file.write(secrets.token_urlsafe(24))


def _initialise(place: Place, bin_dir: Path, target: Path, lock: LockFile) -> None:
    command: list[str | Path] = [bin_dir / "initdb", "-D", target, "-U", NAME, "--pwfile", place.password]
    command += ["--auth-local=trust", "--auth-host=scram-sha-256", "--data-checksums"]
    command += ["--locale=C", "--encoding=UTF8", "--no-instructions"]
    done = place.account.run(command, lend=[lock.fd])
    if done.returncode:
        raise from_output("cannot create the data directory", place, done.stderr)


def _create_database(place: Place, bin_dir: Path, target: Path, lock: LockFile) -> None:
    command: list[str | Path] = [bin_dir / "postgres", "--single", "-D", target, "-c", "exit_on_error=on"]
    command.append("template1")
    done = place.account.run(command, text=f"create database {NAME}\n", lend=[lock.fd])
    if done.returncode:
        raise from_output("cannot create the database", place, done.stderr)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
