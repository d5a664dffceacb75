"""Where the database is: what was given, else ONWARD_URL, else the embedded Postgres."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from onward import embedded
from onward.errors import InvalidInput
from onward.store.database import shown


@dataclass(frozen=True)
class Address:
    """A database's URL, and this process's share in the embedded server where it is that one."""

    url: str
    lease: embedded.Lease | None = None

    @property
    def shown(self) -> str:
        """For people."""
        return shown(self.url) if self.lease is None else f"the embedded Postgres of {self.lease.folder}"

    async def release(self) -> bool:
        """Whether that stopped the server."""
        return self.lease is not None and await asyncio.to_thread(self.lease.release)


async def resolve(url: str | None) -> Address:
    """Starts the embedded server where no URL is given."""
    url = url or os.environ.get("ONWARD_URL")
    if not url:
        lease = await asyncio.to_thread(embedded.acquire)
        return Address(lease.url, lease)
    if url.startswith(("postgres://", "postgresql://")):
        return Address(url)
    raise InvalidInput(f"this is no database URL: {shown(url)!r}; write postgresql://user@host/database")
