"""Replay: a journal and a body's calls in, decisions out. Pure: no loop, no clock, no database.

The journal is authoritative. A body is a pure function of the results that it was given and of their order, so
giving it the same results in the same order brings it to the same place. The same object serves a run the first
time and on replay: the first time rows arrive one batch after the other, on replay they are all there at once.

The laws (docs/architecture.md tells them with examples):

1. A call's identity is its path: the path of the step it was made in, its name, its count. Counts restart with each
   attempt of the step around them.
2. `next_row` gives the oldest row that the body asks for, one at a time; the caller asks again only when the body has
   come to rest. Two results at once would make `asyncio.wait` return both, and only one on the other occasion.
3. `may_start` is false while the journal holds results for the body. Otherwise a task group's sibling, about to be
   cancelled by a result that is on its way, would begin its next step on every replay.
4. `divergence` tells a recorded step that the body never asked for. It means something only at rest, when nothing
   else can be given.

A call's life; any other transition raises and changes nothing:

    MADE ──open──> OPEN ──start──> STARTED ──answer──> ANSWERED
     │              ^ └────────────answer───────────────^
     └──hold──> HELD┘        and from any of the first four: ──withdraw──> WITHDRAWN

A race is held while its branches run: it is asked for, but its row must not overtake those of its branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple

from onward.core import names


class Row(NamedTuple):
    """A row of the journal, as it was committed. Exactly one of `output` and `error` is there. `began` is told where
    the database has journalled it and nobody was told before; it decides nothing."""

    path: str
    kind: str
    output: bytes | None
    error: bytes | None
    attempt: int
    at: datetime
    began: datetime | None = None


class State(IntEnum):
    MADE = 0
    OPEN = 1
    STARTED = 2
    ANSWERED = 3
    WITHDRAWN = 4
    HELD = 5


_LEGAL: tuple[frozenset[State], ...] = (
    frozenset({State.OPEN, State.HELD, State.WITHDRAWN}),  # from MADE
    frozenset({State.STARTED, State.ANSWERED, State.WITHDRAWN}),  # from OPEN
    frozenset({State.ANSWERED, State.WITHDRAWN}),  # from STARTED
    frozenset(),  # ANSWERED is the end
    frozenset(),  # so is WITHDRAWN
    frozenset({State.OPEN, State.WITHDRAWN}),  # from HELD
)


class IllegalTransition(RuntimeError):
    """A bug in the engine: a call was moved to a state that it cannot reach."""


class Call:
    """One use of a step verb, in the body or in a step."""

    __slots__ = ("kind", "parent", "path", "state", "whole")

    def __init__(self, parent: str, path: str, kind: str) -> None:
        self.parent, self.path, self.kind, self.state = parent, path, kind, State.MADE
        self.whole = False  # where the journal holds a pointer, its caller needs what that points to

    def to(self, state: State) -> None:
        if state not in _LEGAL[self.state]:
            raise IllegalTransition(f"{self.path!r} cannot go from {self.state.name} to {state.name}")
        self.state = state

    @property
    def waits(self) -> bool:
        """Can a result be given to it?"""
        return self.state is State.OPEN or self.state is State.STARTED


class Replay:
    """What one run has asked for, and what its journal answers."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._calls: dict[str, Call] = {}
        self._counts: dict[str, dict[str, int]] = {"": {}}  # by the step around it
        self._body: list[Row] = []  # rows of the body in order; a deque would take 600 bytes a run
        self._head = 0  # where those begin that were not given yet
        self._nested: dict[str, tuple[int, Row]] = {}  # rows of steps within steps, with their order
        self._ready: dict[str, tuple[int, Row]] = {}  # of these, the ones that are asked for now
        self._parents: dict[str, None] = {}  # steps that contain rows
        self._before: dict[str, None] = {}  # of these, the ones that are executed again
        self.rows = 0  # how many rows the journal is known to hold
        self.given = 0  # how many of them were given
        for row in rows:
            self.add(row)

    # ---- what the body does ------------------------------------------------------------------------

    def make(self, parent: str, name: str, kind: str) -> Call:
        """A call takes its name when it is made: the first use is `name`, the second `name#2`."""
        counts = self._counts.setdefault(parent, {})
        counts[name] = count = counts.get(name, 0) + 1
        path = names.join(parent, name if count == 1 else names.numbered(name, count))
        call = Call(parent, path, kind)
        self._calls[path] = call
        return call

    def open(self, call: Call) -> None:
        """The call is awaited: from here on it can be answered."""
        call.to(State.OPEN)
        if call.parent and call.path in self._nested:
            self._ready[call.path] = self._nested[call.path]

    def hold(self, call: Call) -> None:
        """The call is awaited, but not to be answered before it is opened."""
        call.to(State.HELD)

    def start(self, call: Call) -> None:
        call.to(State.STARTED)

    def withdraw(self, call: Call) -> None:
        """The body no longer waits (it was cancelled there): a row that comes all the same is passed over."""
        if call.state not in (State.ANSWERED, State.WITHDRAWN):
            call.to(State.WITHDRAWN)
            self._ready.pop(call.path, None)

    def begin_attempt(self, path: str) -> None:
        """A step is executed, perhaps again: what it calls is counted from the start (law 1)."""
        if path in self._parents:
            self._before[path] = None
        if self._counts.pop(path, None):
            for call in [c for c in self._calls.values() if c.parent == path]:
                self.withdraw(call)
                del self._calls[call.path]

    # ---- what the journal says -----------------------------------------------------------------------

    def add(self, row: Row) -> None:
        """A row was committed, by this execution, an earlier one, or by what settles waits."""
        self.rows += 1
        if names.SEPARATOR not in row.path:
            self._body.append(row)
            return
        self._nested[row.path] = (self.rows, row)
        self._parents[names.split(row.path)[0]] = None
        call = self._calls.get(row.path)
        if call is not None and call.waits:
            self._ready[row.path] = self._nested[row.path]

    def next_row(self) -> tuple[Call, Row] | None:
        """The oldest row that is asked for. The call counts as answered from here on (law 2)."""
        found = self._next_of_body()
        if found is None and self._ready:
            path, (_, row) = min(self._ready.items(), key=lambda item: item[1][0])
            found = (self._calls[path], row)
        if found is not None:
            self._answer(*found)
        return found

    def _next_of_body(self) -> tuple[Call, Row] | None:
        at = self._head
        while at < len(self._body):
            row = self._body[at]
            call = self._calls.get(row.path)
            if call is None or call.state is State.MADE or call.state is State.HELD:
                at += 1
                continue
            self._take_out(at)
            if call.waits:
                return call, row
            at = max(at, self._head)
        return None

    def _take_out(self, at: int) -> None:
        if at > self._head:
            del self._body[at]
            return
        self._head += 1
        if self._head == len(self._body):
            self._body.clear()
            self._head = 0

    def _answer(self, call: Call, row: Row) -> None:
        call.to(State.ANSWERED)
        self.given += 1
        self._ready.pop(row.path, None)
        if not call.parent:  # its row is gone, nobody asks again; a nested call may be asked by the next attempt
            del self._calls[call.path]

    def recorded(self, call: Call) -> Row | None:
        """The row that will answer this call, if the journal has it already."""
        if call.parent:
            return self._nested.get(call.path, (0, None))[1]
        return next((row for row in self.coming() if row.path == call.path), None)

    def comes_next(self, call: Call) -> bool:
        """Is the oldest row that nobody was given the answer to this call?"""
        return bool(self._body) and self._body[self._head].path == call.path

    @property
    def left(self) -> int:
        """How many rows the body has not been given yet."""
        return len(self._body) - self._head

    def coming(self) -> Iterator[Row]:
        """The body's rows that nobody was given yet, in their order."""
        return (self._body[at] for at in range(self._head, len(self._body)))

    def more(self) -> bool:
        """Is there a row that the body has still to be given, as far as can be told?"""
        calls = self._calls
        return any(row.path not in calls or calls[row.path].state is not State.WITHDRAWN for row in self.coming())

    def all_given(self) -> bool:
        """Is there no row that anybody has still to be given?"""
        return not self._body and not self._ready

    def may_start(self, call: Call) -> bool:
        """Law 3. Inside a step it holds at rest: a step that is executed again need not ask for all that it did ask for
        (it is no body), so what it asks for is given first, and the rest does not count."""
        if call.parent:
            return call.path not in self._nested and not self._ready
        return not self._body

    def waits_for_rest(self, call: Call) -> bool:
        """Is the call in a step that was executed before? Whether it may start is known at rest only."""
        return call.parent in self._before

    # ---- at rest, with nothing left to give -------------------------------------------------------------

    def divergence(self, ended: bool = False) -> tuple[Row, list[str]] | None:
        """Law 4: the oldest recorded step that was never asked for, and what the body asks for instead. A race whose
        row is there and whose branches do not settle is one too, unless the body has `ended` without it."""
        for row in self.coming():
            call = self._calls.get(row.path)
            if call is None or call.state is State.MADE or (call.state is State.HELD and not ended):
                return row, [c.path for c in self._calls.values() if not c.parent and c.waits]
        return None

    def mismatch(self, call: Call, row: Row) -> bool:
        """The step is there, but it was something else when it was recorded (a sleep, and now a run)."""
        return call.kind != row.kind

    def not_awaited(self, parent: str = "") -> list[str]:
        """Calls that were made and never awaited; they are withdrawn with this."""
        found = [c for c in self._calls.values() if c.parent == parent and c.state is State.MADE]
        for call in found:
            self.withdraw(call)
        return [call.path for call in found]
