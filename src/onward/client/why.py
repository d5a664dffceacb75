"""Why a run stands where it stands: facts in, one or two sentences out, and the commands that help.

`gather` reads, `explain` decides; it takes the database's clock from the facts, so it is the same for everybody who
asks. A sentence says what is waited for, since when and until when, and what came that did not fit.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from onward.client.records import error_of
from onward.core import durations, names, pointers
from onward.core.codec import PLAIN
from onward.store.runs import RunRecord, Runs, SignalRecord, Standing, StepRecord, WorkerRecord

DEPTH = 5
"""How far down invoked runs are followed."""
SILENT = 2.0
"""Seconds without a heartbeat (one comes every half second) after which a worker is most likely dead."""
_MOST = 3
_START_WORKER = ["onward worker APP", "onward workers"]


@dataclass(frozen=True)
class Facts:
    """What is known of a run. `children` are the runs that it waits for."""

    run: RunRecord
    steps: Sequence[StepRecord]
    workers: Sequence[WorkerRecord]
    signals: Sequence[SignalRecord]
    standing: Standing
    children: Mapping[UUID, Facts] = field(default_factory=dict)


class Why(NamedTuple):
    state: str
    text: str
    commands: tuple[str, ...]


async def gather(runs: Runs, run_id: UUID, depth: int = DEPTH) -> Facts | None:
    """The facts, or None where the tenant has no such run."""
    found, standing = await runs.describe([run_id]), await runs.standing(run_id)
    if not found or standing is None:
        return None
    steps = await runs.steps(run_id)
    children = {}
    for child in {s.child for s in steps if s.child is not None} if depth else ():
        facts = await gather(runs, child, depth - 1)
        if facts is not None:
            children[child] = facts
    return Facts(found[0], steps, await runs.workers(), await runs.signals(run_id), standing, children)


def explain(facts: Facts) -> Why:
    """What to tell a person who asks why."""
    sentences, commands = _EXPLAIN[facts.run.state](facts)
    return Why(facts.run.state, " ".join(sentences), tuple(for_tenant(c, facts.run.tenant) for c in commands))


def for_tenant(command: str, tenant: str) -> str:
    """Runs belong to a tenant; workers serve all of them."""
    about_runs = command.startswith(("onward runs", "onward why"))
    return f"{command} --tenant {tenant}" if about_runs and tenant != "default" else command


_Told = tuple[list[str], list[str]]


# ---- ended --------------------------------------------------------------------------------------------------------


def _completed(facts: Facts) -> _Told:
    return [f"It completed {_ended(facts)}."], [f"onward runs show {facts.run.run_id}"]


def _cancelled(facts: Facts) -> _Told:
    return [f"It was cancelled {_ended(facts)}; that is final."], [f"onward runs rerun {facts.run.run_id}"]


def _failed(facts: Facts) -> _Told:
    error = error_of(facts.run.error) or {}
    where = f"in step `{error['step']}`" if error.get("step") else ""
    attempt = f", attempt {error['attempt']}" if error.get("attempt") and error["attempt"] > 1 else ""
    when = f"{where}{attempt}, {_ended(facts)}" if where else _ended(facts)
    step = _culprit(facts.steps, error.get("step"))
    again = f"onward runs rerun {facts.run.run_id}" + (f" --from-step {_quoted(step)}" if step else "")
    said = f"It failed {when}: {_error(facts.run.error)}."
    return [said], [f"onward runs show {facts.run.run_id}", again]


def _culprit(steps: Sequence[StepRecord], name: str | None) -> str | None:
    """The step of the body in which it happened: one can run again from there."""
    for step in reversed(steps):
        if step.status == "failed" and names.split(step.path)[1] == name:
            return step.path.split(names.SEPARATOR)[0]
    return None


def _ended(facts: Facts) -> str:
    run = facts.run
    assert run.completed_at is not None
    took = (run.completed_at - run.started_at).total_seconds()
    return f"{_ago(facts, run.completed_at)}, {_span(took) if took >= 0.1 else 'right'} after its start"


# ---- held by a worker, or free to be taken -------------------------------------------------------------------------


def _executing(facts: Facts) -> _Told:
    owner = _owner(facts)
    if owner is None or not owner.alive or owner.silent_for > SILENT:
        return _held_by_the_dead(facts, owner)
    newest = max((s for s in facts.steps if s.completed_at), key=lambda s: s.seq, default=None)
    if newest and newest.completed_at:
        last = f"its newest result is that of `{_path(newest)}`, {_ago(facts, newest.completed_at)}"
    else:
        age = (facts.standing.asked_at - facts.run.started_at).total_seconds()
        last = f"it has journalled nothing in the {_span(age)} since its start"
    told = [f"It is executing on {_worker(owner)}; {last}."]
    if facts.standing.trouble:
        told.append(f"It waits for the payload store: {facts.standing.trouble}. It goes on by itself.")
    if facts.standing.deaths:
        told.append(f"{_count(facts.standing.deaths, 'worker')} died while executing it: the fifth time fails it.")
    waits = _pending(facts)
    return [*told, *waits[0]], [f"onward runs show {facts.run.run_id}", *waits[1]]


def _held_by_the_dead(facts: Facts, owner: WorkerRecord | None) -> _Told:
    who = f"{_worker(owner)}, silent for {_span(owner.silent_for)}" if owner else "a worker that is gone"
    told = [f"It is held by {who}, so most likely dead."]
    if _alive(facts):
        told.append("The workers that are alive free it: soon if its process has ended, else when its lease ends.")
        return told, ["onward workers"]
    told.append("No worker is alive to take it over: start one, and it goes on after its newest journalled step.")
    return told, _START_WORKER


def _queued(facts: Facts) -> _Told:
    due = facts.standing.due_at
    if due is not None and due > facts.standing.asked_at:
        told = [f"It starts {_in(facts, due)}: it was started with a delay."]
        return _with_doubts(facts, (told, [f"onward runs show {facts.run.run_id}"]))
    serving = [w for w in _alive(facts) if _fits(facts.run, w)]
    since = f" since {_span((facts.standing.asked_at - due).total_seconds())}" if due else ""
    told = [f"It is due{since} and waits to be claimed: {_count(len(serving), 'live worker')} for its version."]
    if due and (facts.standing.asked_at - due).total_seconds() > 5:
        told.append("They are full or stuck: start another worker, or raise --concurrency.")
        return told, ["onward workers", "onward doctor"]
    return told, ["onward workers"]


def _stranded(facts: Facts) -> _Told:
    return [_nobody_serves(facts, "It is due, but n")], _START_WORKER


def _nobody_serves(facts: Facts, opening: str) -> str:
    run, alive = facts.run, _alive(facts)
    version = f"version {run.version} of `{run.workflow}`" if run.version else f"`{run.workflow}`"
    others = _others(run, alive)
    if others:
        there = "; ".join(f"version {v} is served by {', '.join(w.name for w in ws)}" for v, ws in others.items())
        return f"{opening}o live worker knows {version}: {there}."
    if alive:
        verb = "serves" if len(alive) == 1 else "serve"
        return f"{opening}o live worker knows {version}; {_count(len(alive), 'worker')} {verb} other workflows."
    return f"{opening}o worker is alive: start one that knows {version}."


def _paused(facts: Facts) -> _Told:
    told = ["It is paused: no new step starts until it is resumed."]
    owner = _owner(facts)
    if owner is not None:
        told.append(f"A step that was executing on {_worker(owner)} may still finish and be journalled.")
    fallen_due = [s for s in facts.steps if s.deadline and s.deadline <= facts.standing.asked_at]
    if fallen_due:
        told.append(f"Meanwhile `{_path(fallen_due[0])}` fell due; it happens at the resume.")
    told += [
        f"`{step.event}` has its signal; it goes on at the resume." for step in facts.steps if _has_come(facts, step)
    ]
    return told, [f"onward runs resume {facts.run.run_id}"]


def _has_come(facts: Facts, step: StepRecord) -> bool:
    """Does the step wait for a signal that is there?"""
    if step.completed_at is not None or step.kind != "wait":
        return False
    same = [s for s in facts.signals if s.event == step.event and not pointers.is_pointer(s.payload)]
    return any(not differing(_match(step), PLAIN.decode(signal.payload)) for signal in same)


def _parked(facts: Facts) -> _Told:
    due = facts.standing.due_at
    again = f" It is tried again {_in(facts, due)}, when a worker starts, and at a resume." if due else ""
    told = f"It is parked: {facts.run.reason}.{again} Deploy code that fits its journal, then resume it."
    run_id = facts.run.run_id
    return [told], [f"onward runs steps {run_id}", f"onward runs resume {run_id}", f"onward runs cancel {run_id}"]


# ---- blocked on something -----------------------------------------------------------------------------------------


def _blocked(facts: Facts) -> _Told:
    return _with_doubts(facts, _pending(facts))


def _with_doubts(facts: Facts, told: _Told) -> _Told:
    """What would go on by itself does not where nobody serves it."""
    if any(_fits(facts.run, worker) for worker in _alive(facts)):
        return told
    return [*told[0], _nobody_serves(facts, "And n")], [*told[1], *_START_WORKER]


def _pending(facts: Facts) -> _Told:
    sentences: list[str] = []
    commands: list[str] = []
    pending = [(_how(step), step) for step in facts.steps if step.completed_at is None]
    pending.sort(key=lambda one: list(_BLOCKED).index(one[0]))
    for how, step in pending[:_MOST]:
        said, helps = _BLOCKED[how](facts, step)
        sentences += said
        commands += helps
    if len(pending) > _MOST:
        sentences.append(f"And {len(pending) - _MOST} more.")
    return sentences, list(dict.fromkeys(commands))


def _how(step: StepRecord) -> str:
    return step.status if step.status == "retrying" else step.kind


def _sleeping(facts: Facts, step: StepRecord) -> _Told:
    until = f" until {_when(facts, step.deadline)}" if step.deadline else ""
    return [f"It sleeps in `{_path(step)}`{until}."], []


def _retrying(facts: Facts, step: StepRecord) -> _Told:
    most = f" of {step.attempts}" if step.attempts else ""
    when = _in(facts, step.deadline) if step.deadline else "soon"
    said = f"It retries `{_path(step)}`, attempt {step.attempt + 1}{most}, {when}; the last error was "
    return [said + f"{_error(step.error)}."], [f"onward runs steps {facts.run.run_id}"]


def _waiting(facts: Facts, step: StepRecord) -> _Told:
    match = _match(step)
    where = f" where {_conditions(match)}" if match else ""
    until = f", until {_when(facts, step.deadline)}" if step.deadline else ", with no time-out"
    since = f"since {_span((facts.standing.asked_at - step.started_at).total_seconds())}"
    told = [f"It waits for signal `{step.event}`{where}, {since}{until}.", *_near_misses(facts, step, match)]
    payload = PLAIN.encode(match if match else True, "match").decode()
    return told, [f"onward runs signal {facts.run.run_id} {_quoted(step.event or '')} {_quoted(payload)}"]


def _match(step: StepRecord) -> Any:
    return None if step.match is None else PLAIN.decode(step.match.encode())


def _near_misses(facts: Facts, step: StepRecord, match: Any) -> Iterator[str]:
    """Signals that came and were not it: the newest of this event, else one of another."""
    same = [s for s in facts.signals if s.event == step.event]
    if same:
        if pointers.is_pointer(same[-1].payload):
            yield f"A large signal came {_ago(facts, same[-1].sent_at)}: a worker has to read whether it matches."
            return
        off = "; ".join(differing(match, PLAIN.decode(same[-1].payload)))
        more = f" ({len(same)} came that do not match)" if len(same) > 1 else ""
        if off:
            yield f"A signal came {_ago(facts, same[-1].sent_at)}, but {off}{more}."
        else:
            yield f"A signal that matches came {_ago(facts, same[-1].sent_at)}: a worker has only to claim the run."
    elif facts.signals:
        other = facts.signals[-1]
        yield f"A signal `{other.event}` came {_ago(facts, other.sent_at)}; nothing waits for that one."


def _invoking(facts: Facts, step: StepRecord) -> _Told:
    child = facts.children.get(step.child) if step.child else None
    if child is None:
        return [f"It waits for run {step.child}, which `{_path(step)}` invoked."], [f"onward why {step.child}"]
    sentences, commands = _EXPLAIN[child.run.state](child)
    which = f"run {step.child} of `{child.run.workflow}`, which `{_path(step)}` invoked and which is {child.run.state}"
    return [f"It waits for {which}. There: {' '.join(sentences)}"], [*commands, f"onward why {step.child}"]


def _handed_out(facts: Facts, step: StepRecord) -> _Told:
    until = f", until {_when(facts, step.deadline)}" if step.deadline else ""
    return [f"It waits for the answer of an outside program to `{_path(step)}`{until}."], []


_BLOCKED = {
    "wait": _waiting,
    "retrying": _retrying,
    "batch": _handed_out,
    "invoke": _invoking,
    "sleep": _sleeping,
}
"""In the order in which they are told: what a person can act on comes first."""
_EXPLAIN = {
    "completed": _completed,
    "failed": _failed,
    "cancelled": _cancelled,
    "executing": _executing,
    "queued": _queued,
    "stranded": _stranded,
    "paused": _paused,
    "parked": _parked,
    "sleeping": _blocked,
    "waiting": _blocked,
    "retrying": _blocked,
}


# ---- what differs -------------------------------------------------------------------------------------------------


def differing(wanted: Any, got: Any, path: str = "") -> list[str]:
    """Where a payload does not contain what a match asks for, as the database compares them."""
    if isinstance(wanted, dict):
        if not isinstance(got, dict):
            return [f"{_at(path)} was {_value(got)}, not an object with {', '.join(map(_name, wanted))}"]
        found = []
        for key, value in wanted.items():
            below = f"{path}.{key}" if path else key
            found += differing(value, got[key], below) if key in got else [f"`{below}` was missing"]
        return found
    if isinstance(wanted, list) and isinstance(got, list):
        missing = [item for item in wanted if all(differing(item, other) for other in got)]
        return [f"{_at(path)} had no {_value(item)}" for item in missing]
    if isinstance(wanted, bool) == isinstance(got, bool) and wanted == got:
        return []
    return [f"{_at(path)} was {_value(got)}, not {_value(wanted)}"]


def _at(path: str) -> str:
    return f"`{path}`" if path else "the payload"


def _name(key: str) -> str:
    return f"`{key}`"


def _value(value: Any) -> str:
    text = PLAIN.encode(value, "a value").decode()
    return text if len(text) <= 60 else f"{text[:59]}…"


def _conditions(match: Any, path: str = "") -> str:
    """`userId` is 42 and `plan.name` is "pro"."""
    if isinstance(match, dict) and match:
        return " and ".join(_conditions(value, f"{path}.{key}" if path else key) for key, value in match.items())
    return f"{_at(path)} is {_value(match)}"


# ---- words --------------------------------------------------------------------------------------------------------


def _alive(facts: Facts) -> list[WorkerRecord]:
    return [worker for worker in facts.workers if worker.alive and worker.silent_for <= SILENT]


def _fits(run: RunRecord, worker: WorkerRecord) -> bool:
    if run.version is None:
        return any(served.startswith(f"{run.workflow}@") for served in worker.serves or ())
    return f"{run.workflow}@{run.version}" in (worker.serves or ())


def _others(run: RunRecord, alive: Sequence[WorkerRecord]) -> dict[str, list[WorkerRecord]]:
    found: dict[str, list[WorkerRecord]] = {}
    for worker in alive:
        for served in worker.serves or ():
            workflow, _, version = served.rpartition("@")
            if workflow == run.workflow:
                found.setdefault(version, []).append(worker)
    return found


def _owner(facts: Facts) -> WorkerRecord | None:
    return next((w for w in facts.workers if w.worker_id == facts.standing.owner), None)


def _worker(worker: WorkerRecord) -> str:
    return f"worker {worker.worker_id} ({worker.name})"


def _path(step: StepRecord) -> str:
    return names.readable(step.path)


def _error(data: bytes | None) -> str:
    error = error_of(data)
    return f"{error['type']}: {error['message']}".rstrip(".") if error else "not recorded"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _span(seconds: float) -> str:
    if 1 <= seconds < 9.95:
        return f"{seconds:.1f}s".replace(".0s", "s")
    return durations.show(round(seconds) if seconds >= 1 else round(seconds, 1))


def _ago(facts: Facts, when: datetime) -> str:
    passed = (facts.standing.asked_at - when).total_seconds()
    return "just now" if passed < 0.5 else f"{_span(passed)} ago"


def _in(facts: Facts, when: datetime) -> str:
    left = (when - facts.standing.asked_at).total_seconds()
    return f"in {_span(left)}" if left > 0 else "now"


def _when(facts: Facts, when: datetime | None) -> str:
    """The time on the wall here, and how long that is from now."""
    assert when is not None
    here, today = when.astimezone(), facts.standing.asked_at.astimezone()
    shape = "%H:%M:%S" if here.date() == today.date() else "%d %b %Y %H:%M"
    return f"{here:{shape}} ({_in(facts, when)})"


def _quoted(text: str) -> str:
    """For a shell."""
    return shlex.quote(text)
