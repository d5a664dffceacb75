"""`onward workers`: who is there, and what they serve."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from onward.cli import forms, times
from onward.cli.options import Place, printing, reaching_all_tenants
from onward.cli.paper import Paper, Span, table
from onward.client.why import SILENT
from onward.store.runs import WorkerRecord


@click.command()
@reaching_all_tenants
@printing
def workers(place: Place, as_json: bool) -> None:
    """List the workers, what they serve and how many runs they hold."""
    found = place.ask(lambda client: client.workers())
    if as_json:
        click.echo(forms.encoded({"workers": [forms.worker_form(worker) for worker in found]}))
    elif not found:
        click.echo("no workers: start one with `onward worker APP`", err=True)
    else:
        paper = Paper()
        paper.put(table(("ID", "NAME", "STATE", "RUNS", "SINCE", "SERVES"), [_row(w) for w in found], paper.width))


def _row(worker: WorkerRecord) -> list[Span]:
    state, style = _state(worker)
    return [
        (str(worker.worker_id), "bold"),
        (worker.name, ""),
        (state, style),
        (str(worker.owned), ""),
        (times.ago(worker.started_at, datetime.now(UTC)), "dim"),
        (", ".join(worker.serves or ()), ""),
    ]


def _state(worker: WorkerRecord) -> tuple[str, str]:
    if worker.silent_for <= SILENT:
        return "alive", "green"
    silent = f"silent for {times.span(worker.silent_for)}"
    return (silent, "yellow") if worker.alive else (f"gone, {silent}", "red")
