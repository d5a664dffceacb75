"""A real server on loopback, and requests to it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import httpx

from onward import Client, Worker
from onward.server import App, app
from onward.server.serving import Serving, listen

HEADERS = {"Authorization": "whoever"}


class Site:
    """A server, a client of its database, and a browser. Everything is closed at the end."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url = url
        self._stack = stack

    async def open(self, *, grace: float = 5, **options: Any) -> Site:
        self.client = await self._stack.enter_async_context(Client(self.url))
        self.app: App = app(self.url, **options)
        self.serving = Serving(self.app, listen("127.0.0.1", 0), grace=grace)
        await self._stack.enter_async_context(self.serving)
        self.http = await self._stack.enter_async_context(
            httpx.AsyncClient(base_url=self.serving.url, headers=HEADERS, timeout=20)
        )
        return self

    async def worker(self, *workflows: Any) -> Worker:
        return await self._stack.enter_async_context(Worker(workflows, self.url))

    async def remote(self, **options: Any) -> Client:
        return await self._stack.enter_async_context(Client(self.serving.url, token="whoever", **options))

    async def sql(self, statement: str, *args: Any) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetch(statement, *args)
        finally:
            await connection.close()


def refused(answer: Any, status: int, kind: str) -> str:
    """Its detail, which says what to do."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["type"], problem["status"]) == (f"/errors/{kind}", status)
    assert problem["requestId"] == answer.headers["x-request-id"]
    assert problem["title"]
    assert isinstance(problem["detail"], str)
    return problem["detail"]
