"""All routes. Every other list of them is made of this one."""

from __future__ import annotations

from onward.server import health, metrics, openapi, payloads, queues, runs, topics
from onward.server.routes import Router

_ROUTES = (
    *runs.ROUTES,
    *queues.ROUTES,
    *topics.ROUTES,
    *payloads.ROUTES,
    *metrics.ROUTES,
    *health.ROUTES,
)

ROUTER = Router((*_ROUTES, openapi.route(_ROUTES)))
