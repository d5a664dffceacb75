"""What a request cannot have, as `application/problem+json`: the type of the error, and in `detail` what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from onward.client.problems import KINDS, PREFIX, kind_of
from onward.client.wire import Problem

_log = logging.getLogger("onward.server")

_LATER = {"Retry-After": "1"}


class Refused(Exception):
    """A request that is answered by a problem of this kind."""

    def __init__(self, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind, self.headers = KINDS[kind], dict(headers or {})


def answer(error: Exception, request_id: str, path: str) -> Response:
    """The problem that an error is. A mistake of ours is told to the log, and nobody else."""
    headers: dict[str, str] = {}
    if isinstance(error, Refused):
        kind, headers, detail = error.kind, error.headers, str(error)
    else:
        kind, detail = kind_of(error), str(error)
    if kind.name == "internal":
        _log.error("request %s to %s failed", request_id, path, exc_info=error)
        detail = f"the server's log tells more of request {request_id}"
    if kind.status == 503:
        headers = {**_LATER, **headers}
    problem = Problem(PREFIX + kind.name, kind.title, kind.status, detail, instance=path, request_id=request_id)
    data = msgspec.json.encode(problem)
    return Response(data, kind.status, headers, media_type="application/problem+json")
