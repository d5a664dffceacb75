"""Where the files of a folder's server lie.

    <folder>/postgres        the data directory
    <folder>/postgres.log    what the server said
    <folder>/run             its socket
    <folder>/*.lock, password

When root drops to an account that cannot reach the folder (a parent of mode 0700), no mode is
loosened: all but the log lies in a folder of its own below /var/lib/onward, private to the account, and
`<folder>/postgres` is a symbolic link that leads there. The link is the only authority. A name derived
from the folder's path alone would bring deleted data back to life for a new folder of the same name,
and would lose the data of a folder that was moved. Making a link is atomic and fails when there is
one, so processes that come at once agree without a lock; the locks lie beside the data, so that a
folder copied together with its link shares the server rather than fighting for it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from onward.embedded.accounts import Account, account_for
from onward.embedded.binaries import root_folder
from onward.errors import DatabaseUnavailable

ELSEWHERE = Path("/var/lib/onward")


@dataclass(frozen=True)
class Place:
    """Where the server of `folder` lives (`home`, mostly the folder itself), and who runs it."""

    folder: Path
    home: Path
    account: Account

    @property
    def data(self) -> Path:
        return self.home / "postgres"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def password(self) -> Path:
        return self.home / "password"

    @property
    def start_lock(self) -> Path:
        return self.home / "start.lock"

    @property
    def users_lock(self) -> Path:
        return self.home / "users.lock"

    @property
    def server_lock(self) -> Path:
        return self.home / "server.lock"


def locate(start: Path | None = None) -> Path:
    """The nearest `.onward` folder from `start` upward, else the user's data directory."""
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / ".onward").is_dir():
            return folder / ".onward"
    return platformdirs.user_data_path("onward")


def settle(folder: Path) -> Place:
    """Make the folder if there is none, and decide where its data lies. The same answer ever after."""
    real = folder.expanduser().resolve()
    if any(ord(char) < 32 for char in str(real)):
        raise DatabaseUnavailable(f"{str(real)!r} has a control character in its name: rename it")
    if real.is_dir():
        _check_owner(real)
    account = account_for(real)
    real.parent.mkdir(parents=True, exist_ok=True)
    account.make_folder(real)
    return Place(real, _home(real, account), account)


def settled(folder: Path) -> Place | None:
    """Where the data of `folder` lies, if it was ever decided; makes nothing."""
    real = folder.expanduser().resolve()
    if not real.is_dir():
        return None
    _check_owner(real)
    link = real / "postgres"
    return Place(real, _led_to(link) if link.is_symlink() else real, account_for(real))


def _check_owner(folder: Path) -> None:
    """A folder of somebody else's could lead us to a server of theirs, or to any file of ours."""
    me, link = os.geteuid(), folder / "postgres"
    if me != 0 and folder.stat().st_uid not in (0, me):
        raise DatabaseUnavailable(
            f"{folder} belongs to another user: run as that user, or make a .onward folder of your own"
        )
    if link.is_symlink() and link.lstat().st_uid not in (0, me):
        raise DatabaseUnavailable(f"{link} is a link made by another user: remove it, or run as that user")


def _home(folder: Path, account: Account) -> Path:
    link = folder / "postgres"
    if link.is_symlink():
        return _restored(link, account)
    if account.can_enter(folder):
        return folder
    if link.exists():
        raise DatabaseUnavailable(
            f"user {account.name}, who runs Postgres for root, cannot reach {link}: "
            "let them pass through the folders above it, or move it to where they can"
        )
    return _elsewhere(folder, link, account)


def _led_to(link: Path) -> Path:
    return (link.parent / link.readlink()).parent.resolve()


def _restored(link: Path, account: Account) -> Path:
    home = _led_to(link)
    if home.parent == ELSEWHERE:
        root_folder(ELSEWHERE)
    account.make_folder(home)
    return home


def _elsewhere(folder: Path, link: Path, account: Account) -> Path:
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root_folder(ELSEWHERE)))
    account.own(home)
    try:
        link.symlink_to(home / "postgres")
    except OSError as problem:
        home.rmdir()
        if not isinstance(problem, FileExistsError):
            raise
    return _led_to(link)
