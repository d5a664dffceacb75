"""The OpenAPI document, made of the routes and of the types that decode and encode: it says what the server does
because it is what the server does."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Raw

from onward.client.problems import KINDS, PREFIX
from onward.client.wire import Problem
from onward.server.calls import Call
from onward.server.routes import Answer, Route

_ANYBODY = ("invalid-input", "internal")
_ANY_ROUTE = (*_ANYBODY, "unauthorized", "forbidden", "not-found", "invalid-name", "database-unavailable")

_WORD = "[A-Za-z0-9_-]{1,20}"
_PATTERN = f"^({_WORD}|\\*|#)(\\.({_WORD}|\\*|#)){{0,9}}$"

PARAMETERS: dict[str, tuple[str, dict[str, Any]]] = {
    "name": ("A workflow's name.", {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,42}$"}),
    "id": ("The id of a run, a message or a subscription.", {"type": "string", "format": "uuid"}),
    "event": ("An event's name.", {"type": "string", "minLength": 1, "maxLength": 256}),
    "key": ("A payload's key.", {"type": "string", "minLength": 1, "maxLength": 1024}),
    "queue": ("A queue's name.", {"type": "string", "pattern": "^[a-z0-9][a-z0-9_.-]{0,46}$"}),
    "topic": ("Words with dots between them.", {"type": "string", "pattern": f"^{_WORD}(\\.{_WORD}){{0,9}}$"}),
    "pattern": ("A topic, or with `*` for one word and `#` for any number.", {"type": "string", "pattern": _PATTERN}),
}
"""What stands in paths."""

_TENANT = {
    "name": "Onward-Tenant",
    "in": "header",
    "description": "Whose runs, where the token does not say. Default: `default`.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"},
}
_REF = "#/components/schemas/{name}"


def route(others: Sequence[Route]) -> Route:
    """The route of the document; it describes itself, too."""

    async def document(call: Call) -> Answer:
        """Read this document."""
        return Answer({**described, "servers": [{"url": call.root or "/"}]})

    itself = Route("GET", "/openapi.json", document, "read", {200: dict[str, Any]})
    described = describe((*others, itself))
    return itself


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    types = {
        _type(t): None for route in routes for t in (*route.answers.values(), route.body, Problem) if t is not None
    }
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Onward", "version": version("onward"), "description": "Durable workflows on Postgres."},
        "servers": [{"url": "/"}],
        "security": [{"authorization": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"authorization": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    kinds = (*(_ANYBODY if route.scope is None else _ANY_ROUTE), *route.problems)
    operation: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.summary,
        "description": route.description,
        "parameters": [*_path(route), *_query(route), *_headers(route)],
        "responses": {
            **{str(status): _response(t, schema_of[_type(t)]) for status, t in route.answers.items()},
            **_problems(kinds, schema_of[Problem]),
        },
    }
    if route.scope is None:
        operation["security"] = []
    else:
        operation["description"] += f" Needs the scope `{route.scope}`."
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.optional,
            "content": {"application/json": {"schema": schema_of[_type(route.body)]}},
        }
    return operation


def _path(route: Route) -> list[dict[str, Any]]:
    found = ((name, *PARAMETERS[name]) for name in route.parameters)
    return [{"name": n, "in": "path", "required": True, "description": d, "schema": s} for n, d, s in found]


def _query(route: Route) -> list[dict[str, Any]]:
    own = msgspec.json.schema(route.query)["$defs"][route.query.__name__]
    found = [
        {"name": name, "in": "query", "required": name in own.get("required", ()), "schema": _given(field)}
        for name, field in own["properties"].items()
    ]
    if route.filters is not None:
        found.append(
            {
                "name": "input",
                "in": "query",
                "style": "form",
                "explode": True,
                "description": f"`{route.filters}PATH=VALUE`, any number of them.",
                "schema": {
                    "type": "object",
                    "propertyNames": {"pattern": "^input\\.[a-zA-Z0-9_.]+$"},
                    "additionalProperties": {"type": "string"},
                },
            }
        )
    return found


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is a text or is not there: null cannot be sent."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return {**kinds[0], **{key: said for key, said in schema.items() if key not in ("anyOf", "default")}}
    return schema


def _headers(route: Route) -> list[dict[str, Any]]:
    own = [
        {"name": name, "in": "header", "description": said, "schema": {"type": "string"}}
        for name, said in route.headers.items()
    ]
    return own if route.scope is None else [_TENANT, *own]


def _problems(kinds: Sequence[str], schema: Any) -> dict[str, Any]:
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(kinds):
        found.setdefault(str(KINDS[name].status), []).append(name)
    return {
        status: {
            "description": "; ".join(f"`{PREFIX}{name}`: {KINDS[name].title}." for name in names),
            "content": {"application/problem+json": {"schema": schema}},
        }
        for status, names in sorted(found.items())
    }


def _response(type_: Any, schema: Any) -> dict[str, Any]:
    kind = "text/plain" if type_ is str else "application/json"
    return {"description": "Done.", "content": {kind: {"schema": schema}}}


def _name(route: Route) -> str:
    name = route.handler.__name__
    return f"{name}_of_workflow" if "name" in route.parameters else name


def _type(type_: Any) -> Any:
    return Any if type_ is Raw or type_ is object else type_
