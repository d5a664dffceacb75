"""One request of a webhook: POST, and what came of it.

Over plain streams, because the address that was checked has to be the one that is connected to, with the certificate
checked against the host's name; HTTP clients resolve a name by themselves, a second time. It needs little of HTTP: one
request a connection, no redirects, and of the answer its status and, where it failed, the first bytes of its body.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from onward.worker.targets import Targets

_HEAD = 16_384
"""Bytes of an answer's status line and headers."""
_SHOWN = 300
"""Bytes of the body of an answer that says no, for people."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: ([^\r\n]*))?\r\n")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\uffff]+")


class Refusal(Exception):
    """The request was not made, or its answer was none."""


class Reply(NamedTuple):
    """`detail`: the reason, and how the body begins."""

    status: int
    detail: str


@dataclass(frozen=True)
class Poster:
    """Posts to allowed addresses only. `context`: for https; without one, the system's authorities are trusted."""

    targets: Targets = field(default_factory=Targets)
    timeout: float = 15.0
    context: ssl.SSLContext | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """`Refusal` where there was no answer."""
        parts = urlsplit(url)
        try:
            async with asyncio.timeout(self.timeout):
                return await self._post(parts, headers, body)
        except TimeoutError:
            raise Refusal(f"no answer within {self.timeout:g} seconds") from None
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError) as error:
            raise Refusal(f"{type(error).__name__}: {error}") from error

    async def _post(self, parts: SplitResult, headers: Mapping[str, str], body: bytes) -> Reply:
        reader, writer = await self._connect(parts)
        try:
            writer.write(_request(parts, headers, len(body)))
            writer.write(body)
            with contextlib.suppress(ConnectionError):  # it may have answered without reading all
                await writer.drain()
            return await _reply(reader)
        finally:
            writer.transport.abort()

    async def _connect(self, parts: SplitResult) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        problem: Exception | None = None
        for address in await self._addresses(host, port):
            try:
                return await asyncio.open_connection(
                    address,
                    port,
                    limit=_HEAD,
                    ssl=(self.context or _authorities()) if secure else None,
                    server_hostname=host if secure else None,
                )
            except OSError as error:
                problem = error
        raise problem or Refusal(f"{host} has no address")

    async def _addresses(self, host: str, port: int) -> list[str]:
        """What the host resolves to, if all of it may be connected to."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise Refusal(f"{host} cannot be resolved: {error}") from error
        addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
        for address in addresses:
            if not self.targets.allows(host, port, address):
                raise Refusal(
                    f"{host} leads into a network that webhooks must not reach ({address}); whoever runs Onward can "
                    "allow it in ONWARD_HTTP_TARGETS"
                )
        return addresses


def _request(parts: SplitResult, headers: Mapping[str, str], length: int) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"POST {target} HTTP/1.1", f"host: {parts.netloc}", *(f"{key}: {value}" for key, value in headers.items())]
    lines += [f"content-length: {length}", "connection: close", "", ""]
    return "\r\n".join(lines).encode("ascii")


async def _reply(reader: asyncio.StreamReader) -> Reply:
    for _ in range(5):
        head = await reader.readuntil(b"\r\n\r\n")
        found = _STATUS.match(head)
        if found is None:
            raise Refusal(f"the answer is not HTTP/1.1: {_readable(head[:60])}")
        status = int(found[1])
        if status >= 200:
            reason = _readable(found[2] or b"")
            body = b"" if status < 300 else await _beginning(reader)
            return Reply(status, ": ".join(filter(None, (reason, _readable(body)))))
    raise Refusal("the answer never came to an end")


async def _beginning(reader: asyncio.StreamReader) -> bytes:
    """Of the body; a server that breaks off has said enough."""
    data = b""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1):
            while len(data) < _SHOWN and (more := await reader.read(_SHOWN - len(data))):
                data += more
    return data


def _readable(data: bytes) -> str:
    return _UNPRINTABLE.sub(" ", data.decode("utf-8", "replace")).strip()


_default: list[ssl.SSLContext] = []


def _authorities() -> ssl.SSLContext:
    """Loading them takes some 20 ms: once a process."""
    if not _default:
        _default.append(ssl.create_default_context())
    return _default[0]
