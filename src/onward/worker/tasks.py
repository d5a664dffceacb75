"""Does a body consist of one task only?

Most do, most of the time, and then there is nothing to wait for: a body whose only task awaits a step has come to
rest. Knowing that makes a replay of a thousand steps several times as quick (rest.py would let 32 turns of the loop
pass after each). So tasks that are made in a body are counted, by a task factory that calls the one that was there
before. Where somebody replaces the factory later, nothing is known any more, and every body is given its 32 turns.

And in which order did they begin? Calls of one name are counted in the order in which they are made, which must be
the same on a replay. Mostly it is that of the results that the tasks were given. But tasks that have been given nothing
yet call in the order in which they began, and `asyncio.as_completed` puts coroutines into a set, whose order is that of
their addresses: there the second task that uses a name is refused, because a replay would mix them up.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from onward.errors import OnwardError

body: ContextVar[Body | None] = ContextVar("onward_body", default=None)
"""Set in the body's own task; the tasks that it makes inherit it."""


class Body:
    """The tasks of one body, beside its own."""

    __slots__ = ("_given", "_unordered", "_users", "others")

    def __init__(self) -> None:
        self.others = 0
        # tasks that begin in any order, and those that they have made, which begin in one order for each
        self._unordered: dict[asyncio.Task[Any], asyncio.Task[Any]] = {}
        self._users: dict[tuple[str, str], asyncio.Task[Any] | None] = {}  # whose a name is since the last result
        self._given = 0

    def use(self, parent: str, name: str, given: int) -> None:
        """The current task calls a step of this name, when the body has been given so many results."""
        if not self._unordered:
            return
        if given != self._given:
            self._users.clear()
            self._given = given
        task = asyncio.current_task()
        root = None if task is None else self._unordered.get(task)
        before = self._users.setdefault((parent, name), root)
        if root is not before and root is not None and before is not None:
            raise OnwardError(
                f"two coroutines that asyncio.as_completed has started call a step {name!r}. It starts them in any "
                "order, so a replay would mix them up: give it tasks, [asyncio.create_task(c) for c in coroutines], "
                "or name the steps apart"
            )

    def began(self, task: asyncio.Task[Any]) -> None:
        maker = asyncio.current_task()
        if _in_any_order():
            self._unordered[task] = task
        elif self._unordered and maker in self._unordered:
            self._unordered[task] = self._unordered[maker]

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.others -= 1
        self._unordered.pop(task, None)


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
        mine.began(task)
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


def _in_any_order() -> bool:
    """Is the task that is being made one of those that as_completed makes of coroutines?"""
    frame, depth = sys._getframe(1), 0
    while frame.f_back is not None and depth < 8:
        frame, depth = frame.f_back, depth + 1
        code = frame.f_code
        if code.co_name in ("as_completed", "__init__") and frame.f_globals.get("__name__") == "asyncio.tasks":
            return True
    return False
