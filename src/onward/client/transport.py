"""Requests that ride out a restart of the server.

A client of our own would have to pool connections, keep them alive, speak TLS and know of proxies. httpx does; it takes
as long to import as all of Onward, so this module is imported when the first request is made.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping

import httpx

from onward.client.remote import Answered
from onward.errors import DatabaseUnavailable, InvalidInput
from onward.store.database import shown

PATIENCE = 30.0
"""Seconds for which a server that is away is asked again."""


class Transport:
    """One server, over as many connections as are waited on."""

    def __init__(self, url: str, token: str | None, is_away: Callable[[Answered], bool]) -> None:
        self._url, self._is_away = url, is_away
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # no limit: a wait for a result holds a connection for long, and others must not stand behind it
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30)
        self._http = httpx.AsyncClient(headers=headers, limits=limits)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,
    ) -> Answered:
        """Asks until the server itself answers, or has been away for too long."""
        pause, deadline = 0.05, math.inf
        while True:
            trouble: Exception | None = None
            try:
                response = await self._http.request(
                    method, self._url + path, params=query or None, content=body, headers=headers, timeout=timeout
                )
                answered = Answered(response.status_code, response.content)
                if not self._is_away(answered):
                    return answered
                why = f"it answers {answered.status}"
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise InvalidInput(f"this is no address of a server: {shown(self._url)} ({error})") from error
            except httpx.TransportError as error:
                why, trouble = str(error) or type(error).__name__, error
            deadline = min(deadline, time.monotonic() + PATIENCE)
            if time.monotonic() + pause > deadline:
                raise DatabaseUnavailable(f"cannot reach the server {shown(self._url)}: {why}") from trouble
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 1.0)
