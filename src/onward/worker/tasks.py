"""Does a body consist of one task only?

Most do, most of the time, and then there is nothing to wait for: a body whose only task awaits a step has come to
rest. Knowing that makes a replay of a thousand steps several times as quick (rest.py would let 32 turns of the loop
pass after each). So tasks that are made in a body are counted, by a task factory that calls the one that was there
before. Where somebody replaces the factory later, nothing is known any more, and every body is given its 32 turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

body: ContextVar[Body | None] = ContextVar("onward_body", default=None)
"""Set in the body's own task; the tasks that it makes inherit it."""


class Body:
    """The tasks of one body, beside its own."""

    __slots__ = ("others",)

    def __init__(self) -> None:
        self.others = 0

    def _ended(self, _: asyncio.Task[Any]) -> None:
        self.others -= 1


class Counting:
    """The task factory of a loop in which workers run. Installed once, however many there are."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before: Callable[..., Any] | None = loop.get_task_factory()
        self._users = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        mine = body.get()
        if mine is None:
            return self._make(loop, coroutine, **options)
        mine.others += 1  # first: an eager task begins while it is made
        try:
            task = self._make(loop, coroutine, **options)
        except BaseException:
            mine.others -= 1
            raise
        task.add_done_callback(mine._ended)
        return task

    def _make(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        if self._before is None:
            return asyncio.Task(coroutine, loop=loop, **options)
        return self._before(loop, coroutine, **options)

    @classmethod
    def install(cls, loop: asyncio.AbstractEventLoop) -> Counting:
        there = loop.get_task_factory()
        if not isinstance(there, cls):
            there = cls(loop)
            loop.set_task_factory(there)
        there._users += 1
        return there

    def uninstall(self) -> None:
        self._users -= 1
        if self._users == 0 and self._loop.get_task_factory() is self:
            self._loop.set_task_factory(self._before)

    def knows_single(self, mine: Body) -> bool:
        """True where the body surely has no task beside its own."""
        return mine.others == 0 and self._loop.get_task_factory() is self
