"""What all commands take: where the database is, for which tenant, and whether to print JSON."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from onward.client import Client

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

PATIENCE = 5.0
"""Seconds that a command tries to reach the database. A person waits; a worker waits longer."""
LONG_PATIENCE = 30.0
"""The same while it waits for something that takes long anyhow."""


@dataclass(frozen=True)
class Place:
    """Which database, and whose runs in it. No URL: the embedded Postgres."""

    url: str | None
    tenant: str

    def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Does `work` with a client of this place."""
        return asyncio.run(self._ask(work))

    async def _ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async with Client(self.url, tenant=self.tenant) as client:
            (await client.database()).patience = PATIENCE
            return await work(client)


def reaching(command: Callable[..., T], *, all_tenants: bool = False) -> Callable[..., T]:
    """Gives the command --url and --tenant, as `place`."""

    @click.option("--url", envvar="ONWARD_URL", metavar="URL", help="The database; default: the embedded Postgres.")
    @click.option(
        "--tenant", envvar="ONWARD_TENANT", default="default", metavar="NAME", help="Whose runs.", hidden=all_tenants
    )
    @functools.wraps(command)
    def with_place(*args: Any, url: str | None, tenant: str, **kwargs: Any) -> T:
        return command(*args, place=Place(url or None, tenant), **kwargs)

    return with_place


def reaching_all_tenants(command: Callable[..., T]) -> Callable[..., T]:
    """The same for a command to which tenants are one: it takes --tenant, as all do, and does not offer it."""
    return reaching(command, all_tenants=True)


def printing(command: Command) -> Command:
    """Gives the command --json, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)
