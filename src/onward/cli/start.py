"""`onward start`: a run, by the name of its workflow."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from onward.cli import forms
from onward.cli.arguments import json_value
from onward.cli.options import LONG_PATIENCE, Place, printing, reaching
from onward.client import Client, Run, RunHandle
from onward.client.why import for_tenant
from onward.core import durations
from onward.errors import RunCancelled, RunFailed
from onward.store.database import shown


@click.command()
@click.argument("name")
@click.option("--input", "-i", "given", default="null", metavar="JSON", help="The input: JSON, @file, or @- for stdin.")
@click.option("--key", metavar="TEXT", help="An idempotency key: the same key and input give the same run.")
@click.option("--version", type=int, metavar="N", help="Default: the highest that a live worker serves.")
@click.option("--delay", metavar="DURATION", help='Start later: "90s", "2h", "1d".')
@click.option("--wait", is_flag=True, help="Wait for the end and print the output.")
@click.option("--timeout", metavar="DURATION", help="Wait no longer than this.")
@reaching
@printing
def start(
    name: str,
    given: str,
    key: str | None,
    version: int | None,
    delay: str | None,
    wait: bool,
    timeout: str | None,
    place: Place,
    as_json: bool,
) -> None:
    """Start a run of workflow NAME. Prints the run's id; with --wait its output."""
    if timeout is not None and not wait:
        raise click.UsageError("--timeout belongs to --wait")
    patience = None if timeout is None else durations.seconds(timeout, what="--timeout")  # before anything is started
    value = json_value(given, "--input")

    async def work(client: Client) -> None:
        run = await client.start(name, value, idempotency_key=key, version=version, delay=delay)
        if wait:
            (await client.database()).patience = LONG_PATIENCE
            await _finish(client, run, patience, as_json)
        elif as_json:
            click.echo(forms.encoded(forms.run_form(await run.get())))
        else:
            click.echo(run.id)
            await _warn(client, await run.get())

    place.ask(work)


async def _finish(client: Client, run: RunHandle[Any], timeout: float | None, as_json: bool) -> None:
    """Prints the output. Whoever stops waiting is told that the run does not stop."""
    if sys.stderr.isatty():
        click.echo(f"run {run.id}", err=True)
    goes_on = f"run {run.id} goes on: {for_tenant(f'onward why {run.id}', client.tenant)}"
    try:
        if not as_json:
            await _warn(client, await run.get())
        output = await run.result(timeout)
    except (RunFailed, RunCancelled):
        raise
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(goes_on, err=True)
        raise
    except Exception as error:
        error.add_note(goes_on)
        raise
    click.echo(forms.encoded(forms.run_form(await run.get()) if as_json else output))


async def _warn(client: Client, run: Run) -> None:
    if run.state == "stranded":
        what = f"version {run.version} of `{run.workflow}`" if run.version else f"`{run.workflow}`"
        where = shown((await client.database()).url)
        click.echo(f"no live worker serves {what} in {where}; the run waits for one", err=True)
