"""Requests, read strictly: what a route does not know is refused, because it is a slip that would otherwise change the
answer without a word. A mistyped filter would list everything.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import Raw, Struct
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from onward.client import nesting, wire
from onward.core.codec import PLAIN
from onward.errors import InvalidInput
from onward.server.problems import Refused
from onward.server.routes import Route

BODY_LIMIT = wire.LARGEST
BODY_PATIENCE = 30.0
"""Seconds between two parts of a body."""

_LINGER = 0.5
_LATE = "nothing came"
_MOST_PARAMETERS = 100
_HINTS = {"metadata": " (metadata comes with a later release: leave it out)"}


def query(route: Route, request: Request) -> tuple[Any, dict[str, str]]:
    """The parameters that the route declares, and those with its prefix. An empty one counts as not given."""
    if not request.scope.get("query_string"):
        return _empty(route.query), {}
    try:
        pairs = parse_qsl(
            request.scope.get("query_string", b"").decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError as error:
        raise InvalidInput(f"the query cannot be read: {error}") from None
    plain: dict[str, str] = {}
    filters: dict[str, str] = {}
    for name, value in pairs:
        of_filter = route.filters is not None and name.startswith(route.filters)
        place, key = (filters, name[len(route.filters or "") :]) if of_filter else (plain, name)
        if key in place:
            raise InvalidInput(f"the parameter {name!r} is given twice")
        place[key] = value
    given = {name: value for name, value in plain.items() if value}
    known = _known(route.query)
    for name in plain:
        if name not in known:
            takes = ", ".join([*known, *([f"{route.filters}PATH"] if route.filters else [])])
            raise InvalidInput(f"there is no parameter {name!r}: this route takes {takes or 'none'}")
    return _fitting(given, route.query), filters


def _fitting(given: dict[str, str], type_: type[Struct]) -> Struct:
    try:
        return msgspec.convert(given, type_, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the query does not fit: {_lower(error)}") from None


@cache
def _empty(type_: type[Struct]) -> Struct:
    return _fitting({}, type_)


@cache
def _known(type_: type[Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(type_))


async def body(route: Route, request: Request) -> Any:
    """The body as the route declares it; None where it takes none, or an empty one may stand for nothing."""
    if route.body is None:
        return None
    data = await _bytes(request)
    if not data.strip(b" \t\r\n"):
        if route.optional:
            return None
        raise Refused("malformed", "the body is empty: send JSON, with Content-Type: application/json")
    _check_type(request.headers.get("content-type", ""))
    return decoded(data, route.body)


def decoded(data: bytes, type_: Any) -> Any:
    try:
        if type_ is Raw:
            return value(data)
        return nesting.decode(data, type_)
    except msgspec.ValidationError as error:
        hint = _HINTS.get(str(error).rpartition("`$")[2].rstrip("`").rpartition(".")[2], "")
        raise InvalidInput(f"the body does not fit: {_lower(error)}{hint}") from None
    except RecursionError:
        raise InvalidInput("the body is nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("malformed", f"the body is no JSON: {_lower(error)}") from None


def value(data: bytes | Raw) -> Any:
    """A value of the user's, as the engine reads it."""
    data = bytes(data)
    try:
        return PLAIN.decode(data)
    except InvalidInput as error:
        try:
            data.decode()
            msgspec.json.decode(data, type=Raw)
        except RecursionError:
            raise error from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Refused("malformed", f"this is no JSON: {error}") from None
        raise


async def _bytes(request: Request) -> bytes:
    """Counted as it comes: a length that is told may be wrong, and a chunked body tells none."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > BODY_LIMIT:
        raise await _too_large(request)
    parts, size = [], 0
    while True:
        message = await _next(request)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size > BODY_LIMIT:
            raise await _too_large(request)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def _next(request: Request) -> Message:
    """As `asyncio.timeout` would have it, at a quarter of its time: a body is mostly there already."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    late = loop.call_later(BODY_PATIENCE, task.cancel, _LATE)
    try:
        return await request.receive()
    except asyncio.CancelledError as error:
        if error.args != (_LATE,):
            raise
        task.uncancel()
        raise Refused("too-slow", f"nothing came for {BODY_PATIENCE:g} seconds", {"Connection": "close"}) from None
    finally:
        late.cancel()


async def _too_large(request: Request) -> Refused:
    """Takes a while what else comes, as much again: who is still sending when a connection is closed never reads
    why."""
    left = BODY_LIMIT
    with contextlib.suppress(TimeoutError):
        while left > 0:
            async with asyncio.timeout(_LINGER):
                message = await request.receive()
            left -= len(message.get("body", b""))
            if not message.get("more_body", False):
                break
    detail = f"a body has at most {BODY_LIMIT:,} bytes: keep the value elsewhere and send where it is"
    return Refused("body-too-large", detail, {"Connection": "close"})


def _check_type(given: str) -> None:
    if given == "application/json":
        return
    kind, *parameters = (part.strip().lower() for part in given.split(";"))
    charset = [p.partition("=")[2].strip('"') for p in parameters if p.startswith("charset=")]
    if not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
        raise Refused("unsupported-media-type", f"send Content-Type: application/json, not {given[:100] or 'none'}")
    if charset and charset[0] not in ("utf-8", "utf8"):
        raise Refused("unsupported-media-type", f"JSON is UTF-8, not {charset[0][:100]}")


def _lower(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]
