"""A worker: claims runs, keeps them in memory while they have something to do, hands them back.

    claim ──> Execution (hot) ──suspend──> cached ──claim──> hot ... ──> ended
                  │ results, asks, ends                     the database owns every state;
                  └──> Committer ──> Postgres               memory is only ever ahead by what is in flight

Nothing here is authoritative. If the process dies at any point, what was committed is replayed elsewhere and what
was not committed is executed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import os
import signal
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from onward.authoring.definition import Workflow
from onward.client import address, traces
from onward.client.payloads import Payloads
from onward.client.sweeper import Sweeper
from onward.core import durations
from onward.core.durations import Duration
from onward.errors import OnwardError, WorkflowVersionMismatch
from onward.store.database import TRANSIENT, Database
from onward.store.handouts import Ask, HandOut, HandOuts, Served, Verdict, WorkerDead
from onward.store.listener import Listener
from onward.store.tallies import Tallies
from onward.worker import options
from onward.worker.announcer import Announcer
from onward.worker.bodies import play
from onward.worker.children import Children
from onward.worker.committer import Committer, Farewell
from onward.worker.deadlines import Deadlines
from onward.worker.dues import Dues
from onward.worker.execution import Execution, Mode
from onward.worker.fetches import Fetches
from onward.worker.heart import Heart
from onward.worker.rest import Turns
from onward.worker.tallies import Tally
from onward.worker.tasks import Counting
from onward.worker.threads import Threads
from onward.worker.verbs import Verbs
from onward.worker.webhooks import Deliverer

_log = logging.getLogger("onward")

CLAIM = 200
"""Runs a claim at the most."""
CACHED = 1000
"""Suspended coroutines that are kept: only ever a saving, so a bound costs nothing but a replay."""
POLL = 1.0
"""Seconds between looks that no notification asked for."""
LAST_CHANCE = 4
"""A run whose worker died so often is delivered once with nothing else executing."""


class Worker:
    """Executes runs of the given workflows. `await worker.run()`, or `async with worker:` to embed it."""

    def __init__(
        self,
        workflows: Workflow[Any, Any] | Iterable[Workflow[Any, Any]],
        url: str | None = None,
        *,
        concurrency: int = 1000,
        lease: Duration = "30s",
        threads: int | None = None,
        grace: Duration = "25s",
    ) -> None:
        self._workflows = options.by_version([workflows] if isinstance(workflows, Workflow) else list(workflows))
        self._url = url
        self._concurrency = options.at_least_one("concurrency", concurrency)
        self._lease = options.lease_seconds(lease)
        usual = min(32, (os.cpu_count() or 1) + 4)
        self._thread_count = options.at_least_one("threads", usual if threads is None else threads)
        self._grace = durations.seconds(grace, what="grace")
        self._hot: dict[UUID, Execution] = {}
        self._cache: OrderedDict[UUID, Execution] = OrderedDict()
        self._ending: set[asyncio.Task[Any]] = set()
        self._chores: set[asyncio.Task[Any]] = set()
        self._dues = Dues()
        self._nap: asyncio.Timeout | None = None  # of the claim loop
        self._alone: Execution | None = None
        self._stopping = False
        self._started = False
        self._doom: BaseException | None = None  # what ended one of the loops, against all intent
        self._on_doom: Callable[[], None] = lambda: None
        self.executing = 0

    # ---- life ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT; a second one stops at once."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def told() -> None:
            if stop.is_set():
                self._grace = 0.0
                self._calm.set()
            stop.set()

        with contextlib.ExitStack() as handlers:
            for number in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
                    loop.add_signal_handler(number, told)
                    handlers.callback(loop.remove_signal_handler, number)
            async with self:
                self._on_doom = stop.set
                _collect_seldom()
                await stop.wait()
        if self._doom is not None:
            raise self._doom

    async def __aenter__(self) -> Self:
        if self._started:
            raise OnwardError("this worker was started before: make a new Worker")
        self._started = True
        self.loop = asyncio.get_running_loop()
        self._address = await address.resolve(self._url)
        self._database = Database(
            self._address.url, size=5, silence=max(2.0, min(10.0, self._lease / 3)), name="onward worker"
        )
        self._store = HandOuts(self._database)
        self.payloads = Payloads(self._database)
        self.fetches = Fetches(self.payloads)
        self.tally = Tally(Tallies(self._database))
        self.spans = traces.begin()
        self._sweeper = Sweeper(self._database, self.payloads)
        self._deliverer = Deliverer(self._database, payloads=self.payloads)
        self._children = Children(self._database, self.payloads, self._chore)
        self.turns = Turns()
        self.threads = Threads(self._thread_count)
        self.deadlines = Deadlines()
        self.counting = Counting.install(self.loop)
        self._wake, self._look, self._calm = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._handing_out, self._noting = asyncio.Lock(), asyncio.Lock()
        self._announcer = Announcer(self._store)
        self._listener = Listener(self._database, "onward_work", self._told)
        self._heart = Heart(
            self._store, self._listener, self._lease, self._register, self._drop_everything, self._revived
        )
        self.committer = Committer(self._store, lambda: self._heart.worker_id, self._declared_dead, self._flushed)
        try:
            await self.payloads.check_recorded()  # and the schema fits, or says what to do
            await self._sweeper.start()
            await self.tally.start()
            await self._listener.start()
            await self._deliverer.start()
            await self._heart.start()
            with contextlib.suppress(*TRANSIENT):  # they open again when they are called
                await self._store.open()
        except BaseException:
            await self._close()
            raise
        self._chore(self._look_at_store())
        self.committer.start()
        self._loops = [
            asyncio.create_task(loop(), name=f"onward-{loop.__name__.strip('_')}")
            for loop in (self._claim_loop, self._attend_loop, self._announcer.loop, self.tally.loop, self._sweeper.run)
        ]
        for task in (*self._loops, *self.committer.tasks, *self._heart.tasks, *self._listener.tasks):
            task.add_done_callback(self._loop_ended)
        return self

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        """A worker that has lost one of its loops must not look alive: `run` ends with the error."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("%s ended: this worker serves no more", task.get_name(), exc_info=error)
            self._doom = error
            self._on_doom()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Hands everything back. Steps that execute get the grace time to finish; safe to call twice."""
        if self._stopping or not self._started:
            return
        self._stopping = True
        await _cancel([self._loops[0]])
        for run in list(self._hot.values()):
            run.leave()
        self._drop_cache()
        if self._hot:
            self._calm.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await self._calm.wait()
        for run in list(self._hot.values()):
            run.lost("conflict")  # still ours: dropped and handed back
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.committer.drain()
        if self._ending:
            await asyncio.wait(self._ending, timeout=2)
        await self._close()

    async def _close(self) -> None:
        self._stopping = True
        if self._chores:
            await asyncio.wait(self._chores, timeout=2)  # a child that was given up is cancelled
        await _cancel([*getattr(self, "_loops", ()), *self._chores])
        await self._deliverer.stop()
        await self.committer.stop()
        await self._heart.stop()
        await self.fetches.stop()
        self._database.patience = 2.0
        with contextlib.suppress(*TRANSIENT):
            await self.tally.add()
            if self._heart.worker_id:
                await self._store.retire(self._heart.worker_id)
                await self._announcer.flush(work=True)
        await self._listener.stop()
        self.threads.stop()
        self.counting.uninstall()
        self._store.close()
        await self._database.close()
        await self._address.release()

    async def _register(self) -> int:
        serves = [Served(w.name, w.version, w.retention.total_seconds()) for w in self._workflows.values()]
        return await self._store.register(f"{socket.gethostname()}:{os.getpid()}", self._lease, serves)

    # ---- claiming ----------------------------------------------------------------------------------------

    async def _claim_loop(self) -> None:
        """Claims when told, and looks every second whether there is something to claim: a look only reads, a claim that
        finds nothing would write to the disk."""
        told = False
        while True:
            self._wake.clear()
            room = self._concurrency - len(self._hot)
            pause = POLL
            worker = self._heart.worker_id
            if room > 0 and self._alone is None and self._heart.may_begin:
                try:
                    due = None if told else await self._store.next_due(worker)
                    if told or (due is not None and due <= 0):
                        asked = min(room, CLAIM)
                        found = await self._claim(worker, asked)
                        if found == asked:
                            continue
                        due = None if told and found else await self._store.next_due(worker)
                    pause = self._until(due)
                except WorkerDead:
                    self._declared_dead(worker)
                except TRANSIENT as error:
                    _log.warning("no claim: %s", error or type(error).__name__)
                    pause = 0.2
            told = True
            try:
                async with asyncio.timeout(pause) as self._nap:
                    await self._wake.wait()
            except TimeoutError:
                told = False

    def _until(self, due: float | None) -> float:
        """Seconds until the next look: something is due in so many, by the database, or was put to sleep here."""
        return max(min(seconds for seconds in (POLL, self._dues.next(), due) if seconds is not None) + 0.001, 0.005)

    async def _claim(self, worker: int, limit: int) -> int:
        async with self._handing_out:
            outs = await self._store.claim(worker, limit)
            if worker != self._heart.worker_id:  # declared dead meanwhile: others get them
                return 0
            for out in outs:
                await self._take(out)
        return len(outs)

    async def _take(self, out: HandOut) -> None:
        if (there := self._hot.get(out.run_id)) is not None:
            # the hand-out that it is here under is void. What it has sent may still arrive, so the new one is given
            # back behind that, and the next one reads a journal to which nobody adds
            there.lost("lost")
            self.committer.ask(Farewell(), Ask(out.run_id, out.receipt, "release"))
            return
        cached = self._cache.pop(out.run_id, None)
        if cached is not None and out.partial and cached.receipt + 1 == out.receipt:
            self._hot[out.run_id] = cached
            cached.resume(out)
            return
        if cached is not None:
            self._evict(cached)
        if out.partial:  # the coroutine is gone, and the claim left out what it knew
            journal = await self._store.journal(out.run_id)
            out = out._replace(rows=[*journal[: len(journal) - len(out.rows)], *out.rows])
        workflow = self._workflows.get((out.workflow, out.version))
        if workflow is None:  # a bug, but no reason to stop serving the others
            served = max((v for name, v in self._workflows if name == out.workflow), default=0)
            about = {"run_id": str(out.run_id), "workflow": out.workflow}
            _log.error("%s", WorkflowVersionMismatch(out.workflow, served, out.version), extra=about)
            self.committer.ask(Farewell(), Ask(out.run_id, out.receipt, "release"))
            return
        run = self._hot[out.run_id] = Execution(self, out, workflow)
        verbs = Verbs(run, self._children)
        run.main = self.loop.create_task(play(run, verbs))
        run.main.add_done_callback(functools.partial(self._played, run))
        run.stirred()

    def _played(self, run: Execution, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        run.main = None  # each would keep the other in memory
        if not task.cancelled() and (error := task.exception()) is not None and not run.over:
            run.failed(error)

    # ---- what executions tell (execution.Host) ---------------------------------------------------------------

    def admits(self, run: Execution, inside: bool) -> bool:
        """No new step while the lease may have lapsed; and but for those within a step that executes, none while
        stopping, or while a suspect is executed alone."""
        if inside or self._stopping or not self._heart.may_begin:
            return inside and self._heart.may_begin
        if self._alone is None and run.out.deaths >= LAST_CHANCE:
            self._alone = run
        return self._alone is None or (self._alone is run and self.executing == run.executing)

    def progressed(self, run: Execution) -> None:
        """A suspect has journalled something: it is none."""
        self._no_longer_alone(run)

    def cached(self, run: Execution) -> None:
        self._forget(run)
        if self._stopping:
            self._evict(run)
            return
        self._cache[run.out.run_id] = run
        while len(self._cache) > CACHED:
            self._evict(self._cache.popitem(last=False)[1])

    def due_in(self, seconds: float) -> None:
        """A run that was put to sleep here is due then: only a reason to look."""
        self._dues.add(seconds)
        when = self.loop.time() + max(seconds, 0.005)
        with contextlib.suppress(RuntimeError):  # it has ended, and the next one begins with another look
            if self._nap is not None and (until := self._nap.when()) is not None and when < until:
                self._nap.reschedule(when)

    def ended(self, run: Execution, told: bool) -> None:
        if not told:
            self._announcer.add(run.out.run_id, run.out.parent)
        self._forget(run)

    def left(self, run: Execution, *, release: bool) -> None:
        self._cache.pop(run.out.run_id, None)
        self._forget(run)

    async def judged(self, run: Execution, verdicts: Sequence[Verdict]) -> None:
        await self._store.judge(run.out.run_id, verdicts)

    def trouble(self, run: Execution, text: str | None) -> None:
        if text is not None:
            _log.warning("run %s waits for the payload store: %s", run.key, text, extra=run.about)
        self._chore(self._note(run.out.run_id, run.receipt, text))

    async def _look_at_store(self) -> None:
        """Who starts a worker should hear at once that its payloads cannot be written, and not days later."""
        try:
            if (place := await self.payloads.place()) is not None and place.recorded:
                await place.objects.check(place.layout.probe)
        except OnwardError as error:
            _log.warning("the payload store cannot be used, steps with large values will wait: %s", error)

    async def _note(self, run_id: UUID, receipt: int, text: str | None) -> None:
        async with self._noting:  # in their order: the last one counts
            await self._store.note_trouble(self._heart.worker_id, run_id, receipt, text)

    def poke(self, run: Execution) -> None:
        self._chore(self._store.poke(run.out.run_id))

    def _forget(self, run: Execution) -> None:
        if self._hot.get(run.out.run_id) is run:
            del self._hot[run.out.run_id]
        if run.mode is Mode.OVER and run.main is not None and not run.main.done():
            self._ending.add(run.main)
        self._no_longer_alone(run)
        if not self._hot:
            self._calm.set()
        if len(self._hot) == self._concurrency - 1:  # there was no room, and there is now
            self._wake.set()

    def _no_longer_alone(self, run: Execution) -> None:
        if self._alone is run:
            self._alone = None
            self._wake.set()
            self._stir_all()

    def _evict(self, run: Execution) -> None:
        run.is_over()
        run.stop_tasks()
        if run.main is not None and not run.main.done():
            self._ending.add(run.main)

    def _drop_cache(self) -> None:
        while self._cache:
            self._evict(self._cache.popitem()[1])

    def _stir_all(self) -> None:
        for run in list(self._hot.values()):
            run.look()

    # ---- what the database tells -----------------------------------------------------------------------------

    def _told(self, payload: str) -> None:
        word, _, run_id = payload.partition(" ")
        if word == "cancel":
            run = self._hot.get(UUID(run_id)) or self._cache.get(UUID(run_id))
            if run is not None:
                run.lost("cancelled")
            return
        self._wake.set()
        if word:  # a signal, a pause: it may be about a run that is in memory here
            self._look.set()

    def _flushed(self) -> None:
        if self._alone is not None:
            self._alone.look()

    def _declared_dead(self, worker: int) -> None:
        if self._heart.declared_dead(worker):
            self._drop_everything()

    def _drop_everything(self) -> None:
        for run in [*self._hot.values(), *self._cache.values()]:
            run.lost("lost")
        self._drop_cache()

    def _revived(self) -> None:
        """Registered anew, or in reach of the database again."""
        for run in [run for run in self._hot.values() if run.mode is Mode.OVER]:
            self._forget(run)
        self._wake.set()
        self._stir_all()

    async def _attend_loop(self) -> None:
        """Looks after owned runs: when told, and every second."""
        looks = 0
        while True:
            self._look.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._look.wait()
            looks += 1
            self._flushed()
            try:
                async with self._handing_out:  # a claim whose answer is on its way would seem unknown
                    await self._attend(everything=looks % 5 == 0)
            except TRANSIENT as error:
                _log.warning("not attended: %s", error or type(error).__name__)

    async def _attend(self, everything: bool) -> None:
        held = [(run.out.run_id, run.receipt) for run in self._hot.values()]
        if not held and not everything:
            return
        for news in await self._store.attend(self._heart.worker_id, held, everything=everything):
            run = self._hot.get(news.run_id)
            if news.word == "unknown" and run is None:
                self.committer.ask(Farewell(), Ask(news.run_id, news.receipt, "release"))
            elif run is None or run.receipt != news.receipt or run.mode is not Mode.HOT:
                continue
            elif news.word == "due":
                run.must_register()
            elif news.word == "paused":
                run.leave()
            else:
                run.lost(news.word)

    # ---- chores: what nobody waits for ---------------------------------------------------------------------------

    def _chore(self, work: Any) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)


def _collect_seldom() -> None:
    """For a process that is a worker and nothing else: what was imported is never looked at again by the garbage
    collector, and it runs less often. A thousand hot runs are many small objects that all live for some milliseconds;
    looking through them again and again took a tenth of the process's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _quietly(work: Any) -> None:
    with contextlib.suppress(*TRANSIENT):
        await work


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    todo = list(tasks)
    for task in todo:
        task.cancel()
    await asyncio.gather(*todo, return_exceptions=True)
