"""`onward topic …`: publishing, and who gets it."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from onward.cli import forms, times
from onward.cli.arguments import json_value
from onward.cli.options import Place, printing, reaching
from onward.cli.paper import Paper, Span, table
from onward.client.topics import Subscription


@click.group()
def topic() -> None:
    """Publish to topics, and subscribe queues, addresses and workflows."""


@topic.command("publish")
@click.argument("name")
@click.argument("body", metavar="JSON|@FILE")
@click.option("--key", metavar="TEXT", help="An idempotency key: what was published under it is not published again.")
@reaching
@printing
def publish(name: str, body: str, key: str | None, place: Place, as_json: bool) -> None:
    """Publish to topic NAME. Prints how many subscriptions got it."""
    value = json_value(body, "the body")
    delivered = place.ask(lambda client: client.topics.publish(name, value, idempotency_key=key))
    click.echo(forms.encoded({"delivered": delivered}) if as_json else delivered)


@topic.command("subscribe")
@click.argument("pattern")
@click.option("--queue", metavar="NAME", help="A queue gets what is published.")
@click.option(
    "--http", "http_url", metavar="URL", help="It is posted to an address, signed by the Standard Webhooks scheme."
)
@click.option("--workflow", metavar="NAME", help="A run is started with it as input.")
@click.option("--secret", metavar="TEXT", help="Your own whsec_… for --http; else one is made, and shown this once.")
@reaching
@printing
def subscribe(
    pattern: str,
    queue: str | None,
    http_url: str | None,
    workflow: str | None,
    secret: str | None,
    place: Place,
    as_json: bool,
) -> None:
    """Subscribe a target to all topics of PATTERN: words with dots, `*` is one word, `#` any number. Prints the id."""
    targets = [
        *([{"type": "queue", "name": queue}] if queue is not None else []),
        *([{"type": "http", "url": http_url}] if http_url is not None else []),
        *([{"type": "workflow", "name": workflow}] if workflow is not None else []),
    ]
    if len(targets) != 1:
        raise click.UsageError("give one of --queue, --http and --workflow")
    if secret is not None:
        if http_url is None:
            raise click.UsageError("--secret belongs to --http")
        targets[0]["secret"] = secret
    made = place.ask(lambda client: client.topics.subscribe(pattern, targets[0]))
    if as_json:
        click.echo(forms.encoded(_form(made)))
        return
    click.echo(made.id)
    if made.secret is not None and secret is None:
        click.echo(f"its secret, shown this once: {made.secret}", err=True)


@topic.command("unsubscribe")
@click.argument("subscription_id", metavar="ID")
@reaching
def unsubscribe(subscription_id: str, place: Place) -> None:
    """End a subscription."""
    place.ask(lambda client: client.topics.unsubscribe(subscription_id))


@topic.command("list")
@click.argument("pattern", required=False)
@reaching
@printing
def list_subscriptions(pattern: str | None, place: Place, as_json: bool) -> None:
    """List the subscriptions, or those of exactly PATTERN."""
    found = place.ask(lambda client: client.topics.subscriptions(pattern))
    if as_json:
        click.echo(forms.encoded({"subscriptions": [_form(subscription) for subscription in found]}))
    elif not found:
        click.echo("no subscriptions", err=True)
    else:
        now, paper = datetime.now(UTC), Paper()
        heads = ("ID", "PATTERN", "TARGET", "SINCE", "WAITING", "TROUBLE")
        paper.put(table(heads, [_row(s, now) for s in found], max(paper.width, 140 if not paper.coloured else 0)))


def _row(subscription: Subscription, now: datetime) -> list[Span]:
    kind, place = subscription.target.values()
    return [
        (subscription.id, ""),
        (subscription.pattern, "bold"),
        (place if kind == "http" else f"{kind} {place}", ""),
        (times.ago(subscription.created_at, now), "dim"),
        (str(subscription.waiting) if kind == "http" else "", ""),
        (subscription.trouble or "", "red"),
    ]


def _form(subscription: Subscription) -> dict[str, object]:
    secret = {} if subscription.secret is None else {"secret": subscription.secret}
    return {
        "id": subscription.id,
        "pattern": subscription.pattern,
        "target": {**subscription.target, **secret},
        "createdAt": subscription.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "waiting": subscription.waiting,
        "trouble": subscription.trouble,
    }
