"""What Prometheus scrapes: from the server, where it is a route like others, and from a worker that was given a port.

Both tell the whole fleet, so scraping one of them is enough. Of a server that checks tokens, a token's tenant reads
what is its own; who may read the fleet there is who may reach a worker's port, which asks nobody who they are.
"""

from __future__ import annotations

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onward.client import metrics, wire
from onward.server.calls import Call
from onward.server.routes import Route
from onward.store.database import TRANSIENT, Database


async def fleet(call: Call) -> Response:
    """Read the fleet's metrics, as Prometheus takes them. With a token: those of its tenant."""
    tenant = call.client.tenant if call.walled else None
    return _answer(await metrics.text(await call.client.database(), tenant))


def _answer(text: bytes) -> Response:
    return Response(text, headers={"content-type": metrics.CONTENT_TYPE})


ROUTES = (Route("GET", "/metrics", fleet, "read", {200: str}),)


class Exposition:
    """`/metrics` and `/healthz` alone, for a worker's port (see serving.py)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stop(self) -> None:
        """Nothing here takes long."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            answer = await self._answer(scope["path"]) if scope["method"] in ("GET", "HEAD") else Response("", 405)
            await answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})

    async def _answer(self, path: str) -> Response:
        if path == "/healthz":
            return Response(msgspec.json.encode(wire.Health("ok")), media_type="application/json")
        if path != "/metrics":
            return Response("there is /metrics and /healthz\n", 404)
        try:
            return _answer(await metrics.text(self._database))
        except TRANSIENT as error:
            return Response(f"the database does not answer: {type(error).__name__}\n", 503)
