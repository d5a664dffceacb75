"""`onward token`: who may use a server that runs with `--auth tokens`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from onward.cli import forms, times
from onward.cli.options import Place, printing, reaching
from onward.cli.paper import Paper, Span, table
from onward.client import Client
from onward.core import durations, names
from onward.errors import NotFound
from onward.store.tokens import SCOPES, TokenRecord, Tokens, id_of


@click.group()
def token() -> None:
    """Make, list and revoke tokens for REST."""


@token.command()
@click.option("--scope", type=click.Choice(SCOPES), default="read", show_default=True, help="Each includes the former.")
@click.option("--expires", metavar="DURATION", help='When it ends: "90d", "1h". Default: never.')
@click.option("--note", metavar="TEXT", help="What it is for.")
@reaching
@printing
def create(scope: str, expires: str | None, note: str | None, place: Place, as_json: bool) -> None:
    """Make a token for the runs of --tenant.

    It is printed this one time: the database keeps a hash of it.
    """
    seconds = None if expires is None else durations.seconds(expires, what="--expires")
    tenant = names.tenant_name(place.tenant)

    async def work(client: Client) -> tuple[str, TokenRecord]:
        return await Tokens(await client.database()).create(tenant, scope, seconds=seconds, note=note)

    text, record = place.ask(work)
    if as_json:
        click.echo(forms.encoded({"token": text, **_form(record)}))
        return
    ends = f"until {forms.moment(record.expires_at)}" if record.expires_at else "until it is revoked"
    click.echo(text)
    click.echo(f"scope {scope} for tenant {tenant}, {ends}; it is not shown again", err=True)


@token.command("list")
@reaching
@printing
def list_(place: Place, as_json: bool) -> None:
    """List the tokens of --tenant. What they are is nowhere kept."""

    async def work(client: Client) -> list[TokenRecord]:
        return await Tokens(await client.database()).list(names.tenant_name(place.tenant))

    found = place.ask(work)
    if as_json:
        click.echo(forms.encoded({"tokens": [_form(record) for record in found]}))
    elif not found:
        click.echo(f"no tokens of tenant {place.tenant}: onward token create --tenant {place.tenant}", err=True)
    else:
        paper = Paper()
        paper.put(table(("ID", "SCOPE", "STATE", "MADE", "ENDS", "NOTE"), [_row(r) for r in found], paper.width))


@token.command()
@click.argument("name", metavar="ID")
@reaching
def revoke(name: str, place: Place) -> None:
    """End a token at once. ID is as `list` shows it, or the token itself."""

    async def work(client: Client) -> bool:
        return await Tokens(await client.database()).revoke(names.tenant_name(place.tenant), id_of(name))

    if not place.ask(work):
        raise NotFound(f"tenant {place.tenant} has no token {id_of(name)[:40]!r}: `onward token list` shows its tokens")


def _form(record: TokenRecord) -> dict[str, Any]:
    return {
        "id": record.token_id,
        "tenant": record.tenant,
        "scope": record.scope,
        "note": record.note,
        "live": record.live,
        "createdAt": forms.moment(record.created_at),
        "expiresAt": forms.moment(record.expires_at),
        "revokedAt": forms.moment(record.revoked_at),
    }


def _row(record: TokenRecord) -> list[Span]:
    state = "live" if record.live else "revoked" if record.revoked_at else "expired"
    return [
        (record.token_id, "bold"),
        (record.scope, ""),
        (state, "green" if record.live else "dim"),
        (times.ago(record.created_at, datetime.now(UTC)), "dim"),
        (forms.moment(record.expires_at) or "never", "dim"),
        (record.note or "", ""),
    ]
