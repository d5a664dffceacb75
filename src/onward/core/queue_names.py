"""What queues and their groups may be called.

emails              a queue of the users
emails.dead         its dead letters; as long as the name of any queue may be, with that ending
__wf_onboard-user   the queue of a workflow's runs: to be looked at, and touched by nobody but the engine
"""

from __future__ import annotations

import re

from onward.errors import InvalidInput, InvalidName

DEAD = ".dead"
_RUNS = "__wf_"
_QUEUE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,46}")
_WORKFLOW_QUEUE = re.compile(r"__wf_[a-z0-9][a-z0-9_-]{0,42}")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def queue_name(name: str) -> str:
    """The name, if there may be a queue of it: of users, of their dead letters, or of runs."""
    if isinstance(name, str) and (_QUEUE.fullmatch(name.removesuffix(DEAD)) or _WORKFLOW_QUEUE.fullmatch(name)):
        return str.__str__(name)
    raise InvalidName(
        "queue name must be lower-case letters, digits, `_`, `.` and `-`, beginning with a letter or digit, at most "
        f"47 characters; got {_shown(name)}"
    )


def users_queue_name(name: str) -> str:
    """The name, if users may put something there."""
    if queue_name(name).startswith(_RUNS):
        raise InvalidName(
            f"{name} is the queue of the runs of {name.removeprefix(_RUNS)!r}, and `__` is reserved: start a run, "
            "signal it, or subscribe the workflow to a topic"
        )
    return name


def dead(name: str) -> str:
    """The queue of the dead letters of a queue."""
    return name + DEAD


def is_dead(name: str) -> bool:
    """Is this a queue of dead letters?"""
    return name.endswith(DEAD)


def group_name(group: str | None) -> str | None:
    """The group, if messages may have it."""
    if group is None or (
        isinstance(group, str)
        and 1 <= len(group) <= 256
        and not _UNPRINTABLE.search(group)
        and len(group.encode()) <= 256
    ):
        return group
    raise InvalidInput(f"a group is a text of 1 to 256 bytes without control characters; got {_shown(group)}")


def _shown(name: object) -> str:
    shown = repr(name)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
