"""A route, declared once: the router, the reader of requests, the check of scopes and the OpenAPI document are all made
of it, so none of them can say something that another does not.

A new area of the API is a module with a tuple of these, and a line in `table.py`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from starlette.responses import Response

from onward.server.calls import Call

Q = TypeVar("Q", bound=Struct)

LONG = frozenset({"event", "key"})
"""Parameters that may hold slashes: they stand last."""
_PARAMETER = re.compile(r"\{(\w+)\}")


class Nothing(Struct, forbid_unknown_fields=True):
    """The query of a route that takes none."""


class Answer(Response):
    """A value, as the route declared it."""

    media_type = "application/json"

    def __init__(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        data = value if isinstance(value, bytes) else msgspec.json.encode(value)
        super().__init__(data, status, headers)


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    """`scope` None: anybody may ask, without an Authorization header. `body`: a Struct, or Raw for any JSON; then an
    empty one is fine if `optional`. `headers`: those that the route reads, and what they are for."""

    method: str
    path: str
    handler: Handler
    scope: str | None
    answers: Mapping[int, Any]
    query: type[Struct] = Nothing
    filters: str | None = None
    body: Any = None
    optional: bool = False
    problems: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        return _PARAMETER.findall(self.path)

    @property
    def summary(self) -> str:
        assert self.handler.__doc__
        return self.handler.__doc__.partition(".")[0]

    @property
    def description(self) -> str:
        return " ".join((self.handler.__doc__ or "").split())


class Resource(NamedTuple):
    """All that can be done with one path."""

    path: re.Pattern[str]
    methods: dict[str, Route]

    @property
    def allowed(self) -> str:
        return ", ".join(sorted(self.methods))


class Router:
    """Finds the resource that a path names. The first that fits counts, as in the table."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        found: dict[str, Resource] = {}
        for route in routes:
            resource = found.setdefault(route.path, Resource(_compiled(route.path), {}))
            if route.method in resource.methods:
                raise ValueError(f"{route.method} {route.path} is declared twice")
            resource.methods[route.method] = route
        self._resources = tuple(found.values())

    def find(self, path: str) -> tuple[Resource, dict[str, str]] | None:
        for resource in self._resources:
            if found := resource.path.fullmatch(path):
                return resource, found.groupdict()
        return None


def _compiled(path: str) -> re.Pattern[str]:
    """What a parameter takes: no slash, and no colon where a verb may follow (`{id}:pause`)."""

    def pattern(found: re.Match[str]) -> str:
        name = found[1]
        return f"(?P<{name}>{'.+' if name in LONG else '[^/:]+' if name in ('id', 'queue') else '[^/]+'})"

    parts = _PARAMETER.split(path)
    texts = [re.escape(part) if i % 2 == 0 else f"{{{part}}}" for i, part in enumerate(parts)]
    return re.compile("".join(_PARAMETER.sub(pattern, t) if i % 2 else t for i, t in enumerate(texts)), re.DOTALL)
