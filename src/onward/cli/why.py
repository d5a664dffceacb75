"""`onward why`: what a run waits for or why it stands still, and the command that helps."""

from __future__ import annotations

import click

from onward.cli import forms
from onward.cli.options import Place, printing, reaching
from onward.cli.paper import Line, Paper, clean
from onward.client import Client
from onward.client.why import Why, explain, gather
from onward.core import ids
from onward.errors import NotFound
from onward.store.runs import Runs


@click.command()
@click.argument("run_id", metavar="RUN_ID")
@reaching
@printing
def why(run_id: str, place: Place, as_json: bool) -> None:
    """Say what a run waits for, and which command helps."""

    async def work(client: Client) -> Why:
        facts = await gather(Runs(await client.database(), client.tenant), ids.parse(run_id))
        if facts is None:
            raise NotFound(f"no run {run_id} of tenant {place.tenant}")
        return explain(facts)

    told = place.ask(work)
    if as_json:
        click.echo(forms.encoded({"state": told.state, "text": told.text, "commands": list(told.commands)}))
        return
    lines: list[Line] = [[(clean(told.text), "")]]
    lines += [[("  $ ", "dim"), (command, "cyan")] for command in told.commands]
    Paper().put(lines)
