"""What things may be called, and how a step's path is put together.

Names reach SQL, object keys, metric labels and URLs, so the rules are checked once, here, when a name is
first given. Two of them carry an argument:

- A step's name holds no control character. So a nested step's path can be its parent's path, U+001F and
  its own name: splitting it again is unambiguous, and no escaping is needed.
- A step's name does not end in `#` and digits. So the second use of a name in one place can be called
  `name#2`, and never meets a name that somebody wrote.

Step and event names are checked each time that they are used, so the checks remember what passed last.
"""

from __future__ import annotations

import re
from functools import lru_cache

from onward.errors import InvalidName

SEPARATOR = "\x1f"
LONGEST_PATH = 2000
"""In bytes: a path is part of a primary key, and a B-tree of Postgres takes entries up to 2,700 bytes."""

_WORKFLOW = re.compile(r"[a-z0-9][a-z0-9_-]{0,42}")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NUMBERED = re.compile(r"#[0-9]+\Z")


def workflow_name(name: str) -> str:
    """The name, if a workflow may be called so."""
    rule = "lower-case letters, digits, `-` and `_`, beginning with a letter or digit, at most 43 characters"
    return _matching(_WORKFLOW, name, "workflow", rule)


def tenant_name(name: str) -> str:
    """The name, if a tenant may be called so."""
    rule = "letters, digits, `_`, `.` and `-`, beginning with a letter or digit, at most 63 characters"
    return _matching(_TENANT, name, "tenant", rule)


def step_name(name: str) -> str:
    """The name, if a step may be called so."""
    return _step_name(name) if type(name) is str else _free("step", name)


def event_name(name: str) -> str:
    """The name, if an event may be called so: the rules of steps, since a wait is named after its event."""
    return _event_name(name) if type(name) is str else _free("event", name)


@lru_cache(maxsize=4096)
def _step_name(name: str) -> str:
    return _free("step", name)


@lru_cache(maxsize=4096)
def _event_name(name: str) -> str:
    return _free("event", name)


def _free(kind: str, name: object) -> str:
    if not isinstance(name, str):
        raise _invalid(kind, "must be a string", name)
    name = str.__str__(name)  # a StrEnum's member is its value here
    if _UNPRINTABLE.search(name):
        raise _invalid(kind, "must not contain control characters or lone surrogates", name)
    if not 1 <= len(name.encode()) <= 256:
        raise _invalid(kind, "must be 1 to 256 bytes of UTF-8", name)
    if _NUMBERED.search(name):
        raise _invalid(kind, "must not end in `#` and digits, which count the uses of a name", name)
    return name


def _matching(pattern: re.Pattern[str], name: object, kind: str, rule: str) -> str:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise _invalid(kind, f"must be {rule}", name)
    return str.__str__(name)


def _invalid(kind: str, rule: str, name: object) -> InvalidName:
    shown = repr(name)
    given = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return InvalidName(f"{kind} name {rule}; got {given}")


def join(parent: str, name: str) -> str:
    """The path of the step `name` that was called in the step at `parent`; "" is the workflow's body."""
    if not parent:
        return name
    path = f"{parent}{SEPARATOR}{name}"
    if len(path) * 4 > LONGEST_PATH and len(path.encode()) > LONGEST_PATH:
        raise InvalidName(
            f"steps are nested too deep: the names on the way to {name[:80]!r} are longer than "
            f"{LONGEST_PATH} bytes together; shorten them, or nest less"
        )
    return path


def split(path: str) -> tuple[str, str]:
    """The parent's path and the name of the step at `path`."""
    parent, _, name = path.rpartition(SEPARATOR)
    return parent, name


def numbered(name: str, count: int) -> str:
    """What the use number `count` of a name in one place is called."""
    return name if count == 1 else f"{name}#{count}"


def readable(path: str) -> str:
    """A step's path, for people."""
    return path.replace(SEPARATOR, " / ")


def shown(path: str) -> str:
    """The same in quotes, for a sentence."""
    return repr(readable(path))
