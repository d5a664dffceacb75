"""What a worker may be told, checked once, when it is made."""

from __future__ import annotations

from typing import Any

from onward.authoring.definition import Workflow
from onward.core import durations
from onward.core.durations import Duration
from onward.errors import InvalidInput

SHORTEST_LEASE = 0.5


def by_version(workflows: list[Workflow[Any, Any]]) -> dict[tuple[str, int], Workflow[Any, Any]]:
    found: dict[tuple[str, int], Workflow[Any, Any]] = {}
    for workflow in workflows:
        if not isinstance(workflow, Workflow):
            raise InvalidInput(f"a worker serves what @workflow made, got {workflow!r}")
        if found.setdefault((workflow.name, workflow.version), workflow) is not workflow:
            raise InvalidInput(
                f"two workflows are called {workflow.name!r} in version {workflow.version}: "
                "give the newer one a higher version"
            )
    if not found:
        raise InvalidInput("a worker needs at least one workflow")
    return found


def at_least_one(what: str, number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidInput(f"{what} is a whole number from 1 on, got {number!r}")
    return number


def lease_seconds(lease: Duration) -> float:
    seconds = durations.seconds(lease, what="lease")
    if seconds < SHORTEST_LEASE:
        raise InvalidInput(f"lease is at least {durations.show(SHORTEST_LEASE)}, got {lease!r}")
    return seconds
