"""What went wrong, in one line that says what to do."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from onward.embedded.places import Place
from onward.errors import DatabaseUnavailable

ELSE = "or set ONWARD_URL to a Postgres of your own"
FULL = ("No space left on device", "Check free disk space", "wrote only")


def from_os(problem: OSError, folder: Path) -> DatabaseUnavailable:
    """The error for what the operating system refused."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(folder)
    what = f"{problem.strerror or problem}: {problem.filename}" if problem.filename else str(problem)
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DatabaseUnavailable(
            f"cannot write in {folder} ({what}): make it writable for this user, work in another folder, {ELSE}"
        )
    return DatabaseUnavailable(f"cannot use {folder} for the embedded Postgres ({what}): free it, {ELSE}")


def from_output(failed: str, place: Place, output: str, log: Path | None = None) -> DatabaseUnavailable:
    """The error for what a program of Postgres said."""
    if any(words in output for words in FULL):
        return _full(place.home)
    if "could not look up effective user ID" in output:
        return DatabaseUnavailable(
            f"initdb wants a name for user id {place.account.uid}, which has none: "
            f"add it to /etc/passwd, run as another user, {ELSE}"
        )
    look = f"; see {log}" if log else ""
    return DatabaseUnavailable(f"{failed} in {place.home}: {telling(output)}{look}; mend it, {ELSE}")


def telling(output: str) -> str:
    """The line that tells most: the last that names an error, else the last; without its time stamp.

    A panic only follows from what came first.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(FATAL|PANIC|ERROR|error):", line)]
    if errors and "PANIC:" in errors[-1]:
        errors = errors[:1]
    return re.sub(r"^[-\d]+ [:.\d]+ \w+ \[\d+\] ", "", (errors or lines or ["it said nothing"])[-1])


def _full(folder: Path) -> DatabaseUnavailable:
    return DatabaseUnavailable(f"the disk that holds {folder} is full: free some space, {ELSE}")
