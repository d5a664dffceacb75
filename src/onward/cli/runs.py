"""`onward runs …`: list, show, steer and compare runs."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import click

from onward.cli import differences, forms, sizes, times
from onward.cli.arguments import json_value, loose_value, moment, pairs
from onward.cli.options import Place, printing, reaching
from onward.cli.paper import Line, Paper, Span, cut, table
from onward.cli.timeline import STATUS_STYLES, draw
from onward.client import Client, Run, RunPage, Step
from onward.client.records import run_of, step_of
from onward.client.why import for_tenant
from onward.core import ids
from onward.core.codec import Ref
from onward.errors import OnwardError
from onward.store.runs import Runs

_STATUSES = click.Choice(["running", "completed", "failed", "cancelled"])


@click.group()
def runs() -> None:
    """List, show, steer and compare runs."""


# ---- reading ------------------------------------------------------------------------------------------------


@runs.command("list")
@click.option("--workflow", "-w", metavar="NAME")
@click.option("--status", "-s", type=_STATUSES)
@click.option("--since", metavar="WHEN", help='Started then or later: 2026-05-01T12:00Z, or "2h" for two hours ago.')
@click.option("--until", metavar="WHEN", help="Started earlier than this.")
@click.option("--input", "-i", "wanted", multiple=True, metavar="PATH=VALUE", help="What the input holds: user.id=42.")
@click.option("--limit", type=int, default=50, show_default=True)
@click.option("--cursor", metavar="TEXT", help="Where the last page ended.")
@reaching
@printing
def list_runs(
    workflow: str | None,
    status: str | None,
    since: str | None,
    until: str | None,
    wanted: tuple[str, ...],
    limit: int,
    cursor: str | None,
    place: Place,
    as_json: bool,
) -> None:
    """List runs, newest first."""
    patterns = {path: loose_value(value) for path, value in pairs(wanted, "--input").items()} or None

    async def work(client: Client) -> RunPage:
        page: RunPage = await client.runs(
            workflow,
            status=status,
            since=moment(since),
            until=moment(until),
            input=patterns,
            cursor=cursor,
            limit=limit,
        )
        return page

    page = place.ask(work)
    if as_json:
        click.echo(forms.encoded({"runs": [forms.run_form(r) for r in page.runs], "nextCursor": page.next_cursor}))
        return
    if not page.runs:
        click.echo("no runs", err=True)
        return
    paper = Paper()
    heads = ("ID", "WORKFLOW", "STATE", "STARTED", "TOOK", "INPUT")
    paper.put(table(heads, [_row(run) for run in page.runs], max(paper.width, 120 if not paper.coloured else 0)))
    if page.next_cursor:
        click.echo(f"more with --cursor {page.next_cursor}", err=True)


def _row(run: Run) -> list[Span]:
    now = datetime.now(UTC)
    took = times.span((run.completed_at - run.started_at).total_seconds()) if run.completed_at else ""
    return [
        (run.id, ""),
        (f"{run.workflow}@{run.version}" if run.version else run.workflow, "bold"),
        (run.state, STATUS_STYLES.get(run.state, "cyan")),
        (times.ago(run.started_at, now), "dim"),
        (took, "dim"),
        (_short(run.input), ""),
    ]


@runs.command("show")
@click.argument("run_id", metavar="ID")
@reaching
@printing
def show(run_id: str, place: Place, as_json: bool) -> None:
    """Draw a run's journal as a timeline."""

    async def work(client: Client) -> None:
        run, steps = await client.record(run_id), await client.step_records(run_id)
        if as_json:
            found = [forms.step_form(step_of(step, client.payloads)) for step in steps]
            click.echo(forms.encoded({**forms.run_form(run_of(run, client.payloads)), "steps": found}))
            return
        standing = await Runs(await client.database(), client.tenant).standing(ids.parse(run_id))
        now = standing.asked_at if standing else datetime.now(UTC)
        paper = Paper()
        paper.put([[], *draw(run, steps, now, paper.width, paper.unicode)])

    place.ask(work)


@runs.command("steps")
@click.argument("run_id", metavar="ID")
@reaching
@printing
def steps(run_id: str, place: Place, as_json: bool) -> None:
    """List a run's steps: the journal, then what is pending."""
    found = place.ask(lambda client: client.steps(run_id))
    if as_json:
        click.echo(forms.encoded({"steps": [forms.step_form(step) for step in found]}))
    elif found:
        paper = Paper()
        paper.put(table(("STEP", "KIND", "STATUS", "ATTEMPT", "TOOK", "OUTPUT"), [_step_row(s) for s in found], 120))
    else:
        click.echo("no steps yet", err=True)


def _step_row(step: Step) -> list[Span]:
    path = f"{step.parent} / {step.name}" if step.parent else step.name
    took = times.span((step.completed_at - step.started_at).total_seconds()) if step.completed_at else ""
    said = f"{step.error['type']}: {step.error['message']}" if step.error else ""
    output = said or _short(step.output)
    style = "red" if step.status == "failed" else ""
    return [
        (path, "bold"),
        (step.kind, "dim"),
        (step.status, style),
        (str(step.attempt), ""),
        (took, "dim"),
        (output, style),
    ]


def _short(value: Any) -> str:
    """For a column: nothing, JSON, or where it lies."""
    if isinstance(value, Ref):
        return sizes.brief(value.pointer)
    return "" if value is None else forms.encoded(value)


# ---- steering -----------------------------------------------------------------------------------------------


@runs.command("signal")
@click.argument("run_id", metavar="ID")
@click.argument("event")
@click.argument("payload", required=False, metavar="[JSON|@FILE]")
@click.option("--no-buffer", is_flag=True, help="Only if the run waits for it now; else throw it away.")
@reaching
@printing
def signal(run_id: str, event: str, payload: str | None, no_buffer: bool, place: Place, as_json: bool) -> None:
    """Send EVENT to a run. Prints what became of it: resolved, buffered or dropped."""
    value = None if payload is None else json_value(payload, "the payload")
    result = place.ask(lambda client: client.signal(run_id, event, value, buffer=not no_buffer))
    why = for_tenant(f"onward why {run_id}", place.tenant)
    click.echo(forms.encoded({"outcome": result.outcome}) if as_json else _OUTCOMES[result.outcome].format(why=why))


_OUTCOMES = {
    "resolved": "resolved: the run was waiting for it",
    "buffered": "buffered: no wait matches it now, the next one that does gets it; `{why}` says what differs",
    "dropped": "dropped: no wait matches it now; `{why}` says what is waited for",
}


def _steering(name: str, done: str, text: str, steer: Callable[[Client, str], Awaitable[Run]]) -> None:
    """A command that does the same to each of some runs, and goes on where one refuses."""

    @runs.command(name, help=text)
    @click.argument("run_ids", metavar="ID…", nargs=-1, required=True)
    @reaching
    @printing
    def command(run_ids: tuple[str, ...], place: Place, as_json: bool) -> int:
        async def work(client: Client) -> tuple[list[Run], int]:
            changed, failed = [], 0
            for run_id in run_ids:
                try:
                    changed.append(await steer(client, run_id))
                except OnwardError as error:
                    if len(run_ids) == 1:
                        raise
                    failed += 1
                    print("onward:", error, file=sys.stderr)
            return changed, failed

        changed, failed = place.ask(work)
        if as_json:
            click.echo(forms.encoded({"runs": [forms.run_form(run) for run in changed]}))
        else:
            for run in changed:
                click.echo(f"{run.id} {done}")
        return 1 if failed else 0


_steering("cancel", "cancelled", "Cancel runs for good.", lambda client, run_id: client.cancel(run_id))
_steering(
    "pause",
    "paused",
    "Pause runs: no new step starts. Running ones are journalled, deadlines go on.",
    lambda client, run_id: client.pause(run_id),
)
_steering(
    "resume",
    "resumed",
    "Resume paused runs, and try parked ones again.",
    lambda client, run_id: client.resume(run_id),
)


@runs.command("rerun")
@click.argument("run_id", metavar="ID")
@click.option("--from-step", metavar="STEP", help="Keep what was journalled before this step.")
@click.option("--output", "outputs", multiple=True, metavar="STEP=JSON", help="Replace what a kept step gave.")
@reaching
@printing
def rerun(run_id: str, from_step: str | None, outputs: tuple[str, ...], place: Place, as_json: bool) -> None:
    """Start a new run with the same input. Prints its id."""
    given = {step: json_value(text, f"--output {step}") for step, text in pairs(outputs, "--output").items()} or None

    async def work(client: Client) -> None:
        run = await client.rerun(run_id, from_step=from_step, with_outputs=given)
        click.echo(forms.encoded(forms.run_form(await run.get())) if as_json else run.id)

    place.ask(work)


# ---- comparing ----------------------------------------------------------------------------------------------


@runs.command("diff")
@click.argument("a")
@click.argument("b")
@reaching
@printing
def diff(a: str, b: str, place: Place, as_json: bool) -> None:
    """Say where the journals of runs A and B part."""

    async def work(client: Client) -> tuple[differences.Side, differences.Side]:
        sides = [differences.Side(await client.get(run_id), await client.steps(run_id)) for run_id in (a, b)]
        return sides[0], sides[1]

    sides = place.ask(work)
    parting = differences.part(*sides)
    if as_json:
        left, right = (None if step is None else forms.step_form(step) for step in (parting.a, parting.b))
        click.echo(forms.encoded({"same": parting.same, "a": left, "b": right, "differ": list(parting.differ)}))
    else:
        paper = Paper()
        paper.put(_told(sides, parting, paper.width))


def _told(sides: tuple[differences.Side, differences.Side], parting: differences.Parting, width: int) -> list[Line]:
    lines: list[Line] = [[(sentence, "bold")] for sentence in differences.tell(*sides, parting)]
    for letter, step, style in (("A", parting.a, "red"), ("B", parting.b, "green")):
        if parting.differ:
            lines.append([(f"  {letter}  ", f"bold {style}"), (cut(differences.shown(step), width - 6), style)])
    return lines
