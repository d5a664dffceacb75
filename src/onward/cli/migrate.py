"""`onward migrate`: the schema, brought up to this release."""

from __future__ import annotations

import asyncio

import click

from onward.cli import forms
from onward.cli.options import Place, printing, reaching_all_tenants
from onward.client.address import resolve
from onward.store import schema
from onward.store.health import examine


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@reaching_all_tenants
@printing
def migrate(dry_run: bool, place: Place, as_json: bool) -> None:
    """Create or upgrade the schema. Safe to run from many machines at once."""
    before, numbers = asyncio.run(_migrate(place.url, dry_run))
    after = schema.newest()
    if as_json:
        applied = bool(numbers) and not dry_run
        click.echo(forms.encoded({"from": before, "to": after, "migrations": numbers, "applied": applied}))
    elif not numbers:
        click.echo(f"already up to date (schema {after})")
    else:
        which = f"migration {numbers[0]}" if len(numbers) == 1 else f"migrations {numbers[0]} to {numbers[-1]}"
        click.echo(f"{'would apply' if dry_run else 'applied'} {which} (schema {before} to {after})")


async def _migrate(url: str | None, dry_run: bool) -> tuple[int, list[int]]:
    address = await resolve(url)
    try:
        async with examine(address.url) as health:
            before = await health.schema()
            return before, await health.migrate(dry_run=dry_run)
    finally:
        await address.release()
