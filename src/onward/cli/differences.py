"""Where two journals part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onward.cli.forms import encoded
from onward.client import Run, Step
from onward.core.ref import Ref


class Side(NamedTuple):
    run: Run
    steps: Sequence[Step]


class Parting(NamedTuple):
    """The first `same` steps are equal; then `a` and `b` (None: the journal is at its end) differ in something."""

    same: int
    a: Step | None
    b: Step | None
    differ: tuple[str, ...]


def part(a: Side, b: Side) -> Parting:
    same = 0
    for left, right in zip(a.steps, b.steps, strict=False):
        differ = _differ(left, right)
        if differ:
            return Parting(same, left, right, differ)
        same += 1
    rest = [side.steps[same] if same < len(side.steps) else None for side in (a, b)]
    return Parting(same, rest[0], rest[1], ("length",) if any(rest) else ())


def tell(a: Side, b: Side, parting: Parting) -> list[str]:
    """Sentences above the two sides."""
    told = []
    if (a.run.workflow, a.run.version) != (b.run.workflow, b.run.version):
        told.append(f"A is {a.run.workflow}@{a.run.version}, B is {b.run.workflow}@{b.run.version}")
    if _content(a.run.input) != _content(b.run.input):
        told.append(f"the inputs differ: A {encoded(a.run.input)[:200]}, B {encoded(b.run.input)[:200]}")
    count = f"{parting.same} step{'s' if parting.same != 1 else ''}"
    if not parting.differ:
        told.append(f"the journals are the same ({count})")
    elif parting.differ == ("length",):
        longer = "A" if parting.a else "B"
        told.append(f"the first {count} are the same; then only {longer} goes on:")
    else:
        before = f"the first {count} are the same; " if parting.same else ""
        told.append(f"{before}step {parting.same + 1} differs in {', '.join(parting.differ)}:")
    return told


def shown(step: Step | None) -> str:
    if step is None:
        return "(no further step)"
    path = f"{step.parent} / {step.name}" if step.parent else step.name
    tries = f" after {step.attempt} attempts" if step.attempt > 1 else ""
    value = f"{step.error['type']}: {step.error['message']}" if step.error else encoded(step.output)
    return f"{path} ({step.kind}) {step.status}{tries}: {value}"


def _content(value: Any) -> Any:
    """What lies outside is the same where its content is, under whatever key."""
    return (value.sha256, value.size) if isinstance(value, Ref) else value


def _differ(a: Step, b: Step) -> tuple[str, ...]:
    """In what two steps differ; neither times nor attempts count, nor where in the code an error was raised."""
    sides: list[dict[str, Any]] = [
        {
            "name": (step.parent, step.name),
            "kind": step.kind,
            "status": step.status,
            "output": _content(step.output),
            "error": step.error and (step.error["type"], step.error["message"]),
        }
        for step in (a, b)
    ]
    return tuple(key for key in sides[0] if encoded(sides[0][key]) != encoded(sides[1][key]))
