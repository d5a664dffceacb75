"""`onward queue …`: messages of users, and what became of them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from onward.cli import forms, times
from onward.cli.arguments import json_value, pairs
from onward.cli.options import Place, printing, reaching
from onward.cli.paper import Line, Paper, Span, table
from onward.client import Client, Held, Message, QueueStats
from onward.client.queues import all_stats
from onward.core import queue_names
from onward.core.ref import Ref
from onward.errors import NotFound


@click.group()
def queue() -> None:
    """Send, receive and look after messages."""


@queue.command("list")
@reaching
@printing
def list_queues(place: Place, as_json: bool) -> None:
    """List the queues that have messages, those of runs included."""
    _show(place.ask(all_stats), as_json, many=True)


@queue.command("stats")
@click.argument("name")
@reaching
@printing
def stats(name: str, place: Place, as_json: bool) -> None:
    """Count the messages of queue NAME."""
    _show([place.ask(lambda client: client.queue(name).stats())], as_json, many=False)


@queue.command("send")
@click.argument("name")
@click.argument("body", metavar="JSON|@FILE")
@click.option("--group", metavar="TEXT", help="Messages of one group are handed out one after another.")
@click.option("--delay", metavar="DURATION", help='Hand it out later: "90s", "2h".')
@click.option("--header", "headers", multiple=True, metavar="NAME=TEXT")
@reaching
@printing
def send(
    name: str, body: str, group: str | None, delay: str | None, headers: tuple[str, ...], place: Place, as_json: bool
) -> None:
    """Send a message to queue NAME. Prints its id."""
    value, given = json_value(body, "the body"), pairs(headers, "--header")
    sent = place.ask(lambda client: client.queue(name).send(value, group=group, delay=delay, headers=given))
    click.echo(forms.encoded({"id": sent}) if as_json else sent)


@queue.command("receive")
@click.argument("name")
@click.option("--max", "most", type=int, default=1, show_default=True)
@click.option("--visibility", default="30s", show_default=True, metavar="DURATION", help="How long they are yours.")
@click.option("--wait", metavar="DURATION", help="Wait so long for the first one.")
@click.option("--match", metavar="JSON", help="Only messages whose body contains this.")
@click.option("--delete", is_flag=True, help="Delete them once they are printed.")
@reaching
@printing
def receive(
    name: str,
    most: int,
    visibility: str,
    wait: str | None,
    match: str | None,
    delete: bool,
    place: Place,
    as_json: bool,
) -> None:
    """Receive messages of queue NAME."""
    pattern = None if match is None else json_value(match, "--match")

    async def work(client: Client) -> None:
        source = client.queue(name)
        found = await source.receive(most, visibility=visibility, wait=wait, match=pattern)
        _print(found, as_json)
        if delete:
            await source.delete(*found)

    place.ask(work)


@queue.command("delete")
@click.argument("name")
@click.argument("message_id", metavar="ID")
@click.option("--receipt", type=int, required=True, metavar="N", help="That came with the message.")
@reaching
def delete(name: str, message_id: str, receipt: int, place: Place) -> None:
    """Delete a message of queue NAME that you have received."""
    if not place.ask(lambda client: client.queue(name).delete(Held(message_id, receipt))):
        raise NotFound(f"there is no message {message_id} in {name}")


@queue.command("purge")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@reaching
@printing
def purge(name: str, yes: bool, place: Place, as_json: bool) -> None:
    """Delete all messages of queue NAME, in hand or not. Prints how many."""
    queue_names.users_queue_name(name)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("this deletes messages for good: add --yes")
        click.confirm(f"Delete all messages of {name}?", abort=True, err=True)
    purged = place.ask(lambda client: client.queue(name).purge())
    click.echo(forms.encoded({"purged": purged}) if as_json else purged)


@queue.command("dead")
@click.argument("name")
@click.option("--max", "most", type=int, default=100, show_default=True)
@click.option("--resend", is_flag=True, help="Send them again, oldest first. Prints how many.")
@reaching
@printing
def dead(name: str, most: int, resend: bool, place: Place, as_json: bool) -> None:
    """Show the dead letters of queue NAME. Those of `webhooks` are HTTP deliveries."""
    if resend:
        sent = place.ask(lambda client: client.queue(name).resend_dead(most))
        click.echo(forms.encoded({"resent": sent}) if as_json else sent)
    else:
        _print(place.ask(lambda client: client.queue(queue_names.dead(name)).peek(most)), as_json)


# ---- for people, and for programs ---------------------------------------------------------------------------


def _show(found: list[QueueStats], as_json: bool, many: bool) -> None:
    if as_json:
        shown = [
            {
                "queue": q.queue,
                "ready": q.ready,
                "delayed": q.delayed,
                "inFlight": q.in_flight,
                "dead": q.dead,
                "oldest": _moment(q.oldest),
            }
            for q in found
        ]
        click.echo(forms.encoded({"queues": shown} if many else shown[0]))
    elif not found:
        click.echo("no messages", err=True)
    else:
        heads = ("QUEUE", "READY", "DELAYED", "IN FLIGHT", "DEAD", "OLDEST READY")
        now, paper = datetime.now(UTC), Paper()
        paper.put(table(heads, [_row(q, now) for q in found], paper.width))


def _row(q: QueueStats, now: datetime) -> list[Span]:
    counts = [(str(n), "") for n in (q.ready, q.delayed, q.in_flight)]
    oldest = times.ago(q.oldest, now) if q.oldest else ""
    return [(q.queue, "bold"), *counts, (str(q.dead), "red" if q.dead else ""), (oldest, "dim")]


def _print(messages: list[Message], as_json: bool) -> None:
    if as_json:
        click.echo(forms.encoded({"messages": [_form(message) for message in messages]}))
    elif not messages:
        click.echo("no messages", err=True)
    else:
        Paper().put(line for message in messages for line in _lines(message))


def _form(message: Message) -> dict[str, object]:
    return {
        "id": message.id,
        "body": _body(message),
        "headers": message.headers,
        "group": message.group,
        "readCount": message.read_count,
        "enqueuedAt": _moment(message.enqueued_at),
        "visibleAt": _moment(message.visible_at),
        "receipt": message.receipt,
    }


def _lines(message: Message) -> list[Line]:
    what = f"  group {message.group}" if message.group else ""
    head = f"  receipt {message.receipt}{what}" if message.receipt else what
    lines: list[Line] = [[(message.id, "bold"), (head, "dim")]]
    lines += [[(f"  {name}: {value}", "dim")] for name, value in message.headers.items()]
    return [*lines, [(f"  {forms.encoded(_body(message))}", "")]]


def _body(message: Message) -> object:
    """One that cannot be had, or was only looked at, is shown as where it lies."""
    body = message.body
    return {"$payload": {"key": body.key, "sha256": body.sha256, "size": body.size}} if isinstance(body, Ref) else body


def _moment(when: datetime | None) -> str | None:
    return None if when is None else when.astimezone(UTC).isoformat().replace("+00:00", "Z")
