"""The account that runs Postgres, which refuses to run as root.

An ordinary user runs it as themselves. Root drops to the owner of the data directory, so that a folder
once used by an ordinary user goes on working under sudo; for new data to the owner of the folder, else
to `postgres`, else to `nobody`. What that account can reach is asked of the kernel, by a child process
that runs as it: reading mode bits instead would miss access lists and mount options.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onward.errors import DatabaseUnavailable


@dataclass(frozen=True)
class Account:
    """Whose processes and files the server's are; `dropped` when root gives up its rights for it."""

    uid: int
    gid: int
    dropped: bool

    @property
    def name(self) -> str:
        """The account's name, or its number where it has none."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    @property
    def spawn(self) -> dict[str, Any]:
        """The arguments of `subprocess` that start a child as this account.

        The working directory is `/`, because the caller's may be out of the account's reach. PG*
        variables are the caller's wishes for other servers; messages stay English to be recognised.
        """
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        who = {"user": self.uid, "group": self.gid, "extra_groups": []} if self.dropped else {}
        return {"cwd": "/", "env": env | {"LC_ALL": "C"}, **who}

    def run(
        self, args: Sequence[str | Path], text: str = "", lend: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end as this account; it shares the open files that it is lent."""
        return subprocess.run(  # noqa: S603  programs of the server, or /bin/sh with a fixed script
            args,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            pass_fds=lend,
            **self.spawn,
        )

    def can_enter(self, folder: Path) -> bool:
        """Whether the account may pass through `folder` and everything above it."""
        if not self.dropped:
            return os.access(folder, os.X_OK)
        return self.run(["/bin/sh", "-c", 'test -x "$1"', "sh", folder]).returncode == 0

    def own(self, path: Path | int) -> None:
        """Give a file that was just made to the account."""
        if self.dropped and isinstance(path, int):
            os.fchown(path, self.uid, self.gid)
        elif self.dropped:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def open(self, path: Path, flags: int) -> int:
        """Open a file, and make it first, the account's own and private, if there is none.

        Only a file that was made here changes hands: another one may be a link to anything.
        """
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW
        with suppress(FileExistsError):
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            self.own(fd)
            return fd
        return os.open(path, flags)

    def make_folder(self, folder: Path) -> None:
        """Make a private folder of the account's; one that exists keeps its mode and owner."""
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            return
        self.own(folder)


def account_for(folder: Path) -> Account:
    """Who runs the server of `folder`."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), dropped=False)
    account = _owner(folder / "postgres") or _known(_owner(folder)) or _ordinary()
    try:
        account.run(["/bin/sh", "-c", ":"])
    except PermissionError as problem:
        raise DatabaseUnavailable(
            f"Postgres does not run as root, and this root may not become user {account.name}: "
            "grant CAP_SETUID and CAP_SETGID, run as an ordinary user, or set ONWARD_URL"
        ) from problem
    return account


def _owner(path: Path) -> Account | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return Account(found.st_uid, found.st_gid, dropped=True) if found.st_uid else None


def _known(account: Account | None) -> Account | None:
    """Only an account with an entry in the password database can create data: initdb looks it up."""
    try:
        return account and Account(account.uid, pwd.getpwuid(account.uid).pw_gid, dropped=True)
    except KeyError:
        return None


def _ordinary() -> Account:
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, dropped=True)
    raise DatabaseUnavailable(
        "Postgres does not run as root, and there is neither a user postgres nor nobody to run it as: "
        "add one, or run Onward as an ordinary user"
    )
