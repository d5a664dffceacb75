"""Starts that come while another is on its way to the database go there together, in one call and one transaction.

A start alone costs a commit and a notification, which all connections of the server take turns in; 32 clients that
start one run each would wait for 32 of them. So the first goes at once, and those that come meanwhile make up the
next call: alone nobody waits longer, together it costs hardly more than one
(`test_starts_that_come_together_go_together`).

Each start keeps its own answer. What the database cannot take, it refuses for the whole call; then each goes alone.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from onward.client import Client
from onward.errors import DatabaseUnavailable
from onward.store.database import REFUSED
from onward.store.runs import Begun, NewRun

TOGETHER = 500
TURNS = 4
"""Of the loop, before a call: requests that have arrived are read in them and come along. Alone one waits for
microseconds; of 32 at once, twice as many go together (28 in place of 14), which makes a quarter more a second."""


class _Start(NamedTuple):
    client: Client
    new: NewRun
    answer: asyncio.Future[Begun]


class Starts:
    """On their way, by tenant and workflow."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], list[_Start]] = {}
        self._senders: set[asyncio.Task[None]] = set()

    async def start(self, client: Client, workflow: str, new: NewRun) -> Begun:
        answer: asyncio.Future[Begun] = asyncio.get_running_loop().create_future()
        key = (client.tenant, workflow)
        start = _Start(client, new, answer)
        if key in self._waiting:
            self._waiting[key].append(start)
        else:
            self._waiting[key] = [start]
            sender = asyncio.create_task(self._send(key), name="onward-starts")
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return await answer

    async def close(self) -> None:
        """What is still on its way has had its time. Whether it arrives, nobody knows: who asked may ask again."""
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        for starts in self._waiting.values():
            _fail(starts, DatabaseUnavailable("this server has stopped: ask again"))
        self._waiting.clear()

    async def _send(self, key: tuple[str, str]) -> None:
        """Until nobody waits."""
        while self._waiting[key]:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            starts = self._waiting[key][:TOGETHER]
            await _begin(key[1], starts)
            del self._waiting[key][: len(starts)]
        del self._waiting[key]


async def _begin(workflow: str, starts: list[_Start]) -> None:
    try:
        begun = await starts[0].client.begin(workflow, [start.new for start in starts])
    except REFUSED as error:
        if len(starts) == 1:
            _fail(starts, error)
        for start in starts if len(starts) > 1 else ():
            await _begin(workflow, [start])
    except Exception as error:
        _fail(starts, error)
    else:
        for start, there in zip(starts, begun, strict=True):
            if not start.answer.done():
                start.answer.set_result(there)


def _fail(starts: list[_Start], error: Exception) -> None:
    for start in starts:
        if not start.answer.done():
            start.answer.set_exception(error)
