"""One run in this worker's memory: its coroutine, and what the database knows of it.

The database is authoritative. A run is in memory under one hand-out (its receipt); whatever is sent carries the
receipt, and an answer that is not `ok` ends this execution: somebody else has the run now, or it has ended.

    HOT ──suspend──> SUSPENDING ──suspended──> CACHED ──claimed again, receipt + 1──> HOT
     │                   └──something was ready──> HOT
     └──the body ended──> ENDING ──ok──> OVER            from anywhere ──lost, gone, cancelled──> OVER

What is decided where: `core.replay` says which result comes next and what may start, always at rest (see rest.py).
At rest, with nothing to give, this file decides in this order: start what may start; if results are on their way,
wait for them; if nothing executes, suspend; else register what is waited for, so that deadlines are facts from when
the body reached them, and a crash of a long step beside a sleep does not move the sleep.

A signal that is journalled for a wait which the body then gives up would be lost. So a register or a suspend is made
only at rest, with every result given and none on its way; results that come up meanwhile are held back behind it
(`_held`); it settles one signal, and after the body has reacted to that the next one is asked for. It also tells how
many rows of the journal are known here: where there are more, the database settles nothing and answers `stale`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, Protocol

from onward.authoring.definition import Workflow
from onward.client.payloads import Payloads, Told
from onward.client.traces import Spans
from onward.core import pointers
from onward.core.names import shown
from onward.core.replay import Call, Replay, Row
from onward.errors import LeaseLost, NonDeterminism, OnwardError, RunCancelled
from onward.store.handouts import Answer, Ask, End, HandOut, Result, Verdict, Want
from onward.worker.committer import Committer, Farewell
from onward.worker.deadlines import Deadlines
from onward.worker.fetches import Fetches
from onward.worker.readings import Readings
from onward.worker.rest import TURNS, Turns
from onward.worker.tallies import Tally
from onward.worker.tasks import Body, Counting
from onward.worker.threads import Threads
from onward.worker.traces import Traced

_log = logging.getLogger("onward")

_BREATH = 64
"""Rows that a replay is given at once, before it lets the loop turn."""
_GRACE = 1.0
"""Seconds that a body may look diverged: one that awaits something of its own only seems to rest."""
_LONG_GRACE = 60.0
"""The same for a body that asks for nothing: most likely it does await something of its own."""


class Mode(Enum):
    HOT = "hot"
    SUSPENDING = "suspending"
    CACHED = "cached"
    ENDING = "ending"
    OVER = "over"


class Host(Protocol):
    """The worker, as an execution sees it."""

    loop: asyncio.AbstractEventLoop
    committer: Committer
    turns: Turns
    threads: Threads
    deadlines: Deadlines
    counting: Counting
    payloads: Payloads
    fetches: Fetches
    tally: Tally
    spans: Spans | None
    executing: int

    def admits(self, run: Execution, inside: bool) -> bool:
        """May this run begin to execute a step now? `inside`: within one that executes."""

    def cached(self, run: Execution) -> None: ...
    def due_in(self, seconds: float) -> None: ...
    def ended(self, run: Execution, told: bool) -> None: ...
    def judged(self, run: Execution, verdicts: Sequence[Verdict]) -> Coroutine[Any, Any, None]: ...
    def trouble(self, run: Execution, text: str | None) -> None: ...
    def left(self, run: Execution, *, release: bool) -> None: ...
    def poke(self, run: Execution) -> None: ...
    def progressed(self, run: Execution) -> None: ...


class Ending(NamedTuple):
    status: str
    output: bytes | None
    error: bytes | None


class Execution:
    """A run that was handed out. `Verbs` calls it for the body, the committer with answers, the worker with news."""

    # fmt: off
    __slots__ = (  # without them, and with sets in place of dicts, a suspended run takes twice the memory
        "_asking", "_backing_off", "_ended", "_ending", "_futures", "_gated", "_held", "_more", "_queued",
        "_registered", "_resting", "_starting", "_strays", "_timer", "_unanswered", "body", "cancelled",
        "counts", "executing", "failures", "host", "inner", "key", "leaving", "loop", "main", "mode", "now",
        "out", "over", "readings", "receipt", "replay", "replaying", "stir", "suspect", "tasks", "traced", "waits",
        "watched", "workflow",
    )
    # fmt: on

    def __init__(self, host: Host, out: HandOut, workflow: Workflow[Any, Any]) -> None:
        self.host, self.workflow = host, workflow
        self.out = out._replace(rows=[]) if out.rows else out  # they are the replay's
        self.loop = host.loop
        self.receipt = out.receipt
        self.key = str(out.run_id)
        self.mode, self.over = Mode.HOT, False
        self.body = Body()
        self.stir = 0  # counted by Turns
        self.watched = False
        self._resting = False
        self.cancelled = False
        self.now: datetime = out.started_at
        self.replay = Replay(out.rows)
        self.replaying = bool(out.rows)
        self.failures = {b.path: b for b in out.back_offs}  # of steps that are not asked for yet
        self.waits: dict[str, Want] = {}
        self._backing_off: dict[str, None] = {}  # of them, the steps that are not being tried again yet
        self.readings = Readings(self)
        self.counts = host.tally.of(out.tenant, workflow.name)
        self.traced = None if host.spans is None else Traced(host.spans, out)
        if self.traced is not None:
            self.traced.told(out.rows)
        self.executing = 0  # steps that execute; a back-off does not
        self.tasks: dict[asyncio.Task[Any], None] = {}  # of the body's, beside `main`, that have called a step
        self.inner: dict[str, set[asyncio.Task[Any]]] = {}  # those that were called within a step, by its path
        self._queued = 0  # steps that wait for a thread, or to be admitted again
        self._gated: dict[asyncio.Future[None], Call] = {}  # of them, the latter
        self.main: asyncio.Task[None] | None = None
        self.suspect = out.deaths > 0  # its worker died before: marked before it executes a step
        self._futures: dict[str, asyncio.Future[Row | None]] = {}
        self._starting: dict[str, Call] = {}
        self._registered: dict[str, int] = {}
        self._unanswered = 0
        self._asking = False
        self._more = False  # there may be more to settle than was
        self._held: list[Result] | None = None
        self._ending: Ending | None = None
        self._ended = False  # the body has
        self._timer: asyncio.TimerHandle | None = None
        self._strays: asyncio.TimerHandle | None = None
        self.leaving = False

    # ---- for the verbs ---------------------------------------------------------------------------------

    def is_over(self) -> None:
        """Nothing of it goes on here: what it has not sent yet is thrown away."""
        self.mode, self.over = Mode.OVER, True

    def remember(self, task: asyncio.Task[Any]) -> None:
        """A task beside the body's own that executes a step or a race: it is cancelled with the run."""
        if task not in self.tasks:
            self.tasks[task] = None
            task.add_done_callback(self.tasks.pop)

    def remember_inner(self, path: str) -> None:
        """The current task calls a step within the step at `path`."""
        task = asyncio.current_task(self.loop)
        if task is not None and task is not self.main:  # which never ends before an attempt does
            self.inner.setdefault(path, set()).add(task)

    def check(self) -> None:
        """A step that is called after the run was cancelled or taken away, or after its body has ended, is refused."""
        if self._ended:
            raise OnwardError(f"the body of run {self.key} has ended: what it left running can call no step")
        if self.cancelled:
            raise RunCancelled(f"run {self.key} was cancelled: nothing of it is recorded any more")
        if self.mode is Mode.OVER:
            raise LeaseLost(f"run {self.key} is no longer this worker's: nothing of it is recorded here")

    def begin(self, call: Call) -> asyncio.Future[Row | None] | None:
        """The call is awaited. None: execute it now; else a future of its row, or of None: execute it then."""
        self.replay.open(call)
        now = self.replay.may_start(call) and not (self.replay.waits_for_rest(call) or self.readings.busy)
        if now and not self.suspect and self.admitted(call):
            self.replay.start(call)
            return None
        self._starting[call.path] = call
        return self.expect(call)

    def expect(self, call: Call) -> asyncio.Future[Row | None]:
        """A future of the call's row, given when its turn has come."""
        future = self._futures[call.path] = self.loop.create_future()
        if self.mode is Mode.CACHED:  # the body went on by itself: it had awaited something that is no step
            self.host.poke(self)
        if self.host.counting.knows_single(self.body):
            self._rests_here(call)
        else:
            self.stirred()
        return future

    def _rests_here(self, call: Call) -> None:
        """The body's only task is about to await: it has come to rest. Often that decides it: the journal's next row is
        what it asks for, and it goes on in the same turn (a long replay lets others have the loop now and then); or
        its result is on its way."""
        if self.replay.comes_next(call) and self._may_give() and self.replay.left % _BREATH:
            self._give()
        elif self._unanswered and not self._starting and not self.waits and self.replay.all_given():
            self._rests()
        else:
            self.stirred(1)

    def _may_give(self) -> bool:
        return self.mode is Mode.HOT and not self.readings.busy

    def _rests(self) -> None:
        """As can be told without letting the loop turn."""
        self.host.turns.forget(self)
        self._resting = True

    def journalled(self, call: Call, result: Result) -> asyncio.Future[Row | None]:
        """The result goes to the journal; a future of its row."""
        self.send(result)
        return self.expect(call)

    async def admission(self, call: Call, threads: Threads | None) -> None:
        """Waits until an attempt may begin: a thread is free for it, and the run may still begin a step, which it could
        when the step was asked for, but then others were executed first. What is queued here is not executing: the
        run may be handed back meanwhile."""
        self._queued += 1
        try:
            while True:
                if threads is not None:
                    await threads.slot()
                if self.admitted(call):
                    return
                if threads is not None:
                    threads.give_back()
                gate = self.loop.create_future()
                self._gated[gate] = call
                try:
                    self.stirred()
                    await gate
                finally:
                    del self._gated[gate]
        finally:
            self._queued -= 1

    def admitted(self, call: Call) -> bool:
        """May the call execute now? One within a step is part of that step, which could not end without it."""
        inside = bool(call.parent) and call.kind != "batch"  # around a hand-off's submit nothing executes
        return self.mode is Mode.HOT and (inside or not self.leaving) and self.host.admits(self, inside)

    def wait(self, call: Call, want: Want) -> asyncio.Future[Row | None]:
        """The run is blocked on something. For a back-off the future gives None when it is time."""
        self.waits[want.path] = want
        if want.kind == "retry":
            self._backing_off[want.path] = None
        return self.expect(call)

    def withdraw(self, call: Call) -> None:
        """Whoever awaited the call was cancelled."""
        self.replay.withdraw(call)
        self.failures.pop(call.path, None)
        self._futures.pop(call.path, None)
        self._starting.pop(call.path, None)
        self.waits.pop(call.path, None)
        self._backing_off.pop(call.path, None)
        self.stirred()

    def send(self, result: Result) -> None:
        """A step's result goes to the journal, behind a register that is due."""
        if self._held is not None:
            self._held.append(result)
        else:
            self._unanswered += 1
            self.host.committer.result(self, result)

    def end(self, ending: Ending) -> None:
        """The body has ended. What it left running is cancelled; what is on its way is waited for."""
        self._ending, self._ended, self._held = ending, True, None
        self._starting.clear()
        waiting = [future for future in self._futures.values() if not future.done()]
        if self.tasks or waiting:
            said = "run %s: the body ended while steps were running; they are cancelled"
            _log.warning(said, self.key, extra=self.about)
        else:
            self._rests()
        for task in self.tasks:
            task.cancel()
        for future in waiting:
            future.cancel()
        if self.mode is Mode.CACHED:
            self.host.poke(self)
        elif self.mode is Mode.HOT:
            self.mode = Mode.ENDING
            self._finish()

    def stirred(self, turns: int = TURNS) -> None:
        """The body has been given something, or has asked for something: it is looked at when it rests again."""
        if self.mode is not Mode.OVER:
            self._resting = False
            self.host.turns.watch(self, turns)

    def look(self) -> None:
        """Something else has changed: a body that rests is looked at now."""
        if self._resting:
            self.at_rest()

    @property
    def about(self) -> dict[str, str]:
        """What a log record that is about it carries."""
        return {"run_id": self.key, "workflow": self.workflow.name}

    # ---- for its readings ---------------------------------------------------------------------------------

    @property
    def fetches(self) -> Fetches:
        return self.host.fetches

    def coming(self) -> Iterator[Row]:
        return self.replay.coming()

    def judged(self, verdicts: Sequence[Verdict]) -> Coroutine[Any, Any, None]:
        return self.host.judged(self, verdicts)

    def trouble(self, what: str) -> Told:
        """Who is told what keeps the payload store from answering."""
        return lambda why: self.host.trouble(self, None if why is None else f"{what}: {why}")

    # ---- at rest -----------------------------------------------------------------------------------------

    def at_rest(self) -> None:
        self._resting = True
        if self.mode is not Mode.HOT:
            if self.mode is Mode.ENDING:
                self._finish()
            return
        if not self.readings.busy and self._give():
            return
        idle = not (self.executing or self._held)  # behind a release or a suspend a result would be lost
        if self.leaving and idle and not (self._unanswered or self._asking):
            self._ask("release")
            return
        if self.readings.busy or self._diverged() or self._start():
            return
        if self._held is None and ((self._more and self.waits) or self._news_to_register()):
            self._held = []
        if self._unanswered or self._asking:
            return
        if self.waits and idle and not (self._starting or self._queued or self.readings.judging):
            self._ask("suspend")
        elif self._held is not None:
            self._ask("register")

    def _give(self) -> bool:
        """Law 2: the oldest row that is asked for, one at a time."""
        found = self.replay.next_row()
        if found is None:
            return False
        call, row = found
        if self.replay.mismatch(call, row):
            self.diverged(f"the journal holds {shown(row.path)} as a {row.kind}, the code asks for a {call.kind}")
        elif call.whole and row.output is not None and pointers.is_pointer(row.output):
            self.readings.give(call, row)
        else:
            self.deliver(call, row)
        return True

    def deliver(self, call: Call, row: Row) -> None:
        """The body is given a row, its value whole where it needs that."""
        self.now = row.at
        self.replaying = self.replaying and self.replay.more()
        if self._strays is not None:
            self._strays.cancel()
            self._strays = None
        self.waits.pop(row.path, None)
        self._registered.pop(row.path, None)
        self._starting.pop(row.path, None)
        future = self._futures.pop(row.path, None)
        if future is not None and not future.done():
            future.set_result(row)
        self.stirred()

    def _diverged(self) -> bool:
        """Law 4. A body that awaits something of its own gets a moment, in case it only seems to rest."""
        found = self.replay.divergence()
        if found is None:
            return False
        if self._strays is None:
            grace = _GRACE if found[1] else _LONG_GRACE
            self._strays = self.loop.call_later(grace, self._still_diverged)
        return True

    def _still_diverged(self) -> None:
        self._strays = None
        found = self.replay.divergence()
        if found is not None and self.mode is Mode.HOT:
            row, asked = found
            instead = "asks for " + ", ".join(map(shown, asked)) if asked else "asks for nothing"
            self.diverged(f"the journal holds {shown(row.path)}, which the code never asks for; it {instead} instead")

    def _start(self) -> bool:
        """What waited for the journal to be given out, or for the worker to admit it, begins now."""
        if not self._starting and not self._gated:
            return False
        for gate, call in self._gated.items():
            if not gate.done() and self.admitted(call):
                gate.set_result(None)
        ready = [call for call in self._starting.values() if self.replay.may_start(call) and self.admitted(call)]
        if not ready:
            return False
        if self.suspect:
            if not self._asking and not self._unanswered:
                self._ask("mark")
            return True
        for call in ready:
            del self._starting[call.path]
            future = self._futures.pop(call.path)
            if not future.done():
                self.replay.start(call)
                future.set_result(None)
        self.stirred()
        return True

    def _finish(self) -> None:
        """An end goes out only when everything before it is durable: it would overtake its own last step."""
        if self._ending is None or self._unanswered or self._asking or self.executing:
            return
        found = self.replay.divergence(ended=True)
        if found is not None:
            self.diverged(f"the journal holds {shown(found[0].path)}, but the code ended without asking for it")
            return
        status, output, error = self._ending
        self._ending = None
        self.host.committer.end(
            self, End(self.out.run_id, self.receipt, self.replay.rows, status, output, error, self.out.parent)
        )

    # ---- asking the database --------------------------------------------------------------------------------

    def _news_to_register(self) -> bool:
        """A wait is new, or one was given up: while it stands, it would take a signal from the next one."""
        given_up = any(path not in self.waits for path in self._registered)
        return given_up or any(self._registered.get(path) != want.attempt for path, want in self.waits.items())

    def must_register(self) -> None:
        """Something of it is due, or a wait is new while a step executes."""
        if self.mode is Mode.HOT and self._held is None:
            self._held = []
            self.look()

    def _ask(self, op: str, note: str | None = None) -> None:
        self._asking = True
        if op == "suspend":
            self.mode = Mode.SUSPENDING
        wants = self._wants() if op in ("register", "suspend") else ()
        self.host.committer.ask(self, Ask(self.out.run_id, self.receipt, op, self.replay.rows, note, wants))
        if op in ("register", "suspend"):
            self._more = False
            held, self._held = self._held, None
            for result in held or ():  # behind the register, in the same batch
                self.send(result)

    def _wants(self) -> tuple[Want, ...]:
        """What the body is blocked on, and what it will be: a back-off from before a crash keeps its deadline and its
        count also while the body has not come to that step again. (One that is over would keep the run awake.)"""
        self._registered = {want.path: want.attempt for want in self.waits.values()}
        coming = (Want(b.path, "retry", b.attempt, seconds=0.0) for b in self.failures.values() if not b.due)
        return (*self.waits.values(), *coming)

    def diverged(self, why: str, detail: str = "") -> None:
        """The journal and the code do not fit: the run stands still, and goes on once fitting code is back."""
        self.park(f"{NonDeterminism.__name__}: {why}", detail)

    def failed(self, error: BaseException) -> None:
        """Onward itself has made a mistake with this run: it stands still, and the others go on."""
        _log.error("run %s: the engine failed", self.key, exc_info=error, extra=self.about)
        if not self.over:
            self.park(f"an error inside Onward: {type(error).__name__}: {error}")

    def park(self, why: str, detail: str = "") -> None:
        """The run stands still. It is tried again when a worker starts, every five minutes, and at `resume`. `detail`
        may hold values of the user's: it is kept with the run, for those who may see it, and stays out of the log."""
        _log.warning("run %s of %s is parked: %s", self.key, self.workflow.name, why, extra=self.about)
        self.stop_tasks()
        self.is_over()
        self.host.left(self, release=False)
        self.host.committer.ask(Farewell(), Ask(self.out.run_id, self.receipt, "park", note=why + detail))

    def answered_ask(self, ask: Ask, answer: Answer) -> None:
        self._asking = False
        if answer.word == "invalid":
            self.lost("invalid")
        elif ask.op == "release" and answer.word == "ok":
            self.stop_tasks()
            self.is_over()
            self.host.left(self, release=False)
        elif answer.word == "suspended":
            self._suspended(answer)
        elif answer.word in ("ok", "stale"):
            if ask.op == "mark":
                self.suspect = False
            if self.mode is Mode.SUSPENDING:
                self.mode = Mode.ENDING if self._ending else Mode.HOT
            self._absorb(answer)
        else:
            self.lost(answer.word)

    def _absorb(self, answer: Answer) -> None:
        if self.traced is not None:
            self.traced.told(answer.rows)
        for row in answer.rows:
            self.replay.add(row)
        if answer.rows or answer.word == "stale":
            self._more = True  # one signal is settled at a time, and only for waits that the body still holds
        left = [w.seconds for w in answer.waits if w.seconds is not None and w.seconds > 0]
        for wait in answer.waits:
            if wait.kind == "retry" and wait.seconds is not None and wait.seconds <= 0:
                self._try_again(wait.path, wait.attempt)
        self._set_timer(min(left, default=None))
        if answer.undecided:
            self.readings.judge(answer.undecided)
        self.look()

    def _try_again(self, path: str, attempt: int) -> None:
        if (early := self.failures.get(path)) is not None:  # the body has not come to it again
            self.failures[path] = early._replace(due=True)
        want = self.waits.get(path)
        if want is not None and want.attempt == attempt and path in self._backing_off:
            del self._backing_off[path]
            future = self._futures.pop(path)
            if not future.done():
                future.set_result(None)
            self.stirred()

    def _set_timer(self, seconds: float | None) -> None:
        """Only a reason to ask: whether a deadline has passed is for the database to say."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = self.loop.call_later(min(seconds + 0.001, 3600), self.must_register)

    def _suspended(self, answer: Answer) -> None:
        self._set_timer(None)
        left = [w.seconds for w in answer.waits if w.seconds is not None]
        if left:
            self.host.due_in(min(left))
        self.mode = Mode.CACHED
        self.host.cached(self)
        if self._ending or self._starting or self._news_to_register():
            self.host.poke(self)

    def resume(self, out: HandOut) -> None:
        """The same worker got the run again, and nobody else had it in between: the coroutine goes on."""
        self.out = out._replace(rows=[])
        self.receipt = out.receipt
        self.mode = Mode.ENDING if self._ending else Mode.HOT
        self.suspect = out.deaths > 0
        if self.traced is not None:
            self.traced.told(out.rows)
        for row in out.rows:
            self.replay.add(row)
        self._more = bool(out.rows)
        for back_off in out.back_offs:
            if back_off.due:
                self._try_again(back_off.path, back_off.attempt)
        self.look()

    # ---- answers to results and to the end --------------------------------------------------------------------

    def answered_result(self, result: Result, word: str, at: datetime) -> None:
        self._unanswered -= 1
        if word in ("ok", "paused"):
            _, _, path, kind, output, error, attempt, seconds = result
            self.leaving = self.leaving or word == "paused"
            if kind == "run":
                self.counts.step(path, seconds)
            if self.traced is not None:
                self.traced.journalled(result, at)
            self.replay.add(Row(path, kind, output, error, attempt, at))
            if self.out.deaths:
                self.out = self.out._replace(deaths=0)
                self.host.progressed(self)
            self.look()
        else:
            self.lost(word)

    def answered_end(self, end: End, word: str, told: bool, at: datetime) -> None:
        if self.traced is not None and word in ("ok", "gone"):
            # gone: a live worker's own copy of the batch that was not answered has ended it (a cancel has another word)
            self.traced.ended(end.status, end.error, at)
        if word == "ok":
            self.is_over()
            self.host.ended(self, told)
        else:
            self.lost(word)

    def lost(self, word: str) -> None:
        """This hand-out is void. After a conflict it is still ours: it is given back and replayed from the start."""
        if self.mode is Mode.OVER:
            return
        if word.startswith("invalid"):
            self.park(f"the database refused what this run sent ({word}): nothing of it was recorded")
            return
        self.cancelled = word == "cancelled"
        self.stop_tasks()
        self.is_over()
        release = word == "conflict"
        self.host.left(self, release=release)
        if release:
            self.host.committer.ask(Farewell(), Ask(self.out.run_id, self.receipt, "release"))

    def leave(self) -> None:
        """Pause, or the worker stops: no new step begins; once nothing executes the run is handed back."""
        self.leaving = True
        self.look()

    def stop_tasks(self) -> None:
        """The coroutines end; steps they still call are refused (`check`)."""
        self._set_timer(None)
        self.readings.stop()
        if self._strays is not None:
            self._strays.cancel()
            self._strays = None
        for task in self.tasks:
            task.cancel()
        if self.main is not None:
            self.main.cancel()
        for future in list(self._futures.values()):
            future.cancel()
        self._futures.clear()
