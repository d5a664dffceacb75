"""What lives as long as the server and is used by all requests: the connections, starts on their way, and the word that
it is time to stop.

None of it is state: another server knows the same, and one that is killed loses nothing that was acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from functools import lru_cache
from typing import Any, TypeVar

from starlette.requests import Request

from onward.client import Client
from onward.server.duties import Duties, Rules
from onward.server.starts import Starts
from onward.store.tokens import Tokens

T = TypeVar("T")


class Service:
    """Belongs to one event loop. Connects when first used."""

    def __init__(self, url: str | None, rules: Rules) -> None:
        self._client = Client(url)
        self.duties = Duties(self._client, rules)
        self.client = lru_cache(maxsize=1024)(self._client.of)
        """The client of a tenant, over the connections that all tenants share."""
        self.starts = Starts()
        self.stopping = asyncio.Event()

    async def tokens(self) -> Tokens:
        return Tokens(await self._client.database())

    async def close(self) -> None:
        self.stopping.set()
        await self.duties.stop()
        await self.starts.close()
        await self._client.close()

    async def patiently(self, work: Coroutine[Any, Any, T], request: Request) -> T | None:
        """Waits for it, until the server stops or nobody waits for the answer any more: then it gives None."""
        working = asyncio.ensure_future(work)
        tasks = [working, *(asyncio.ensure_future(other) for other in (self.stopping.wait(), _gone(request)))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return None if working.cancelled() else working.result()


def _gone(request: Request) -> Awaitable[None]:
    async def wait() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return wait()
