"""Tokens: `onw_`, a public id, and a secret that is shown once and kept nowhere.

The secret has 256 bits of chance, so its plain SHA-256 cannot be turned back and needs no salt and no slow hash. A
token is looked up by its id; then the hashes are compared in constant time, against one that fits nothing where there
is no such token, so that an answer's time tells nothing. It is asked for at each request: a token that was revoked is
refused the next time, by every server.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from datetime import datetime
from typing import NamedTuple

from onward.store.database import Database

SCOPES = ("read", "signal", "write", "admin")
"""Each includes those before it."""

_FORM = re.compile(r"onw_([0-9a-f]{16})_([0-9a-f]{64})")
_NOBODY = bytes(32)


class Grant(NamedTuple):
    """What a token allows: this much, for this tenant."""

    tenant: str
    scope: str


class TokenRecord(NamedTuple):
    """`live`: neither expired nor revoked."""

    token_id: str
    tenant: str
    scope: str
    note: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    live: bool


class Tokens:
    """The tokens of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, tenant: str, scope: str, *, seconds: float | None = None, note: str | None = None
    ) -> tuple[str, TokenRecord]:
        """The token itself, this one time, and what is known of it."""
        token_id, secret = secrets.token_hex(8), secrets.token_hex(32)
        row = await self._database.fetchrow(
            "select * from onward.create_token($1, $2, $3, $4, $5, $6)",
            token_id,
            tenant,
            scope,
            _hash(secret),
            note,
            seconds,
        )
        assert row is not None
        record = TokenRecord(token_id, tenant, scope, note, row["created_at"], row["expires_at"], None, True)
        return f"onw_{token_id}_{secret}", record

    async def check(self, token: str) -> Grant | None:
        """What it grants now."""
        found = _FORM.fullmatch(token)
        if found is None:
            return None
        row = await self._database.fetchrow("select * from onward.find_token($1)", found[1])
        right = hmac.compare_digest(_hash(found[2]), _NOBODY if row is None else row["hash"])
        return Grant(row["tenant"], row["scope"]) if right and row is not None else None

    async def list(self, tenant: str) -> list[TokenRecord]:
        return [TokenRecord(*row) for row in await self._database.fetch("select * from onward.list_tokens($1)", tenant)]

    async def revoke(self, tenant: str, token_id: str) -> bool:
        done: bool = await self._database.fetchval("select onward.revoke_token($1, $2)", tenant, token_id)
        return done


def id_of(token: str) -> str:
    """Of a token, or of its id alone."""
    found = _FORM.fullmatch(token)
    return found[1] if found else token


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
