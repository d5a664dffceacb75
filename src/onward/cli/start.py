"""`onward start`: a run, by the name of its workflow."""

from __future__ import annotations

import sys
from typing import Any

import click

from onward.cli import forms
from onward.cli.arguments import json_value
from onward.cli.options import Place, printing, reaching
from onward.client import Client, RunHandle
from onward.core import durations


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
            await _finish(run, patience, as_json)
        else:
            click.echo(forms.encoded(forms.run_form(await run.get())) if as_json else run.id)

    place.ask(work)


async def _finish(run: RunHandle[Any], timeout: float | None, as_json: bool) -> None:
    if sys.stderr.isatty():
        click.echo(f"run {run.id}", err=True)
    output = await run.result(timeout)
    click.echo(forms.encoded(forms.run_form(await run.get()) if as_json else output))
