"""A process, or a part of one, that serves the application: a socket, uvicorn, and a stop in good order.

The socket is bound before anything else is done, so that a port that is taken is told in one line. On stopping, long
polls are answered at once, with the run as it is; other requests that are being answered get the grace time. No new
connection is accepted meanwhile, and clients ask again elsewhere, or when the server is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Generator
from types import TracebackType
from typing import Protocol, Self

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from onward.errors import InvalidInput, OnwardError
from onward.server.auth import Local, is_loopback

_BACKLOG = 2048
_KEEP_ALIVE = 75
"""Seconds; longer than clients keep an idle connection, so that they never use one that is just being closed."""


class PortTaken(OnwardError):
    """Somebody else listens there."""


class Stoppable(Protocol):
    """An ASGI application that is told when the stop begins."""

    def stop(self) -> None: ...
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Serving:
    """`app` on one address: `async with` it, or `start` and `stop`, which may be called twice and waits for the end."""

    def __init__(self, app: Stoppable, listening: socket.socket, *, local: bool = False, grace: float = 25.0) -> None:
        self.app, self._socket = app, listening
        config = uvicorn.Config(
            _asgi(app, local),
            loop="none",
            http="auto",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=max(1, round(grace)),
        )
        self._server = _Server(config, app)
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        """Returns when it answers."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="onward-rest")
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait((ready, self._task), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._task
            raise OnwardError("the server could not be started")

    async def stop(self) -> None:
        self._server.should_exit = True
        await self.wait()

    async def wait(self) -> None:
        """For its end."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class _Server(uvicorn.Server):
    """Signals are the caller's; and long polls end when the stop begins, not when the grace time is over."""

    def __init__(self, config: uvicorn.Config, app: Stoppable) -> None:
        super().__init__(config)
        self._app = app
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.stop()
        await super().shutdown(sockets)


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """A socket that is bound: `PortTaken`, `InvalidInput` for an address that this machine has not."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"there is no address {host!r}: {error}") from error
    # by its number: asyncio sends small answers at once (TCP_NODELAY) only where it sees that it is TCP
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} of {host} is taken: give another one with {option}") from error
        raise InvalidInput(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listening.setblocking(False)
    return listening


def local_only(host: str) -> bool:
    """Can it be reached from this machine alone?"""
    if is_loopback(host):
        return True
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)  # noqa: S104  asked, not bound
    except (OSError, UnicodeError):
        return False
    return all(is_loopback(str(address[0])) for *_, address in found)


def _asgi(app: Stoppable, local: bool) -> ASGIApp:
    return Local(app) if local else app
