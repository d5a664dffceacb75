"""What a client talks to: the database itself, or a server that talks to it (remote.py).

Both answer in the records of the store, so `Client` is written once: what a run is called, how values are encoded and
decoded, which error is raised, cannot differ between the two.
"""

from __future__ import annotations

import asyncio
import os
from typing import Protocol
from uuid import UUID

from onward.client import address, questions
from onward.client.payloads import Payloads
from onward.client.questions import Question
from onward.client.queues import Home, Queue
from onward.client.remote import Server, is_server
from onward.client.results import Results
from onward.client.topics import Topics
from onward.errors import InvalidInput
from onward.store.database import Database
from onward.store.runs import ResultRecord, RunRecord, Runs


class Link(Protocol):
    """Connects when first used, and again after `close`. Clients of several tenants may share one."""

    near: bool
    """The database itself. A server checks again what it is sent, and keeps large values by itself."""

    async def runs(self, tenant: str) -> Runs: ...
    async def page(self, tenant: str, question: Question) -> tuple[list[RunRecord], str | None]: ...
    async def wait(self, tenant: str, run_id: UUID, seconds: float | None) -> ResultRecord: ...
    async def database(self) -> Database: ...
    def queue(self, home: Home, name: str, max_receives: int | None) -> Queue: ...
    def topics(self, home: Home) -> Topics: ...
    async def close(self) -> None: ...

    @property
    def payloads(self) -> Payloads:
        """Known once it is connected."""


def link(url: str | None, token: str | None) -> Link:
    """By the URL that is given, else by ONWARD_URL."""
    given = url or os.environ.get("ONWARD_URL")
    if given and is_server(given):
        return Server(given, token)
    if token is not None:
        raise InvalidInput("a token is for a REST server (http://…); a database is opened by its URL alone")
    return Near(url)


class Near:
    """One database, with the waits and the payloads of this client."""

    near = True

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._address: address.Address | None = None
        self._database: Database | None = None
        self._results: Results | None = None
        self._payloads: Payloads | None = None
        self._opening = asyncio.Lock()

    async def runs(self, tenant: str) -> Runs:
        return Runs(await self.database(), tenant)

    async def page(self, tenant: str, question: Question) -> tuple[list[RunRecord], str | None]:
        return await questions.page(await self.runs(tenant), question)

    async def wait(self, tenant: str, run_id: UUID, seconds: float | None) -> ResultRecord:
        runs = await self.runs(tenant)
        assert self._results is not None
        return await self._results.wait(runs, run_id, seconds)

    def queue(self, home: Home, name: str, max_receives: int | None) -> Queue:
        return Queue(home, name, max_receives)

    def topics(self, home: Home) -> Topics:
        return Topics(home)

    async def database(self) -> Database:
        if self._database is not None:
            return self._database
        async with self._opening:
            if self._database is None:
                self._address = await address.resolve(self._url)
                self._database = Database(self._address.url, name="onward client")
                self._results = Results(self._database)
                self._payloads = Payloads(self._database)
            return self._database

    @property
    def payloads(self) -> Payloads:
        assert self._payloads is not None
        return self._payloads

    async def close(self) -> None:
        results, self._results = self._results, None
        self._payloads = None
        database, self._database = self._database, None
        place, self._address = self._address, None
        if results is not None:
            await results.close()
        if database is not None:
            await database.close()
        if place is not None:
            await place.release()
