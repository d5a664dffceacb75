"""Threads for sync steps, and for nothing else.

The worker's own work (the loop, the database, name look-ups) never queues behind a user's function: it runs in the
loop and in the loop's own executor. A slot is taken before a thread is asked for, so that an attempt's time runs
from when it begins, not from when it was queued; and a thread whose attempt has run out of time keeps its slot until
it returns, because nothing can stop it: the pool never grows past its size. Threads are daemons for that reason: one
that hangs must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

_Job = tuple[asyncio.Future[Any], contextvars.Context, Callable[..., Any], tuple[Any, ...]]


class Threads:
    """A bounded pool of daemon threads that hand their results back to the loop."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.busy = 0
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(size)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._started = 0

    async def slot(self) -> None:
        """Waits until a thread is free. Whoever has got a slot must call `run`, which gives it back, or `give_back`."""
        await self._slots.acquire()
        self.busy += 1

    def give_back(self) -> None:
        self.busy -= 1
        self._slots.release()

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Calls fn(*args) in a thread, with the caller's context variables. Cancelling drops the value only."""
        future = self._loop.create_future()
        if self._started < min(self.busy, self.size):
            self._started += 1
            threading.Thread(target=self._work, name=f"onward-step-{self._started}", daemon=True).start()
        self._jobs.put((future, contextvars.copy_context(), fn, args))
        return future

    def stop(self) -> None:
        """Threads end once they have returned; nobody waits for one that hangs."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, context, fn, args = job
            value, error = None, None
            try:
                value = context.run(fn, *args)
            except BaseException as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(self._done, future, value, error)
            except RuntimeError:  # the loop is closed: nobody is left to be told
                return
            del job, future, context, fn, args, value, error

    def _done(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self.give_back()
        if future.done():
            return  # the attempt was cancelled or ran out of time
        if error is None:
            future.set_result(value)
        else:
            if isinstance(error, StopIteration):  # a future refuses it
                error = RuntimeError(f"the step raised StopIteration({error.value!r})")
            future.set_exception(error)
