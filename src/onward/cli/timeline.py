"""A run's journal as a picture: when each step ran, for how long, and what came out.

    onboard-user@1  completed                              0190cd1e-…
    started 14:03:11 · took 4.61s

       +0ms  ● create-user    ━━                       212ms  {"id": 42}
     +212ms  ☾ welcome-delay   ┄┄┄┄┄┄┄┄                2.00s
     +2.21s  ● send-welcome            ━━━            1.04s  attempt 2
             ┊ nothing was journalled for 2.20s

Pure: records in, lines out. Steps stand in the order in which they began, inner ones below theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from rich.cells import cell_len

from onward.cli import sizes
from onward.cli.paper import Line, clean, cut, fit, right
from onward.cli.times import ago, local, span
from onward.client.records import error_of
from onward.core import names
from onward.store.runs import RunRecord, StepRecord

_UNICODE = {
    "run": ("●", "━"), "sleep": ("☾", "┄"), "wait": ("⚑", "╌"), "race": ("⑂", "─"),
    "start": ("↳", "━"), "invoke": ("↳", "╌"), "batch": ("▤", "╌"),
    "gap": ("┊", " "), "completed": ("■", ""), "failed": ("✗", ""), "cancelled": ("■", ""), "running": ("▶", ""),
}  # fmt: skip
_ASCII = {
    "run": ("*", "="), "sleep": ("z", "."), "wait": ("?", "-"), "race": ("Y", "="),
    "start": (">", "="), "invoke": (">", "-"), "batch": ("#", "-"),
    "gap": (":", " "), "completed": ("#", ""), "failed": ("x", ""), "cancelled": ("#", ""), "running": (">", ""),
}  # fmt: skip
_STYLES = {"run": "green", "sleep": "blue", "wait": "magenta", "race": "cyan", "batch": "magenta"}
STATUS_STYLES = {"completed": "green", "failed": "red", "cancelled": "yellow", "parked": "red", "stranded": "red"}
_OFFSET, _TOOK = 8, 7


@dataclass(frozen=True)
class _Scale:
    """Where a moment lies on the bar."""

    start: datetime
    seconds: float
    cells: int

    def bar(self, begin: datetime, end: datetime, mark: str) -> str:
        if self.cells == 0:
            return ""
        first = min(int(self._at(begin)), self.cells - 1)
        last = max(first + 1, min(round(self._at(end)), self.cells))
        return (" " * first + mark * (last - first)).ljust(self.cells)

    def _at(self, when: datetime) -> float:
        return max(0.0, (when - self.start).total_seconds()) / max(self.seconds, 1e-6) * self.cells


def draw(run: RunRecord, steps: Sequence[StepRecord], now: datetime, width: int, unicode: bool = True) -> list[Line]:
    """The whole picture."""
    marks = _UNICODE if unicode else _ASCII
    end = run.completed_at or max([now, *(s.completed_at for s in steps if s.completed_at)])
    rows = list(_in_order(steps))
    name_cells = max([12, *(2 * depth + 2 + cell_len(clean(_name(step))) for depth, step in rows)])
    name_cells = min(name_cells, max(16, width // 3))
    cells = 28 if width >= 110 else 18 if width >= 90 else 12 if width >= 76 else 0
    scale = _Scale(run.started_at, (end - run.started_at).total_seconds(), cells)
    layout = _Layout(scale, name_cells, width, marks, now)
    return [*_head(run, now, width), [], *layout.steps(run, rows, end), layout.last(run, end), []]


def _head(run: RunRecord, now: datetime, width: int) -> Iterator[Line]:
    version = f"@{run.version}" if run.version else ""
    state = run.state if run.status == "running" else run.status
    yield [
        (f"{run.workflow}{version}", "bold"),
        ("  ", ""),
        (state, f"bold {STATUS_STYLES.get(state, 'cyan')}"),
        (f"  {run.run_id}", "dim"),
    ]
    took = ((run.completed_at or now) - run.started_at).total_seconds()
    verb = "took" if run.completed_at else "running for"
    since = "" if ago(run.started_at, now) == "just now" else f" ({ago(run.started_at, now)})"
    yield [(f"started {local(run.started_at, now)}{since} · {verb} {span(took)}", "dim")]
    if run.input != b"null":
        yield [("input ", "dim"), (cut(sizes.shown(run.input), width - 6), "")]
    if run.rerun_of is not None:
        yield [(f"rerun of {run.rerun_of}", "dim")]
    if run.reason is not None:
        yield [("parked: ", "red"), (clean(run.reason), "")]


class _Layout:
    """Columns: offset, glyph and name, bar, duration, note."""

    def __init__(
        self, scale: _Scale, name_cells: int, width: int, marks: dict[str, tuple[str, str]], now: datetime
    ) -> None:
        self._scale, self._name_cells, self._marks, self._now = scale, name_cells, marks, now
        used = 1 + _OFFSET + 2 + name_cells + 1 + scale.cells + 1 + _TOOK + 2
        self._note_cells = max(width - used, 12)

    def steps(self, run: RunRecord, rows: list[tuple[int, StepRecord]], end: datetime) -> Iterator[Line]:
        covered = run.started_at
        for depth, step in rows:
            if depth == 0:
                yield from self._gap(covered, step.started_at, step)
                covered = max(covered, step.completed_at or end)
            yield self._step(depth, step)
        if rows:
            yield from self._gap(covered, end, None)

    def _step(self, depth: int, step: StepRecord) -> Line:
        glyph, mark = self._marks[step.kind]
        style = "red" if step.status == "failed" else _STYLES.get(step.kind, "green")
        style = "yellow" if step.status == "retrying" else style
        open_ended = step.completed_at is None
        took = (step.completed_at or self._now) - step.started_at
        indent = "  " * min(depth, 4)
        name = indent + fit(f"{glyph} {_name(step)}", self._name_cells - len(indent))
        return [
            (f" {self._offset(step.started_at)}  ", "dim"),
            (name, f"bold {style}" if open_ended else style if step.status == "failed" else ""),
            (" ", ""),
            (self._scale.bar(step.started_at, step.completed_at or self._now, mark), style),
            (" ", ""),
            (right(span(took.total_seconds()), _TOOK) + "  ", "dim"),
            (cut(_note(step, self._now), self._note_cells), style if step.error or open_ended else ""),
        ]

    def _gap(self, before: datetime, after: datetime, step: StepRecord | None) -> Iterator[Line]:
        """Time in which nothing was journalled: a worker that died, a back-off, a body that computed."""
        seconds = (after - before).total_seconds()
        if seconds < max(0.25, self._scale.seconds * 0.04):
            return
        why = (
            "failed attempts and the time between them"
            if step is not None and step.attempt > 1
            else "nothing journalled"
        )
        yield [
            (" " * (_OFFSET + 1) + "  ", ""),
            (fit(self._marks["gap"][0], self._name_cells + 1 + self._scale.cells + 1), "dim"),
            (right(span(seconds), _TOOK) + "  ", "dim"),
            (cut(why, self._note_cells), "dim italic"),
        ]

    def last(self, run: RunRecord, end: datetime) -> Line:
        glyph, _ = self._marks[run.status]
        style = STATUS_STYLES.get(run.status, "cyan")
        word = run.status if run.status != "running" else f"{run.state} …"
        note = _error(run.error) if run.error else _value(run.output)
        if run.status == "running":
            note = f"onward why {run.run_id}"
        head = f"{glyph} {word}"
        cells = max(self._name_cells + 1 + self._scale.cells + 1 + _TOOK + 1, cell_len(head))
        return [
            (f" {self._offset(end)}  ", "dim"),
            (fit(head, cells) + " ", f"bold {style}"),
            (cut(note, self._note_cells) if run.status != "running" else note, style if run.error else "bold"),
        ]

    def _offset(self, when: datetime) -> str:
        return right("+" + span((when - self._scale.start).total_seconds()), _OFFSET)


def _in_order(steps: Sequence[StepRecord]) -> Iterator[tuple[int, StepRecord]]:
    """(depth, step), by when they began; inner steps right below the one around them."""
    inner: dict[str, list[StepRecord]] = {}
    there = {step.path for step in steps}
    for step in steps:
        parent, _ = names.split(step.path)
        inner.setdefault(_nearest(parent, there), []).append(step)

    def below(path: str, depth: int) -> Iterator[tuple[int, StepRecord]]:
        for step in sorted(inner.get(path, ()), key=lambda s: (s.started_at, s.seq)):
            yield depth, step
            yield from below(step.path, depth + 1)

    return below("", 0)


def _nearest(path: str, there: set[str]) -> str:
    """The step around it that is journalled: while the outer one executes, only the inner ones are."""
    while path and path not in there:
        path, _ = names.split(path)
    return path


def _name(step: StepRecord) -> str:
    return names.split(step.path)[1]


def _note(step: StepRecord, now: datetime) -> str:
    tries = f"attempt {step.attempt}  " if step.attempt > 1 and step.completed_at else ""
    if step.completed_at is None:
        return _pending(step, now)
    if step.error is not None:
        return tries + _error(step.error)
    if step.kind == "wait" and step.output == b"null":
        return tries + "timed out"
    return tries + _value(step.output)


def _value(data: bytes | None) -> str:
    return "" if data is None or data == b"null" else sizes.shown(data)


def _pending(step: StepRecord, now: datetime) -> str:
    left = None if step.deadline is None else (step.deadline - now).total_seconds()
    due = "" if left is None else f"{span(left)} to go" if left > 0 else "due"
    if step.status == "retrying":
        most = f" of {step.attempts}" if step.attempts else ""
        return f"attempt {step.attempt + 1}{most}, {due}: {_error(step.error)}"
    if step.kind == "wait":
        match = f", with {step.match}" if step.match else ""
        return f"waits for {step.event}{', ' + due if due else ''}{match}"
    if step.kind == "invoke":
        return f"waits for run {_id(step.child)}"
    return due


def _id(child: UUID | None) -> str:
    return str(child) if child else "?"


def _error(data: bytes | None) -> str:
    error = error_of(data)
    return "" if error is None else f"{error['type']}: {error['message']}"
