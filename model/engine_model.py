"""Explicit-state model of the run protocol: every interleaving of workers, flushers, signals, faults.

What is modelled, and why it may be trusted to say something about Postgres:

- READ COMMITTED. A function is a few statements. A statement reads what was committed when it began;
  a row lock blocks; after the wait the locked row is the newest one, but everything else that the
  same statement reads is still the old snapshot. A later statement of the function reads afresh.
- A process may stop between any two of its actions. So "frozen" needs no state of its own: it is a
  worker that the scheduler leaves alone while the reaper takes its runs (`suspect`), and "thawed"
  is the scheduler turning back to it.
- What was sent to the database goes on without its sender: a crash leaves transactions in flight.
- A coroutine is a pure function of the results it was given, in the order in which it got them.
  Thus `seen`, that ordered list, is the whole state of a body, and replay is rebuilding `seen`.
- A step's value is the receipt under which it ran, so two executions never agree by luck.

`FIXED` is the protocol as it should be built. Each other variant takes a rule away; the model finds
the shortest trace to the damage. `python3 engine_model.py` checks all of it; see README.md.
"""
import sys
import time
from collections import deque, namedtuple
from dataclasses import dataclass, replace

INF = 99
Call = namedtuple("Call", "kind name match dur")          # step | flaky | wait | sleep
Msg = namedtuple("Msg", "vis owner receipt paused parked")  # owner: (worker, epoch) or None
Row = namedtuple("Row", "name value receipt seq")         # the journal
Pend = namedtuple("Pend", "name kind match deadline attempt")
Want = namedtuple("Want", "name kind match dur attempt")  # what a worker asks to be registered
Rec = namedtuple("Rec", "mode receipt seen busy tries held sent known")  # a run in a worker's memory
Wk = namedtuple("Wk", "epoch recs queue")
Tr = namedtuple("Tr", "run receipt kind arg known again", defaults=(0, False))  # step | hold | park | end | rel
Txn = namedtuple("Txn", "kind who pc arg locks data")
Env = namedtuple("Env", "crash suspect cut sigs cancel pause")
St = namedtuple("St", "now msg step pend buf res live work txn env acked")


# ---- bodies: results so far -> the calls now outstanding, or None at the end -----------------------
def step(name): return Call("step", name, None, 0)
def flaky(name): return Call("flaky", name, None, 1)      # fails twice, then succeeds
def wait(name, match=0, timeout=0): return Call("wait", name, match, timeout)
def sleep(name, dur=1): return Call("sleep", name, None, dur)
def human(name): return Call("human", name, None, 0)      # a step that hangs until event "e" arrived


def stages(*parts):
    """Each part is a group of calls run side by side; the next part begins when all are done."""
    def body(seen):
        done = {n for n, _ in seen}
        return next((tuple(c for c in p if c.name not in done) for p in parts
                     if any(c.name not in done for c in p)), None)
    return body


def first_of(seen):
    """asyncio.wait(FIRST_COMPLETED) on a and b; the first decides between c and d."""
    if not seen:
        return (step("a"), step("b"))
    then = step("c" if seen[0][0] == "a" else "d")
    return (then,) if then.name not in {n for n, _ in seen} else None


def event_or_step(seen):
    """First of (wait e, step a) decides between c and d."""
    if not seen:
        return (wait("e"), step("a"))
    then = step("c" if seen[0][0] == "a" else "d")
    return (then,) if then.name not in {n for n, _ in seen} else None


def branches(seen):
    """gather(wait e then c, a): a wait is open while a step runs."""
    done = {n for n, _ in seen}
    calls = [step("a")] if "a" not in done else []
    if "e" not in done:
        calls.append(wait("e"))
    elif "c" not in done:
        calls.append(step("c"))
    return tuple(calls) or None


def race(calls, then):
    """The first of `calls` to be delivered wins and the others are withdrawn; `then[winner]` are stages."""
    def body(seen):
        return stages(*then[seen[0][0]])(seen[1:]) if seen else calls
    return body


def race_late(seen):
    """A wait with a time-out against a sleep that is over at the same time; a signal won ends it."""
    if not seen:
        return (sleep("s"), wait("e1", 0, 1))
    won = isinstance(seen[0][1], tuple)
    return stages([step("a")], *([] if won else [[wait("e2")]]))(seen[1:])


def race_hot(seen):
    """gather(race(wait e1, sleep s) and, if s won, wait e2; a): e1 is withdrawn while a step runs."""
    done = [n for n, _ in seen]
    calls = [] if "a" in done else [step("a")]
    if not {"e1", "s"} & set(done):
        calls += [wait("e1"), sleep("s")]
    elif "e1" not in done and "e2" not in done:
        calls.append(wait("e2"))
    return tuple(calls) or None


def race_flaky(seen):
    """gather(race(wait e1, a) and, if a won, wait e2; a step that is tried again): asks without results."""
    done = [n for n, _ in seen]
    calls = [] if "f" in done else [flaky("f")]
    if not {"e1", "a"} & set(done):
        calls += [wait("e1"), step("a")]
    elif "e1" not in done and "e2" not in done:
        calls.append(wait("e2"))
    return tuple(calls) or None


BODIES = {
    "ab": stages([step("a")], [step("b")]),
    "gather": stages([step("a"), step("b")], [step("c")]),
    "race": first_of,
    "eventrace": event_or_step,
    "event": stages([step("a")], [wait("e")], [step("b")]),
    "twowaits": stages([wait("x", 1), wait("y", 2)]),
    "twotimeouts": stages([wait("x", 1), wait("y", 2, 2)]),
    "timeout": stages([wait("e", 0, 1)], [step("a")]),
    "nap": stages([sleep("s")], [step("a")]),
    "flaky": stages([flaky("f")]),
    "branches": branches,
    "human": stages([wait("e"), human("h")]),
    "racenap": race((wait("e1"), sleep("s")), {"e1": [[step("a")]], "s": [[step("a")], [wait("e2")]]}),
    "racestep": race((wait("e1"), step("a")), {"e1": [[step("b")]], "a": [[step("b")], [wait("e2")]]}),
    "racewaits": race((wait("x1", 1), wait("y1", 2)), {"x1": [[wait("y2", 2)]], "y1": [[wait("x2", 1)]]}),
    "racelate": race_late,
    "racehot": race_hot,
    "raceflaky": race_flaky,
    "wait": stages([wait("e")]),
}


def feed(body, seen, rows):
    """Give `seen` every journal row that is asked for, oldest first. -> (seen, rows never asked for)."""
    asked, have = set(), {n for n, _ in seen}
    for i in range(len(seen) + 1):
        asked |= {c.name for c in body(seen[:i]) or ()}
    while True:
        names = {c.name for c in body(seen) or ()}
        row = min((r for r in rows if r.name in names and r.name not in have), key=lambda r: r.seq,
                  default=None)
        if row is None:
            return seen, [r.name for r in rows if r.name not in asked]
        seen += ((row.name, row.value),)
        have.add(row.name)
        asked |= {c.name for c in body(seen) or ()}


@dataclass(frozen=True)
class Protocol:
    """Every flag True = the protocol as it should be built. Turn one off to see what it is for."""
    signal_rereads: bool = True    # signal reads pending in a statement after the one that locked
    signal_buffers: bool = True    # signal never journals: it buffers and wakes, the owner's lane journals
    claim_rereads: bool = True     # claim reads the journal in a statement after the one that locked
    suspend_checks: bool = True    # suspend looks at the buffer and at the journal under the lock
    keep_deadline: bool = True     # a wait registered again keeps its first deadline
    conflict_told: bool = True     # owner that meets another's row is told `conflict`, not `lost`
    own_row_ok: bool = True        # a repeated commit that meets its own row (same receipt) is `ok`
    gate: bool = True              # a batch locks its lane's row, a claim its worker's; reap waits for them
    lane_no: bool = True           # the lane's row keeps the number of the last batch: a late copy is refused
    claim_alive: bool = True       # claim refuses a worker whose heartbeat row is gone
    reap_ghosts: bool = True       # the reaper frees whatever is owned by nobody alive, not by those it kills
    cancel_barrier: bool = True    # cancel is acknowledged when the owner's batches have ended
    one_lane: bool = True          # a run's transitions never fly on two flushers at once
    end_waits: bool = True         # the body goes on, ends or sleeps only when its steps are durable
    end_counts: bool = True        # finish refuses while the journal holds rows its execution has not seen
    hold: bool = True              # waits are registered while other branches run, and collected hot
    cache_by_receipt: bool = True  # cached coroutine only if receipt == cached receipt + 1
    pause_flag: bool = True        # pause is a flag of its own, not a visible_at
    sorted_locks: bool = True      # several message rows are locked in the order of their ids
    reload_releases: bool = True   # after `conflict` the message is released before the run is dropped
    claim_exact: bool = True       # claim settles only what was parked: else the pendings may be withdrawn ones
    one_signal: bool = True        # a settle journals one signal and stops: the body may withdraw the others
    signals_first: bool = True     # ... and before any sleep's end or time-out, by registration
    asks_first: bool = True        # asks are made when the batch is, and stand before its steps
    ask_counts: bool = True        # an ask settles nothing while the journal has rows its sender did not know
    judge_keeps: bool = True       # a suspend keeps the owner while a signal that lies outside was read by nobody
    judge_wakes: bool = True       # ... and such a signal makes the run due, for its worker to read it
    judge_first: bool = True       # ... and until then nothing is settled for the run
    # Two more ways, not part of the protocol; see ALTERNATIVES.
    repeat_mute: bool = False      # instead of ask_counts: a batch sent after an unknown outcome settles nothing
    claim_never: bool = False      # instead of claim_exact: claim settles nothing at all


FIXED = Protocol()


@dataclass(frozen=True)
class Scenario:
    bodies: tuple
    sigs: tuple = ()               # batches of (run, match[, OUTSIDE]), each sent at any time, once
    crash: int = 0
    suspect: int = 0               # freeze + thaw, lost session lock, lapsed lease: reaped while alive
    cut: int = 0                   # a connection breaks: outcome unknown, the old statement lives on
    cancel: bool = False           # run 0
    pause: bool = False            # run 0, resumed later
    workers: int = 2
    flushers: int = 1
    cache: bool = True


class Violation(Exception):
    pass


def put(t, i, v):
    return t[:i] + (v,) + t[i + 1:]


class Model:
    def __init__(self, sc, p):
        self.sc, self.p = sc, p
        self.body = [BODIES[b] for b in sc.bodies]

    def start(self):
        n, w, sc = len(self.body), self.sc.workers, self.sc
        return St(0, (Msg(0, None, 0, False, False),) * n, ((),) * n, ((),) * n, ((),) * n, (None,) * n,
                  frozenset((i, 0) for i in range(w)), (Wk(0, (None,) * n, ()),) * w, (),
                  Env(sc.crash, sc.suspect, sc.cut, ("todo",) * len(sc.sigs),
                      "todo" if sc.cancel else "", "todo" if sc.pause else ""), (None,) * n)

    # ---- helpers on the tables ------------------------------------------------------------------
    def locked(self, s, run, but=None):
        return any(run in t.locks for t in s.txn if t is not but)

    def journal(self, s, run, name, value, receipt):
        if s.res[run] == "cancelled" and s.acked[run] is not None:
            raise Violation(f"journalled {name} after the cancel was acknowledged")
        rows = s.step[run]
        seq = max((r.seq for r in rows), default=0) + 1
        return s._replace(step=put(s.step, run, rows + (Row(name, value, receipt, seq),)))

    def next_due(self, s, run):
        return min((p.deadline for p in s.pend[run] if p.deadline > s.now), default=INF)

    def hit(self, s, run, p):
        """The oldest buffered signal that the database can tell to match: (id, match, whom it was compared with)."""
        return next((b for b in s.buf[run] if p.kind == "wait" and b[1] == p.match and (b[2] is None or p.match in b[2])),
                    None)

    def undecided(self, s, run, pend=None):
        """A signal that lies outside the database, and a wait that nobody has compared it with."""
        waits = [p for p in (s.pend[run] if pend is None else pend) if p.kind == "wait"]
        return any(b[2] is not None and p.match not in b[2] for b in s.buf[run] for p in waits)

    def attention(self, s, run):
        """visible_at of a run that stays owned: now, if anything is left that could be settled."""
        left = any(self.hit(s, run, p) or p.deadline <= s.now and p.kind != "flaky" for p in s.pend[run])
        left = left or self.p.judge_wakes and self.undecided(s, run)
        return s.now if left else self.next_due(s, run)

    def settle_pending(self, s, run):
        """Under the message lock: journal one signal, or else what the clock has ended, oldest deadline first."""
        names = {r.name for r in s.step[run]}
        pend = tuple(p for p in s.pend[run] if p.name not in names)
        if self.p.judge_first and self.undecided(s, run, pend):
            return s._replace(pend=put(s.pend, run, pend))
        ready = [p for p in pend if self.p.suspend_checks and self.hit(s, run, p)]
        late = [p for p in pend if p.deadline <= s.now and p.kind != "flaky"]
        order = ready + sorted(late, key=lambda p: p.deadline)
        if not self.p.signals_first:
            order = [p for p in pend if p in ready or p in late]
        for p in order:
            if p not in pend:
                continue
            hit = self.hit(s, run, p) if p in ready else None
            if not hit and p not in late:
                continue
            s = self.journal(s, run, p.name, ("sig", hit[0]) if hit else "late", 0)
            s = s._replace(buf=put(s.buf, run, tuple(b for b in s.buf[run] if b != hit)))
            pend = tuple(q for q in pend if q != p)
            if hit and self.p.one_signal:
                break
        return s._replace(pend=put(s.pend, run, pend))

    def valid(self, s, who, tr):
        """The fence: this hand-out is the current one. Read in whatever snapshot the caller has."""
        m = s.msg[tr.run]
        if m is None:
            return "gone"
        alive = not self.p.gate or who[:2] in s.live
        return "" if alive and m.owner == who[:2] and m.receipt == tr.receipt else "lost"

    # ---- the worker's memory --------------------------------------------------------------------
    def settle(self, s, w, run, late=False):
        """Let the body of a hot run go as far as it can; queue what it wants written. `late`: a batch is made."""
        wk = s.work[w]
        rec = wk.recs[run]
        if rec is None or rec.mode != "hot" or rec.sent:
            return s
        calls, tries = self.body[run](rec.seen), dict((n, (a, r)) for n, a, r in rec.tries)
        out = None
        if calls is None:
            if not rec.busy or not self.p.end_waits:
                result = tuple(sorted(rec.seen)), len(rec.known | {n for n, _ in rec.seen})
                out, rec = Tr(run, rec.receipt, "end", result), rec._replace(sent="end")
        else:
            idle = [c for c in calls if c.kind in ("wait", "sleep")
                    or c.kind == "flaky" and not tries.get(c.name, (0, True))[1]]
            wants = tuple(Want(c.name, c.kind, c.match, c.dur, tries.get(c.name, (0, 0))[0]) for c in idle)
            if len(idle) == len(calls) and (not rec.busy or not self.p.end_waits):
                out, rec = Tr(run, rec.receipt, "park", wants, len(rec.known)), rec._replace(sent="park")
            elif self.p.hold and (late or not self.p.asks_first) and (
                    rec.held is None or any(c.name not in rec.held for c in idle)):
                out = Tr(run, rec.receipt, "hold", wants, len(rec.known))
                rec = rec._replace(held=frozenset(c.name for c in idle))
        if out:
            queue = (out,) + wk.queue if late else wk.queue + (out,)
            wk = wk._replace(recs=put(wk.recs, run, rec), queue=queue)
        return s._replace(work=put(s.work, w, wk))

    def set_rec(self, s, w, run, rec, queue=None):
        wk = s.work[w]
        wk = wk._replace(recs=put(wk.recs, run, rec), queue=wk.queue if queue is None else queue)
        return self.settle(s._replace(work=put(s.work, w, wk)), w, run)

    def forget(self, s, w, run, then=()):
        keep = tuple(t for t in s.work[w].queue if t.run != run)
        return self.set_rec(s, w, run, None, keep + then)

    def news(self, s, run):
        """What an answer carries: the journal and the attempts made, as of the commit."""
        return s.step[run], tuple((p.name, p.attempt, p.deadline <= s.now) for p in s.pend[run]
                                  if p.kind == "flaky")

    def absorb(self, s, w, run, rec, news):
        rows, tries = news
        seen, _ = feed(self.body[run], rec.seen, rows)
        known = rec.known | {r.name for r in rows}
        return self.set_rec(s, w, run, rec._replace(seen=seen, tries=tries or rec.tries, known=known))

    def deliver(self, s, who, items, answers):
        """A batch's answers reach the worker, if it is still the same incarnation."""
        w, epoch = who[:2]
        if s.work[w] is None or s.work[w].epoch != epoch:
            return s
        for tr, ans in zip(items, answers):
            rec = s.work[w].recs[tr.run]
            if rec is None or rec.receipt != tr.receipt:
                continue
            if ans in ("lost", "gone"):
                s = self.forget(s, w, tr.run)
            elif ans == "conflict":          # another's row is in my way: release, forget, replay
                s = self.forget(s, w, tr.run, (Tr(tr.run, tr.receipt, "rel", None),)
                                if self.p.reload_releases else ())
            elif tr.kind == "step":
                seen = rec.seen
                if any(c.name == tr.arg[0] for c in self.body[tr.run](seen) or ()):
                    seen += (tr.arg,)
                s = self.set_rec(s, w, tr.run, rec._replace(
                    seen=seen, busy=rec.busy - {tr.arg[0]}, known=rec.known | {tr.arg[0]}))
            elif ans == "parked":
                s = self.set_rec(s, w, tr.run, rec._replace(mode="cached", sent="", held=frozenset())
                                 if self.sc.cache else None)
            elif tr.kind == "park":
                s = self.absorb(s, w, tr.run, rec._replace(sent=""), ans)
            elif tr.kind == "hold":
                s = self.absorb(s, w, tr.run, rec, ans)
            elif tr.kind in ("end", "rel"):
                s = self.forget(s, w, tr.run)
        return s

    # ---- the SQL functions, each under the locks it holds -----------------------------------------
    def commit_steps(self, s, t):
        """Last statement of a batch: insert, suspend, end; then the transaction commits."""
        answers = []
        for tr, fence in zip(t.arg, t.data):
            if tr.kind == "step":
                name, value = tr.arg
                row = next((r for r in s.step[tr.run] if r.name == name), None)
                if fence:
                    answers.append(fence)
                elif row is None:
                    s, _ = self.journal(s, tr.run, name, value, tr.receipt), answers.append("ok")
                elif row.receipt == tr.receipt and self.p.own_row_ok:
                    answers.append("ok")
                else:
                    answers.append("conflict" if self.p.conflict_told else "lost")
                continue
            fence = self.valid(s, t.who, tr)          # under the message's row lock: not a guess
            if fence:
                answers.append(fence)
            elif tr.kind == "rel":
                s = s._replace(msg=put(s.msg, tr.run, s.msg[tr.run]._replace(owner=None, vis=s.now)))
                answers.append("released")
            elif tr.kind == "end":
                s, ans = self.finish(s, tr)
                answers.append(ans)
            else:
                s, ans = self.suspend(s, tr)
                answers.append(ans)
        return s, tuple(answers)

    def finish(self, s, tr):
        run, (result, known) = tr.run, tr.arg
        if self.p.end_counts and known != len(s.step[run]):
            return s, "conflict"
        if s.res[run] is not None:
            raise Violation("a run ended twice")
        return s._replace(res=put(s.res, run, result), msg=put(s.msg, run, None),
                          pend=put(s.pend, run, ()), buf=put(s.buf, run, ())), "ended"

    def suspend(self, s, tr):
        """hold = register waits, stay hot. park = register, and release unless something is ready."""
        run, old = tr.run, {(p.name, p.attempt): p for p in s.pend[tr.run]}
        stale = self.p.ask_counts and tr.known != len(s.step[run])
        pend = []
        for want in tr.arg:
            if self.p.suspend_checks and any(r.name == want.name for r in s.step[run]):
                continue
            p, due = old.get((want.name, want.attempt)), s.now + want.dur if want.dur else INF
            if p and not self.p.keep_deadline and p.deadline < due:
                raise Violation(f"the deadline of {p.name} moved from {p.deadline} to {due}")
            pend.append(p or Pend(want.name, want.kind, want.match, due, want.attempt))
        s = s._replace(pend=put(s.pend, run, tuple(pend)))
        if not stale and not (self.p.repeat_mute and tr.again):
            s = self.settle_pending(s, run)
        left, m = s.pend[run], s.msg[run]
        stale = stale or self.p.judge_keeps and self.undecided(s, run)
        ready = stale or self.p.suspend_checks and (len(left) < len(tr.arg) or any(self.hit(s, run, p) for p in left))
        if tr.kind == "hold" or ready or any(p.deadline <= s.now for p in left):
            return s._replace(msg=put(s.msg, run, m._replace(vis=self.attention(s, run)))), self.news(s, run)
        return s._replace(msg=put(s.msg, run, m._replace(
            vis=self.next_due(s, run), owner=None, parked=True))), "parked"

    def signal(self, s, t):
        for k, (run, match, *outside) in enumerate(self.sc.sigs[t.who]):
            m, pend = s.msg[run], s.pend[run] if self.p.signal_rereads else t.data[k]
            if m is None:
                continue
            # its sender compared what lies outside with the waits that it saw before it sent
            known = frozenset(p.match for p in t.data[k]) if outside else None
            hit = next((p for p in pend if p.kind == "wait" and p.match == match
                        and (known is None or match in known)), None)
            free = hit and all(r.name != hit.name for r in s.step[run])
            if free and not self.p.signal_buffers:
                s = self.journal(s, run, hit.name, ("sig", (t.who, k)), 0)
                s = s._replace(pend=put(s.pend, run, tuple(p for p in s.pend[run] if p.name != hit.name)))
            else:
                s = s._replace(buf=put(s.buf, run, s.buf[run] + (((t.who, k), match, known),)))
            if free or self.p.judge_wakes and self.undecided(s, run):
                m = m._replace(vis=s.now)
            s = s._replace(msg=put(s.msg, run, m))
        return s

    def cancel(self, s):
        return s._replace(msg=put(s.msg, 0, None), res=put(s.res, 0, s.res[0] or "cancelled"),
                          pend=put(s.pend, 0, ()), buf=put(s.buf, 0, ()))

    def reap(self, s, dead):
        msg = tuple(m._replace(owner=None, vis=s.now) if m and m.owner == dead else m for m in s.msg)
        return s._replace(live=s.live - {dead}, msg=msg)

    def claimable(self, s, run):
        m = s.msg[run]
        return m is not None and m.owner is None and m.vis <= s.now and not m.paused

    def claim(self, s, t):
        (w, epoch), run = t.who, t.arg
        if s.env.pause == "on" and run == 0:
            raise Violation("claimed while paused")
        m = s.msg[run]
        if (m.parked or not self.p.claim_exact) and not self.p.claim_never:
            s = self.settle_pending(s, run)
        rows = s.step[run] if self.p.claim_rereads else t.data
        m = Msg(self.next_due(s, run), t.who, m.receipt + 1, False, False)
        s = s._replace(msg=put(s.msg, run, m))
        if s.work[w] is None or s.work[w].epoch != epoch:
            return s
        old = s.work[w].recs[run]
        fresh, _ = feed(self.body[run], (), rows)
        if {r.name for r in s.step[run]} - {r.name for r in rows}:
            raise Violation("claimed with a journal that lacks rows: journalled steps run again")
        seen = fresh
        if old and old.mode == "cached" and (old.receipt + 1 == m.receipt or not self.p.cache_by_receipt):
            seen, _ = feed(self.body[run], old.seen, rows)
            if sorted(seen) != sorted(fresh) or self.body[run](seen) != self.body[run](fresh):
                raise Violation(f"cached coroutine saw {seen}, a replay sees {fresh}")
        s = self.forget(s, w, run)
        rec = Rec("hot", m.receipt, seen, frozenset(), (), frozenset(), "", frozenset(r.name for r in rows))
        return self.absorb(s, w, run, rec, (rows, self.news(s, run)[1]))

    # ---- every next state: (label, is it a fault, state) --------------------------------------------
    def next(self, s):
        for t in s.txn:
            yield from self.next_txn(s, t, s._replace(txn=tuple(x for x in s.txn if x is not t)))
        for w, wk in enumerate(s.work):
            if wk is not None:
                yield from self.next_worker(s, w, wk)
        yield from self.next_world(s)

    def next_txn(self, s, t, rest):
        def go(**kw): return rest._replace(txn=tuple(sorted(rest.txn + (t._replace(**kw),), key=repr)))
        if t.kind == "flush":
            if t.pc == 0:                    # the gate; a worker that was reaped gets no further
                lane = [x for x in s.txn if x is not t and x.kind == "flush" and x.who[:3] == t.who[:3]]
                if self.p.lane_no and any(x.pc in (1, 2) for x in lane):
                    return
                if self.p.lane_no and len(t.who) == 3:      # older copies not begun are void from here on
                    rest = rest._replace(txn=tuple(x for x in rest.txn if x not in lane or x.pc))
                dead = self.p.gate and t.who[:2] not in s.live
                yield ("batch", t.who, "refused" if dead else "begins"), False, (
                    go(pc=3, data=("lost",) * len(t.arg)) if dead else go(pc=1))
            elif t.pc == 1:                  # lock message rows one after another, then the snapshot
                need = [x.run for x in t.arg if x.kind != "step" and x.run not in t.locks]
                if self.p.sorted_locks:
                    need.sort()
                if not need or not self.locked(s, need[0], t):
                    yield ("batch", t.who, "locks" if need else "snapshot", need[:1]), False, (
                        go(locks=t.locks + (need[0],)) if need else
                        go(pc=2, data=tuple(self.valid(s, t.who, x) for x in t.arg)))
            elif t.pc == 2:
                out, answers = self.commit_steps(rest, t)
                words = [a if isinstance(a, str) else "ready" for a in answers]
                yield ("batch", t.who, "commits", words), False, out._replace(
                    txn=tuple(sorted(out.txn + (t._replace(pc=3, locks=(), data=answers),), key=repr)))
            else:
                yield ("batch", t.who, "is answered"), False, (      # an orphan's answer reaches nobody
                    rest if len(t.who) == 4 else self.deliver(rest, t.who, t.arg, t.data))
            if s.env.cut and t.pc < 3 and len(t.who) == 3 and s.work[t.who[0]] and \
                    s.work[t.who[0]].epoch == t.who[1]:
                wk = s.work[t.who[0]]
                cut = go(who=t.who + ("orphan",))
                yield ("CUT", t.who), True, cut._replace(
                    env=s.env._replace(cut=s.env.cut - 1),
                    work=put(s.work, t.who[0], wk._replace(
                        queue=tuple(x._replace(again=True) for x in t.arg) + wk.queue)))
        elif t.kind == "claim":
            if t.pc == 0:                    # one statement: snapshot taken, row not yet locked
                ok = self.claimable(s, t.arg) and not self.locked(s, t.arg)
                yield ("claim", t.who, "locks" if ok else "skips"), False, (
                    go(pc=1, locks=(t.arg,)) if ok else rest)
            else:
                yield ("claim", t.who, "run", t.arg, "commits"), False, self.claim(rest, t)
        elif t.kind == "signal":
            need = [r for r, *_ in self.sc.sigs[t.who] if r not in t.locks]
            if self.p.sorted_locks:
                need.sort()
            if need and not self.locked(s, need[0]):
                yield ("signal", t.who, "locks run", need[0]), False, go(locks=t.locks + (need[0],))
            elif not need:
                yield ("signal", t.who, "commits"), False, self.signal(rest, t)._replace(
                    env=s.env._replace(sigs=put(s.env.sigs, t.who, "done")))
        elif t.kind == "cancel":
            if t.pc == 0 and not self.locked(s, 0):
                owner = s.msg[0] and s.msg[0].owner
                out = self.cancel(rest) if s.msg[0] else rest
                yield ("cancel", "commits"), False, out._replace(txn=tuple(sorted(
                    out.txn + (t._replace(pc=1, data=owner),), key=repr)))
            elif t.pc == 1 and (not self.p.cancel_barrier or self.gate_free(s, t.data)):
                yield ("cancel", "is acknowledged"), False, rest._replace(
                    acked=put(s.acked, 0, len(s.step[0])), env=s.env._replace(cancel="done"))

    def gate_free(self, s, who):
        return not any(t.who[:2] == who and (t.kind == "claim" or t.kind == "flush" and t.pc in (1, 2))
                       for t in s.txn if t.kind in ("flush", "claim"))

    def next_worker(self, s, w, wk):
        me = (w, wk.epoch)
        def begin(t, **kw): return s._replace(txn=tuple(sorted(s.txn + (t,), key=repr)), **kw)
        if me not in s.live:                 # the heartbeat updated no row: a new incarnation
            yield ("worker", w, "learns that it was reaped"), False, s._replace(
                live=s.live | {(w, wk.epoch + 1)},
                work=put(s.work, w, Wk(wk.epoch + 1, (None,) * len(wk.recs), ())))
        claiming = any(t.kind == "claim" and t.who == me for t in s.txn)
        for run, rec in enumerate(wk.recs):
            m = s.msg[run]
            if not claiming and self.claimable(s, run) and (me in s.live or not self.p.claim_alive):
                if not self.p.claim_rereads:
                    yield ("claim", me, "snapshot"), False, begin(Txn("claim", me, 0, run, (), s.step[run]))
                elif not self.locked(s, run):
                    yield ("claim", me, "locks"), False, begin(Txn("claim", me, 1, run, (run,), ()))
            if rec is None or rec.mode != "hot":
                continue
            if m and self.undecided(s, run) and not self.locked(s, run):       # anybody may: a verdict never changes
                waits = frozenset(p.match for p in s.pend[run] if p.kind == "wait")
                yield ("worker", w, "reads the signals of run", run), False, s._replace(
                    buf=put(s.buf, run, tuple(b if b[2] is None else b[:2] + (b[2] | waits,) for b in s.buf[run])),
                    msg=put(s.msg, run, m._replace(vis=s.now)))
            due = m and m.owner == me and m.vis <= s.now
            asking = any(x.run == run and x.kind == "hold" for x in wk.queue) or any(
                x.run == run and x.kind == "hold" for t in s.txn if t.kind == "flush" and t.who[:2] == me
                for x in t.arg)
            if self.p.hold and due and rec.held is not None and not rec.sent and not asking:
                yield ("worker", w, "polls: run", run, "is due"), False, self.set_rec(
                    s, w, run, rec._replace(held=None))
            if m and m.paused and m.owner == me and not rec.busy and not rec.sent:
                yield ("worker", w, "sees the pause, releases"), False, self.set_rec(
                    s, w, run, rec._replace(sent="rel"), wk.queue + (Tr(run, rec.receipt, "rel", None),))
            if rec.sent == "rel":
                continue
            tries = {n: (a, r) for n, a, r in rec.tries}
            for c in self.body[run](rec.seen) or ():
                attempt, ready = tries.get(c.name, (0, True))
                if c.kind in ("wait", "sleep") or c.name in rec.busy or not ready:
                    continue
                if c.kind == "human" and all(n != "e" for n, _ in rec.seen):
                    continue
                if c.kind == "flaky" and attempt < 2:
                    yield ("worker", w, "step", c.name, "fails"), False, self.set_rec(
                        s, w, run, rec._replace(tries=((c.name, attempt + 1, False),)))
                    continue
                tr = Tr(run, rec.receipt, "step", (c.name, rec.receipt))
                yield ("worker", w, "executes", c.name, "of run", run, "receipt", rec.receipt), False, \
                    self.set_rec(s, w, run, rec._replace(
                        busy=rec.busy | {c.name}, seen=rec.seen if self.p.end_waits else rec.seen + (tr.arg,)),
                                 wk.queue + (tr,))
        flying = {t.who[2] for t in s.txn if t.kind == "flush" and t.who[:2] == me and len(t.who) == 3}
        for f in range(self.sc.flushers):
            if f in flying:
                continue
            mine = [not self.p.one_lane or run % self.sc.flushers == f for run in range(len(wk.recs))]
            asked = s
            for run in range(len(wk.recs)):
                if self.p.asks_first and mine[run]:
                    asked = self.settle(asked, w, run, True)
            now = asked.work[w]
            take = tuple(tr for tr in now.queue if mine[tr.run])
            left = tuple(tr for tr in now.queue if not mine[tr.run])
            if any(tr.again for tr in take):          # the whole call is marked as a repeat
                take = tuple(tr._replace(again=True) for tr in take)
            if take:
                yield ("batch", (w, wk.epoch, f), "sent", [(x.kind, x.run) for x in take]), False, begin(
                    Txn("flush", (w, wk.epoch, f), 0, take, (), ()),
                    work=put(s.work, w, now._replace(queue=left)))
        alive = [k for k in s.work if k is not None]
        if s.env.crash and len(alive) > 1:
            yield ("CRASH", w), True, s._replace(work=put(s.work, w, None),
                                                 env=s.env._replace(crash=s.env.crash - 1))

    def next_world(self, s):
        env = s.env
        for dead in s.live:
            crashed = s.work[dead[0]] is None
            if not crashed and not env.suspect:
                continue
            if self.p.gate and not self.gate_free(s, dead):
                continue
            if any(m and m.owner == dead and self.locked(s, r) for r, m in enumerate(s.msg)):
                continue
            left = env if crashed else env._replace(suspect=env.suspect - 1)
            yield ("reap", dead, "" if crashed else "ALIVE"), not crashed, self.reap(s, dead)._replace(env=left)
        for run, m in enumerate(s.msg):
            if self.p.reap_ghosts and m and m.owner and m.owner not in s.live and not self.locked(s, run):
                yield ("reap", "run", run, "of a ghost"), False, s._replace(
                    msg=put(s.msg, run, m._replace(owner=None, vis=s.now)))
        if any(p.deadline > s.now and p.deadline < INF for ps in s.pend for p in ps):
            yield ("time passes",), False, s._replace(now=s.now + 1)
        for i, state in enumerate(env.sigs):
            if state == "todo":
                outside = any(len(sig) > 2 for sig in self.sc.sigs[i])
                t = Txn("signal", i, 0, None, (), () if self.p.signal_rereads and not outside else
                        tuple(s.pend[r] for r, *_ in self.sc.sigs[i]))
                yield ("signal", i, "sent"), False, s._replace(
                    txn=tuple(sorted(s.txn + (t,), key=repr)), env=env._replace(sigs=put(env.sigs, i, "flying")))
        if env.cancel == "todo":
            yield ("cancel", "sent"), True, s._replace(
                txn=tuple(sorted(s.txn + (Txn("cancel", 0, 0, None, (), None),), key=repr)),
                env=env._replace(cancel="flying"))
        m = s.msg[0]
        if env.pause in ("todo", "on") and m and not self.locked(s, 0):
            on = env.pause == "todo"
            m = m._replace(paused=on) if self.p.pause_flag else m._replace(vis=INF if on else s.now)
            yield ("pause" if on else "resume",), on, s._replace(
                msg=put(s.msg, 0, m), env=env._replace(pause="on" if on else "off"))

    # ---- what must hold in every state --------------------------------------------------------------
    def check(self, s):
        for run, rows in enumerate(s.step):
            if len({r.name for r in rows}) != len(rows):
                raise Violation("two journal rows for one step")
            seen, unasked = feed(self.body[run], (), rows)
            if unasked:
                raise Violation(f"a replay of the journal {[r.name for r in rows]} never asks for {unasked}")
            out = s.res[run]
            if out not in (None, "cancelled") and (self.body[run](seen) is not None
                                                   or tuple(sorted(seen)) != out):
                raise Violation(f"the run ended with {out}, its journal replays to {seen}")
            m, names = s.msg[run], {n for n, _ in seen}
            taken = [r.name for r in rows if isinstance(r.value, tuple) and r.name not in names]
            if taken and out is None:
                raise Violation(f"signal lost: {taken} took it and had already been withdrawn")
            if m and m.parked and {c.name for c in self.body[run](seen) or ()} != {p.name for p in s.pend[run]}:
                raise Violation(f"parked with {[p.name for p in s.pend[run]]}, a replay waits for something else")
            if m and m.receipt > 9:
                raise Violation("handed out ten times: livelock")
            for i, batch in enumerate(self.sc.sigs):
                for k, target in enumerate(batch):
                    n = sum(b[0] == (i, k) for b in s.buf[run]) + sum(r.value == ("sig", (i, k)) for r in rows)
                    if n > 1 or n == 0 and s.env.sigs[i] == "done" and target[0] == run and out is None:
                        raise Violation(f"signal {i, k} is in {n} places")
            held = run == 0 and s.env.pause == "on"
            if m and m.owner is None and not self.locked(s, run) and m.vis > s.now and not held:
                lost = [p.name for p in s.pend[run] if p.kind == "wait" and
                        (any(b[1] == p.match for b in s.buf[run]) or any(r.name == p.name for r in rows))]
                if lost:
                    raise Violation(f"asleep although {lost} can be answered: lost wake-up")


UNFINISHED = "bound reached: no fault found, not finished"


def explore(sc, p, limit=400_000):
    """Breadth first. -> (states, moves, None | (what is wrong, trace))."""
    model = Model(sc, p)
    first = model.start()
    ids, parent, back, goals, moves = {first: 0}, [None], [[]], [], 0
    todo = deque([first])

    def trace(i):
        out = []
        while parent[i] is not None:
            out.append(parent[i][1])
            i = parent[i][0]
        return out[::-1]

    while todo:
        s = todo.popleft()
        me = ids[s]
        if all(r is not None for r in s.res):
            goals.append(me)
        try:
            for label, fault, nxt in model.next(s):
                moves += 1
                i = ids.get(nxt)
                if i is None:
                    i = ids[nxt] = len(parent)
                    parent.append((me, label))
                    back.append([])
                    try:
                        model.check(nxt)
                    except Violation as why:
                        return len(ids), moves, (str(why), trace(i))
                    todo.append(nxt)
                if not fault:
                    back[i].append(me)
        except Violation as why:
            return len(ids), moves, (str(why), trace(me))
        if len(ids) > limit:
            return len(ids), moves, (UNFINISHED, [])
    good, stack = set(goals), list(goals)    # from where can every run still end, without a fault?
    while stack:
        for i in back[stack.pop()]:
            if i not in good:
                good.add(i)
                stack.append(i)
    if len(good) < len(ids):
        bad = next(i for i in range(len(parent)) if i not in good)
        return len(ids), moves, ("from here the run can never end", trace(bad))
    return len(ids), moves, None


# ---- duplicate starts: a model of its own, since nothing else of a run exists yet -------------------
def start_twice(reread):
    """Two start_runs with one idempotency key. -> what is wrong, or None."""
    todo, seen = [(("idle", None, None),) * 2 + (None,)], set()      # (pc, snapshot, answer) x 2, table
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        table = state[2]
        for i in (0, 1):
            pc, snap, _ = me = state[i]
            other = state[1 - i][0]
            if pc == "idle":
                nxt = ("insert", table, None), table
            elif pc == "insert" and other != "inserted":             # else: waits for the other to end
                nxt = (("inserted", snap, i) if table is None else ("select", snap, None)), table
            elif pc == "inserted":
                nxt = ("done", None, i), i                           # commits
            elif pc == "select":                                     # on conflict do nothing: look it up
                nxt = ("done", None, table if reread else snap), table
            else:
                continue
            if nxt[0][0] == "done" and nxt[0][2] is None:
                return "a start is answered without a run"
            todo.append((nxt[0], state[1], nxt[1]) if i == 0 else (state[0], nxt[0], nxt[1]))
    return None


# ---- what is checked --------------------------------------------------------------------------------
OUTSIDE = "outside"            # the payload is no row's: only who reads it knows what it matches
ONE, TWO = (((0, 0),),), (((0, 1),), ((0, 2),))
FAR = {"event": (((0, 0, OUTSIDE),),), "timeout": (((0, 0, OUTSIDE),),), "eventrace": (((0, 0, OUTSIDE),),),
       "twowaits": (((0, 1, OUTSIDE),), ((0, 2),)), "racenap": (((0, 0, OUTSIDE),),),
       "racewaits": (((0, 1, OUTSIDE),), ((0, 2, OUTSIDE),))}
SIGNALS = {"event": ONE, "timeout": ONE, "branches": ONE, "human": ONE, "eventrace": ONE,
           "twowaits": TWO, "twotimeouts": TWO, "racenap": ONE, "racestep": ONE, "racewaits": TWO,
           "racelate": ONE, "racehot": ONE, "raceflaky": ONE}
FAULTS = {"none": {}, "crash": {"crash": 1}, "frozen": {"suspect": 1}, "frozen, no cache":
          {"suspect": 1, "cache": False}, "cut": {"cut": 1}, "cancel": {"cancel": True},
          "pause": {"pause": True}, "two flushers": {"flushers": 2}}
MIXED = {"cut and frozen": {"cut": 1, "suspect": 1}, "cancel and frozen": {"cancel": True, "suspect": 1},
         "pause and crash": {"pause": True, "crash": 1}, "cut and cancel": {"cut": 1, "cancel": True},
         "crash and frozen": {"crash": 1, "suspect": 1}}
ONE_BY_ONE = [b for b in BODIES if b not in ("wait", "raceflaky")]
PAIRS = [("two runs, signals in one batch", Scenario(("wait", "wait"), (((1, 0), (0, 0)),), workers=1)),
         ("two runs, two lanes, cut", Scenario(("wait", "ab"), ONE, cut=1, flushers=2, workers=1)),
         ("two runs, crash", Scenario(("wait", "nap"), ONE, crash=1)),
         ("a race beside a retry", Scenario(("raceflaky",), ONE)),
         ("a race beside a retry, cut", Scenario(("raceflaky",), ONE, cut=1, workers=1))]
off = lambda *names: replace(FIXED, **dict.fromkeys(names, False))
VARIANTS = [
    ("signal locks and matches in one statement", off("signal_rereads"), Scenario(("event",), ONE)),
    ("claim locks and reads the journal in one statement", off("claim_rereads"), Scenario(("event",), ONE)),
    ("suspend does not look at the buffer", off("suspend_checks"), Scenario(("event",), ONE)),
    ("signal journals into a hot run", off("signal_buffers"), Scenario(("eventrace",), ONE)),
    ("waits are registered at suspension only", off("hold"), Scenario(("human",), ONE)),
    ("a wait registered again gets a new deadline", off("keep_deadline"), Scenario(("twotimeouts",), TWO)),
    ("receipt fence alone, no gate; a racing body", off("gate"), Scenario(("race",), suspect=1)),
    ("no gate; the owner in a conflict is told `lost`", off("gate", "conflict_told"), Scenario(("ab",), suspect=1)),
    ("no gate; `conflict`, but no release", off("gate", "reload_releases"), Scenario(("ab",), suspect=1)),
    ("reaper frees only those it kills; claim unchecked", off("claim_alive", "reap_ghosts"),
     Scenario(("ab",), suspect=1)),
    ("repeated commit meets its own row: `lost`", off("own_row_ok", "conflict_told"), Scenario(("ab",), cut=1)),
    ("late copy of a batch after a broken connection", off("lane_no"), Scenario(("eventrace",), ONE, cut=1)),
    ("cancel acknowledged without the barrier", off("cancel_barrier"), Scenario(("ab",), cancel=True)),
    ("a run's batches on two flushers", off("one_lane"), Scenario(("race",), flushers=2)),
    ("the end is sent with the last step in flight", off("end_waits", "one_lane"), Scenario(("ab",), flushers=2)),
    ("pause is a far visible_at", off("pause_flag"), Scenario(("event",), ONE, pause=True)),
    ("claim settles a run that was not suspended", off("claim_exact"), Scenario(("racenap",), ONE, crash=1)),
    ("a settle journals every signal that matches", off("one_signal"), Scenario(("racewaits",), TWO)),
    ("a settle lets a clock go before a signal", off("signals_first"), Scenario(("racelate",), ONE)),
    ("a register settles behind steps of its batch", off("ask_counts", "asks_first"), Scenario(("racestep",), ONE)),
    ("a repeated register settles behind lost answers", off("ask_counts"), Scenario(("racestep",), ONE, cut=1)),
    ("a repeated suspend settles behind lost answers", off("ask_counts"), Scenario(("racewaits",), TWO, cut=1)),
    ("a suspend lets go past a signal that nobody has read", off("judge_keeps"), Scenario(("event",), FAR["event"])),
    ("a signal that somebody has to read wakes nobody", off("judge_wakes"), Scenario(("event",), FAR["event"])),
    ("message rows locked in any order", off("sorted_locks"), PAIRS[0][1]),
]
MUTE = replace(FIXED, ask_counts=False, repeat_mute=True)
ALTERNATIVES = [("asks are muted in repeated batches, nothing counted", MUTE),
                ("claim never settles", replace(FIXED, claim_never=True))]
RACES = ["racenap", "racestep", "racewaits", "racelate", "racehot", "eventrace"]
SPARE = ["asks_first", "end_counts", "cache_by_receipt", "conflict_told", "own_row_ok", "claim_alive", "reap_ghosts"]


def show(trace):
    for n, label in enumerate(trace, 1):
        print(f"      {n:3} " + " ".join(str(x) for x in label))


def main(argv):
    began, states, broken = time.time(), 0, 0
    faults = FAULTS | MIXED if "--deep" in argv else FAULTS
    jobs = [(f"{b}, {f}", Scenario((b,), SIGNALS.get(b, ()), **kw)) for f, kw in faults.items()
            for b in ONE_BY_ONE] + PAIRS
    jobs += [(f"{b}, far signal, {f}", Scenario((b,), far, **FAULTS[f]))
             for b, far in FAR.items() for f in ("none", "crash", "frozen", "cut", "pause")]
    print("The protocol as it should be built")
    for name, sc in jobs:
        n, moves, bad = explore(sc, FIXED)
        states, broken = states + n, broken + bool(bad and bad[0] != UNFINISHED)
        if bad or "-v" in argv:
            print(f"  {name:34} {n:8} states {moves:8} moves  {bad[0] if bad else 'holds'}")
            show(bad[1] if bad else [])
    print(f"  {len(jobs)} scenarios, {states} states, {time.time() - began:.0f} s, {broken} broken")
    print("A rule taken away: each must break")
    for name, p, sc in VARIANTS:
        bad = explore(sc, p)[2]
        broken += bad is None
        print(f"  {name:52} {bad[0] + f' ({len(bad[1])} moves)' if bad else 'STILL HOLDS'}")
        if bad and "--traces" in argv:
            show(bad[1])
    for name, p in ALTERNATIVES if "--deep" in argv else ():
        jobs2 = [Scenario((b,), SIGNALS[b], **FAULTS[f]) for b in RACES for f in ("none", "crash", "frozen", "cut")]
        bad = next(filter(None, (explore(sc, p)[2] for sc in jobs2)), None)
        broken += bad is not None
        print(f"  another way: {name:39} {bad[0] if bad else 'holds in every race'}")
    for name in SPARE if "--deep" in argv else ():
        hits = (explore(sc, off(name))[2] for sc in (sc for f, sc in jobs if f.split(", ")[-1] not in MIXED))
        bad = next((h for h in hits if h), None)
        print(f"  spare: without {name:37} {bad[0] if bad else 'still holds, in every scenario above'}")
    for reread in (True, False):
        bad = start_twice(reread)
        broken += (bad is None) != reread
        print(f"  duplicate start, key looked up in {'a later' if reread else 'the same'} statement:"
              f" {bad or 'holds'}")
    print(f"{time.time() - began:.0f} s; {'AS EXPECTED' if not broken else 'NOT AS EXPECTED'}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
