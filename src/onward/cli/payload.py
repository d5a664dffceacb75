"""`onward payload …`: the payload store as a whole. What belongs to one run is in values.py."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import click

from onward.cli import forms
from onward.cli.options import Place, printing, reaching, reaching_all_tenants
from onward.cli.paper import Line, Paper
from onward.cli.sizes import size
from onward.cli.values import get, get_input, get_output, keep
from onward.client import Client, garbage, integrity
from onward.client.integrity import Damage
from onward.client.retention import Counts, remove_expired
from onward.core import durations
from onward.payloads import rules
from onward.payloads.objects import Stored
from onward.store.removals import Removable, Removals

_SILENCE = 5.0
"""Seconds after which long work says how far it has come."""


@click.group()
def payload() -> None:
    """Read, check and clean up what lies outside the database."""


for command in (get_input, get_output, get, keep):
    payload.add_command(command)


class _Progress:
    """Says on stderr how far long work has come."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()

    def say(self, text: str) -> None:
        if self._loop.time() - self._last > _SILENCE:
            self._last = self._loop.time()
            click.echo(text, err=True)


# ---- sweep --------------------------------------------------------------------------------------------------


@dataclass
class _Sweep:
    """What a sweep did, or would do."""

    removed: Counts = field(default_factory=Counts)
    removable: Removable | None = None
    looked_at: int = 0
    orphans: list[Stored] = field(default_factory=list)
    unsettled: list[Stored] = field(default_factory=list)
    outdated: list[Stored] = field(default_factory=list)


@payload.command("sweep")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@click.option(
    "--older-than", default="1d", show_default=True, metavar="DURATION",
    help="Younger objects are left: their rows may be on the way.",
)  # fmt: skip
@reaching_all_tenants
@printing
def sweep(dry_run: bool, older_than: str, place: Place, as_json: bool) -> None:
    """Delete what nobody needs any more, of all tenants.

    First the runs whose retention has passed, with their payloads. Then orphans: objects of runs that no row points to,
    as crashes leave them. In a folder also what has lain under tmp/ for ten days; a bucket has its own rules for that.
    """
    age = timedelta(seconds=durations.seconds(older_than, what="--older-than"))
    done = place.ask(lambda client: _swept(client, age, dry_run))
    if as_json:
        click.echo(forms.encoded(_sweep_form(done, dry_run)))
    else:
        Paper().put(_sweep_lines(done, dry_run))


async def _swept(client: Client, age: timedelta, dry_run: bool) -> _Sweep:
    database, done = await client.database(), _Sweep()
    payloads, progress = client.payloads, _Progress()
    if dry_run:
        done.removable = await Removals(database).count()
    else:
        done.removed = await remove_expired(database, payloads, told=lambda c: progress.say(f"{_removed(c)} so far"))
    async for part in garbage.sweep(database, payloads, older_than=age, dry_run=dry_run):
        done.looked_at += part.looked_at
        done.orphans += part.orphans
        done.unsettled += part.unsettled
        done.outdated += part.outdated
        progress.say(f"looked at {done.looked_at:,} objects so far, {_count(len(done.orphans), 'orphan')}")
    return done


def _sweep_lines(done: _Sweep, dry_run: bool) -> list[Line]:
    would = "would be " if dry_run else ""
    lines: list[Line] = []
    if done.removable is not None:
        runs, waiting = (_count(n, "run") for n in done.removable)
        lines.append([(f"{runs} past retention would be removed; of {waiting} only objects are left to delete", "")])
    else:
        lines.append([(_removed(done.removed), "")])
    for what, found, said in (
        ("orphan", done.orphans, f"{would}deleted"),
        ("object under tmp/", done.outdated, f"of more than {rules.TMP_DAYS} days {would}deleted"),
        ("unsettled object", done.unsettled, "left: no row points there, but the run goes on and may take it up again"),
    ):
        lines += [_object(stored) for stored in found]
        if found or what == "orphan":
            total = size(sum(stored.size for stored in found))
            lines.append([(f"{_count(len(found), what)} ({total}) {said}", "bold")])
    lines.append([(f"{_count(done.looked_at, 'object')} looked at", "dim")])
    return lines


def _sweep_form(done: _Sweep, dry_run: bool) -> dict[str, Any]:
    found = {name: [_stored(one) for one in getattr(done, name)] for name in ("orphans", "unsettled", "outdated")}
    expired = done.removable.expired if done.removable else done.removed.runs
    removed = {"runs": expired, "objects": done.removed.objects, "bytes": done.removed.size}
    return {"dryRun": dry_run, "removed": removed, "lookedAt": done.looked_at, **found}


def _stored(stored: Stored) -> dict[str, Any]:
    return {"key": stored.key, "size": stored.size, "modified": forms.moment(stored.modified)}


def _object(stored: Stored) -> Line:
    return [(f"  {size(stored.size):>8}  ", "dim"), (stored.key, "")]


def _removed(counts: Counts) -> str:
    return (
        f"{_count(counts.runs, 'run')} past retention removed, with {_count(counts.objects, 'object')} "
        f"({size(counts.size)})"
    )


# ---- verify -------------------------------------------------------------------------------------------------


@payload.command("verify")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Only so many pointers, at random.")
@click.option("--run", "run_id", metavar="RUN_ID", help="Only the pointers of this run.")
@click.option("--all-tenants", is_flag=True, help="Of all tenants, not only of --tenant.")
@reaching
@printing
def verify(sample: int | None, run_id: str | None, all_tenants: bool, place: Place, as_json: bool) -> int:
    """Read what the journal points to and compare size and SHA-256.

    Prints what is damaged or missing, and exits with 1 where anything is.
    """
    if run_id is not None and all_tenants:
        raise click.UsageError("--run names a run of --tenant: leave --all-tenants out")

    async def work(client: Client) -> tuple[int, int, list[Damage]]:
        progress, run, tenant = _Progress(), None, None if all_tenants else place.tenant
        if run_id is not None:
            run = (await client.record(run_id)).run_id
        checked, read, damaged = 0, 0, list[Damage]()
        database = await client.database()
        async for part in integrity.verify(database, client.payloads, tenant=tenant, run_id=run, sample=sample):
            checked, read = checked + part.pointers, read + part.size
            damaged += part.damaged
            if not as_json:
                Paper().put(_damage(damage) for damage in part.damaged)
            progress.say(f"{_count(checked, 'pointer')} ({size(read)}) checked so far, {len(damaged)} damaged")
        return checked, read, damaged

    checked, read, damaged = place.ask(work)
    if as_json:
        found = [{"run": str(d.run_id), "where": d.where, "key": d.key, "problem": d.problem} for d in damaged]
        click.echo(forms.encoded({"pointers": checked, "bytes": read, "damaged": found}))
    else:
        click.echo(f"{_count(checked, 'pointer')} ({size(read)}) checked, {len(damaged)} damaged or missing")
    return 1 if damaged else 0


def _damage(damage: Damage) -> Line:
    return [(f"run {damage.run_id}, {damage.where}: ", "bold"), (damage.problem, "red")]


# ---- lifecycle ----------------------------------------------------------------------------------------------


@payload.command("lifecycle")
@click.option("--apply", "applying", is_flag=True, help="Set them, where they are not set yet.")
@reaching_all_tenants
@printing
def lifecycle(applying: bool, place: Place, as_json: bool) -> None:
    """Print the rules that the bucket should have, as JSON.

    Versioning, and what is to be deleted by age: tmp/ after ten days, old versions after thirty. Other rules of the
    bucket stay as they are. A folder has no rules: `onward payload sweep` empties its tmp/.
    """

    async def work(client: Client) -> None:
        store = await client.payloads.required("a rule of the bucket", writing=applying)
        if not applying:
            wanted = rules.rules(store.objects.address, store.layout)
            click.echo(forms.encoded({"versioning": rules.VERSIONING, "rules": wanted}))
            return
        changed = await asyncio.to_thread(rules.apply, store.objects.address, store.layout)
        click.echo(forms.encoded({"changed": changed}) if as_json else "\n".join(changed) or "all is set already")

    place.ask(work)


def _count(number: int, what: str) -> str:
    name, space, rest = what.partition(" under ")
    return f"{number:,} {name}{'' if number == 1 else 's'}{space}{rest}"
