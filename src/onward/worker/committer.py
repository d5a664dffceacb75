"""Group commit: while one batch is on its way to disk, the next one collects.

One lane, one batch in flight. What is authoritative: the database's answer, item by item. A batch whose connection
broke may have been committed or not, so the very same items are sent again, before anything else, under a higher
number: the lane's row voids a copy that arrives late, rows that the first copy wrote are recognised by their receipt.
A worker that dies with a batch in flight loses nothing: either the batch commits or its steps run again.

An item that the database cannot take (nothing that the codec lets through should do that) must not fail its
neighbours: the batch is halved until the culprit is alone, and only that one is answered with `invalid`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import repeat
from typing import NamedTuple, Protocol, TypeVar

from onward.store.database import BROKEN, REFUSED, UNFIT
from onward.store.handouts import Answer, Answers, Ask, Batch, End, HandOuts, Result, WorkerDead

_log = logging.getLogger("onward")

MOST = 512
"""Items a batch: above that the insert's cost is linear, and answers only come later."""
BYTES = 8 << 20
"""Of the results in a batch, about: large values must not keep others waiting for long."""

LANE = 0
"""One lane a worker: the model covers two only thinly, and one keeps Postgres busier than one process can."""

_NEVER = datetime.min.replace(tzinfo=UTC)


class Sender(Protocol):
    """Who hands in items and is told what became of them."""

    @property
    def over(self) -> bool:
        """It has given up its run: what it handed in and was not sent yet is thrown away."""

    def answered_ask(self, ask: Ask, answer: Answer) -> None: ...
    def answered_result(self, result: Result, word: str, at: datetime) -> None: ...
    def answered_end(self, end: End, word: str, told: bool, at: datetime) -> None: ...
    def failed(self, error: Exception) -> None: ...


class Farewell:
    """Sends the last word for a run that is no longer in memory; whatever the answer, nothing follows."""

    over = False

    def answered_ask(self, ask: Ask, answer: Answer) -> None: ...
    def answered_result(self, result: Result, word: str, at: datetime) -> None: ...
    def answered_end(self, end: End, word: str, told: bool, at: datetime) -> None: ...
    def failed(self, error: Exception) -> None: ...


class Committer:
    """Collects what runs want written and flushes it. `stop` waits for what was handed in."""

    def __init__(
        self, store: HandOuts, worker: Callable[[], int], on_dead: Callable[[int], None], on_flush: Callable[[], None]
    ) -> None:
        self._store, self._worker, self._on_dead, self._on_flush = store, worker, on_dead, on_flush
        self._asks: list[tuple[Sender, Ask]] = []
        self._results: list[tuple[Sender, Result]] = []
        self._ends: list[tuple[Sender, End]] = []
        self._number = 0
        self._ready = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.tasks = [asyncio.create_task(self._run(), name="onward-committer")]

    async def drain(self) -> None:
        """Returns when everything that was handed in has been answered."""
        await self._idle.wait()

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def ask(self, sender: Sender, ask: Ask) -> None:
        self._asks.append((sender, ask))
        self._wake()

    def result(self, sender: Sender, result: Result) -> None:
        self._results.append((sender, result))
        self._wake()

    def end(self, sender: Sender, end: End) -> None:
        self._ends.append((sender, end))
        self._wake()

    def _wake(self) -> None:
        if not self._ready.is_set():
            self._ready.set()
            self._idle.clear()

    async def _run(self) -> None:
        while True:
            if (out := self._take()) is None:
                await asyncio.sleep(0)  # those who were just told go on first, and mostly hand in more
                out = self._take()
            if out is None:
                self._ready.clear()
                self._idle.set()
                await self._ready.wait()
                continue
            sending: _Sending | None = self._send(out)
            while sending is not None:
                parts = await sending
                following = self._take()
                # the next batch is on its way before the answers are dealt out: both sides have work
                sending = None if following is None else asyncio.ensure_future(self._send(following))
                for part, answers in parts:
                    part.deal(answers)
                self._on_flush()

    def _take(self) -> _Outgoing | None:
        while self._asks or self._results or self._ends:
            asks = _off(self._asks, MOST)
            results = _off(self._results, _fitting(self._results, MOST - len(asks)))
            ends = _off(self._ends, MOST - len(asks) - len(results))
            if asks or results or ends:  # else all of these have given up; there may be others behind them
                return _Outgoing(asks, results, ends)
        return None

    async def _send(self, out: _Outgoing) -> list[tuple[_Outgoing, Answers | None]]:
        """Answers for all of it, in parts where it had to be halved. None: this incarnation is dead."""
        batch = out.batch()
        pause = 0.02
        while True:
            self._number += 1
            worker = self._worker()
            try:
                return [(out, await self._store.commit(worker, LANE, self._number, batch))]
            except WorkerDead:
                self._on_dead(worker)
                return [(out, None)]
            except UNFIT as error:
                if len(batch) > 1:
                    first, second = out.halves()
                    return [*await self._send(first), *await self._send(second)]
                why = f"{type(error).__name__}: {error.args[0] if error.args else ''}"
                about = {"run_id": str(out.run_id())}
                _log.error("the database refused an item of run %s: %s", out.run_id(), why, extra=about)
                return [(out, _refused(out, why))]
            except (*BROKEN, REFUSED) as error:
                _log.warning("a batch is sent again: %s", error or type(error).__name__)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)


class _Outgoing(NamedTuple):
    """What goes out together, each item with its sender."""

    asks: list[tuple[Sender, Ask]]
    results: list[tuple[Sender, Result]]
    ends: list[tuple[Sender, End]]

    def batch(self) -> Batch:
        return Batch([a for _, a in self.asks], [r for _, r in self.results], [e for _, e in self.ends])

    def run_id(self) -> object:
        """Of the only item."""
        items: list[tuple[Sender, Ask | Result | End]] = [*self.asks, *self.results, *self.ends]
        return items[0][1].run_id

    def halves(self) -> tuple[_Outgoing, _Outgoing]:
        """Two parts in the same order: asks before results before ends."""
        cut = (len(self.asks) + len(self.results) + len(self.ends)) // 2
        asks, results = self.asks, self.results
        at = max(0, cut - len(asks))
        end = max(0, at - len(results))
        return (
            _Outgoing(asks[:cut], results[:at], self.ends[:end]),
            _Outgoing(asks[cut:], results[at:], self.ends[end:]),
        )

    def deal(self, answers: Answers | None) -> None:
        """Each sender is told. In the order in which rows were committed: asks, results, ends. A mistake that is made
        with one run must not keep the others from being told."""
        if answers is None:
            lost = [Answer("lost", [], [])] * len(self.asks)
            answers = Answers(_NEVER, lost, ["lost"] * len(self.results), None, ["lost"] * len(self.ends))
        for (sender, ask), answer in zip(self.asks, answers.asks, strict=True):
            if not sender.over:
                try:
                    sender.answered_ask(ask, answer)
                except Exception as error:
                    sender.failed(error)
        words, times = answers.results or repeat("ok"), answers.times or repeat(answers.at)
        for (sender, result), word, at in zip(self.results, words, times):  # noqa: B905  endless when all are ok
            if not sender.over:
                try:
                    sender.answered_result(result, word, at)
                except Exception as error:
                    sender.failed(error)
        for (sender, end), word in zip(self.ends, answers.ends or repeat("ok")):  # noqa: B905
            if not sender.over:
                try:
                    sender.answered_end(end, word, answers.told, answers.at)
                except Exception as error:
                    sender.failed(error)


_Sending = Awaitable[list[tuple[_Outgoing, Answers | None]]]

Item = TypeVar("Item")


def _off(queue: list[tuple[Sender, Item]], most: int) -> list[tuple[Sender, Item]]:
    """The first items of a queue, without those whose sender has given up."""
    if not queue:
        return []
    taken = queue[:most]
    del queue[:most]
    return [pair for pair in taken if not pair[0].over]


def _fitting(queue: list[tuple[Sender, Result]], most: int) -> int:
    """How many of the first results, one at least, make a batch of bearable size."""
    size = 0
    for count, (_, result) in enumerate(queue[:most]):
        size += len(result.output or result.error or b"")
        if size > BYTES:
            return max(count, 1)
    return most


def _refused(out: _Outgoing, why: str) -> Answers:
    asks = [Answer("invalid", [], []) for _ in out.asks]
    word = f"invalid: {why}"
    return Answers(_NEVER, asks, [word for _ in out.results], None, [word for _ in out.ends])
