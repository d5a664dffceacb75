"""What a handler is given: the request, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from onward.client import Client
from onward.server.service import Service


@dataclass(frozen=True, slots=True)
class Call:
    """`client` is that of the caller's tenant; `query` and `body` are what the route declared; `filters` the parameters
    with the route's prefix. `body` is None where there was none. `walled`: for the caller there is no other tenant."""

    request: Request
    service: Service
    client: Client
    path: Mapping[str, str]
    query: Any
    filters: Mapping[str, str]
    body: Any
    walled: bool = False

    @property
    def root(self) -> str:
        """Where the server is mounted."""
        root: str = self.request.scope.get("root_path", "")
        return root
