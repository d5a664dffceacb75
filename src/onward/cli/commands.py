"""The list of commands."""

from __future__ import annotations

import click

from onward.cli.dev import dev
from onward.cli.doctor import doctor
from onward.cli.migrate import migrate
from onward.cli.payload import payload
from onward.cli.queue import queue
from onward.cli.runs import runs
from onward.cli.server import server
from onward.cli.start import start
from onward.cli.token import token
from onward.cli.topic import topic
from onward.cli.why import why
from onward.cli.worker import worker
from onward.cli.workers import workers


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="onward", message="onward %(version)s")
def onward() -> None:
    """Durable workflows for Python on Postgres.

    Without --url or ONWARD_URL, commands use the embedded Postgres: the nearest .onward folder from here upward,
    else one in your data directory.
    """


for command in (dev, worker, server, start, runs, queue, topic, payload, why, workers, token, doctor, migrate):
    onward.add_command(command)
