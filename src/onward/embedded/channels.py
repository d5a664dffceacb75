"""How clients reach the server: a socket in a private folder, or else loopback with a password.

A socket's path is limited to about a hundred bytes, and a comma in it would read as two hosts. So the
folder's own `run` serves where its name allows, else a private folder with a random name in the
temporary directory, else loopback with the random password that initdb was given; loopback is never
trusted, because every user of the machine can reach it. Who joins reads from `postmaster.pid` which
it is. After a crash the old socket folder or port is used again, so that addresses which other
processes hold stay true.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from onward.embedded.accounts import Account
from onward.embedded.places import Place
from onward.embedded.postmaster import NAME, PidFile

PORT = 5432
LONGEST = 100  # bytes; the kernels allow 104 (macOS) and 108 (Linux), with the final NUL


def settings(place: Place, before: PidFile | None) -> dict[str, str]:
    """The settings that open the channel, while no server runs; `before` is what a crashed one left."""
    folder = _socket_folder(place, before)
    if folder is None:
        return {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "port": str(_port(before))}
    for stale in folder.glob(".s.PGSQL.*"):  # its lock names a process, whose number may be a stranger's
        stale.unlink()
    listed = '"' + str(folder).replace('"', '""') + '"'
    return {"listen_addresses": "", "unix_socket_directories": listed, "port": str(PORT)}


def url(place: Place, server: PidFile) -> str:
    """The address for clients of a server that runs."""
    if server.socket_dir:
        return f"postgresql://{NAME}@/{NAME}?host={quote(server.socket_dir, safe='')}&port={server.port}"
    return f"postgresql://{NAME}:{place.password.read_text()}@127.0.0.1:{server.port}/{NAME}"


def tidy(place: Place, server: PidFile) -> None:
    """Remove the socket folder of a server that has stopped, if it lay in the temporary directory."""
    folder = Path(server.socket_dir)
    if server.socket_dir and folder != place.run and _is_private(folder, place.account):
        shutil.rmtree(folder, ignore_errors=True)


def _socket_folder(place: Place, before: PidFile | None) -> Path | None:
    if fits(place.run):
        place.account.make_folder(place.run)
        return place.run
    if before and before.socket_dir and _is_private(Path(before.socket_dir), place.account):
        return Path(before.socket_dir)
    return _temporary(place.account)


def fits(folder: Path) -> bool:
    """Whether a socket in the folder has an address that every client understands."""
    text = str(folder)
    return len(os.fsencode(f"{text}/.s.PGSQL.{PORT}")) <= LONGEST and text.isprintable() and "," not in text


def _temporary(account: Account) -> Path | None:
    for parent in _temporary_directories():
        if fits(parent / "onward-12345678") and account.can_enter(parent):
            try:
                folder = Path(tempfile.mkdtemp(prefix="onward-", dir=parent))
            except OSError:
                continue
            account.own(folder)
            return folder
    return None


def _temporary_directories() -> Iterator[Path]:
    with suppress(FileNotFoundError):  # none can be written
        yield Path(tempfile.gettempdir()).resolve()
    yield Path("/tmp")  # noqa: S108  mkdtemp is private


def _is_private(folder: Path, account: Account) -> bool:
    """Anybody may make a folder in the temporary directory; only the account's own will do."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and stat.S_IMODE(found.st_mode) == 0o700


def _port(before: PidFile | None) -> int:
    for wanted in (before.port if before and not before.socket_dir else 0, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return PORT
