"""The server as an ASGI application, for `onward server` and for mounting in another one.

A mounted application is not told of its parent's start and end: so it connects when it is first asked, and lives with
whatever event loop asks it. Who wants it to end in good order holds it open (`async with api:`), or calls `close`.
"""

from __future__ import annotations

import asyncio
import re
from types import TracebackType
from typing import Self
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onward.client import traces
from onward.server import problems, reading
from onward.server.auth import ANYBODY
from onward.server.auth import auth as auth_of
from onward.server.calls import Call
from onward.server.duties import Rules
from onward.server.problems import Refused
from onward.server.service import Service
from onward.server.table import ROUTER

MOST_AT_ONCE = 10_000
"""Requests; a long poll is one of them. What comes beyond is told to come again."""

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")


def app(url: str | None = None, auth: str = "presence") -> App:
    """The REST server for the database at `url`, else ONWARD_URL, else the embedded Postgres.

    `auth`: `presence` (somebody in front has checked the Authorization header), `tokens` (`onward token create`), or
    `none` (everybody who reaches it may do everything).
    """
    return App(url, auth)


class App:
    """The ASGI application."""

    def __init__(self, url: str | None, auth: str) -> None:
        self._url, self._auth, self._rules = url, auth_of(auth), Rules.from_environment()
        self._service: Service | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._active = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def service(self) -> Service:
        """Of the running loop: connections cannot change theirs, and test clients bring a new one for each request."""
        loop = asyncio.get_running_loop()
        if self._service is None or self._loop is not loop:
            self._service, self._loop = Service(self._url, self._rules), loop
        return self._service

    def stop(self) -> None:
        """Long polls are answered at once, with the run as it is, and `/readyz` says that this server stops."""
        if self._service is not None:
            self._service.stopping.set()

    async def close(self) -> None:
        """May be called twice. What is asked afterwards connects again."""
        service, self._service = self._service, None
        if service is not None and self._loop is asyncio.get_running_loop():
            await service.close()

    # ---- ASGI ------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(Request(scope, receive), send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000, "reason": "there is no such route"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                traces.begin()
                self.service.duties.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.stop()
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, request: Request, send: Send) -> None:
        given = request.headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid4().hex
        path = _path(request.scope)
        traces.arrived.set(traces.valid(request.headers.get("traceparent")))
        self._active += 1
        try:
            answer = await self._answer(request, path)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:  # its grace time is over
            if self._service is None or not self._service.stopping.is_set():
                raise
            gone = Refused("unavailable", "this server stops, and what became of the request is not known: ask again")
            answer = problems.answer(gone, request_id, request.scope["path"])
        except Exception as error:
            answer = problems.answer(error, request_id, request.scope["path"])
        finally:
            self._active -= 1
        answer.headers["X-Request-Id"] = request_id
        await answer(request.scope, request.receive, send)

    async def _answer(self, request: Request, path: str) -> Response:
        if self._active > MOST_AT_ONCE:
            raise Refused("unavailable", f"{MOST_AT_ONCE:,} requests are being answered: ask again soon")
        service, found = self.service, ROUTER.find(path)
        route = None if found is None else found[0].methods.get("GET" if request.method == "HEAD" else request.method)
        if route is not None and route.scope is None:
            caller = ANYBODY
        else:  # what there is and what not is told to those who may ask
            caller = await self._auth(request.headers, service)
        if found is None:
            raise Refused("no-route", f"there is nothing at {path[:200]}: see /openapi.json")
        resource, parameters = found
        if route is None:
            allowed = resource.allowed
            raise Refused("method-not-allowed", f"{path[:200]} takes {allowed}", {"Allow": allowed})
        if route.scope is not None:
            caller.check(route.scope)
        query, filters = reading.query(route, request)
        body = await reading.body(route, request)
        client = service.client(caller.tenant)
        return await route.handler(Call(request, service, client, parameters, query, filters, body, caller.walled))


def _path(scope: Scope) -> str:
    """Below where this is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path
