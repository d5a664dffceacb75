"""`onward worker`: serves an app until it is told to stop."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import traceback
from typing import TYPE_CHECKING, Any, Self

import click

from onward.authoring.definition import Workflow
from onward.cli import apps, logs, samples
from onward.cli.options import Place, reaching_all_tenants
from onward.errors import DatabaseUnavailable
from onward.store.health import examine
from onward.worker.serving import Announced
from onward.worker.worker import Worker

if TYPE_CHECKING:
    from onward.server.serving import Serving

_log = logging.getLogger("onward")


class _Served(Announced):
    """A worker that says when it waits, is ready, and stops."""

    def __init__(self, workflows: list[Workflow[Any, Any]], url: str | None, **settings: Any) -> None:
        super().__init__(workflows, url, **settings)
        self._given = url
        self.metrics: socket.socket | None = None  # where they are served
        self._serving: Serving | None = None

    async def __aenter__(self) -> Self:
        if self._given is not None:
            await _knock(self._given)
        await super().__aenter__()
        if self.metrics is not None:
            await self._serve_metrics(self.metrics)
        return self

    async def _serve_metrics(self, listening: socket.socket) -> None:
        from onward.server.metrics import Exposition
        from onward.server.serving import Serving, local_only

        local = local_only(listening.getsockname()[0])
        self._serving = Serving(Exposition(self._database), listening, local=local, grace=1)
        await self._serving.start()
        _log.info("metrics on %s/metrics", self._serving.url)

    async def stop(self) -> None:
        _log.info("stopping: running steps may finish, everything else is handed back")
        serving, self._serving = self._serving, None
        if serving is not None:
            await serving.stop()
        await super().stop()
        _log.info("stopped")


@click.command()
@click.argument("app")
@click.option("--concurrency", type=int, default=1000, show_default=True, help="Runs in memory at the most.")
@click.option("--lease", default="30s", show_default=True, help="How long others wait before they take over.")
@click.option("--threads", type=int, help="Sync steps at the same time; default: CPUs + 4, at most 32.")
@click.option("--grace", default="25s", show_default=True, help="What running steps get when told to stop.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Serve GET /metrics and /healthz there; 0: any free one."
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address of --metrics-port.")
@click.option("--for-dev", is_flag=True, hidden=True)
@logs.formatted
@reaching_all_tenants
def worker(
    app: str,
    concurrency: int,
    lease: str,
    threads: int | None,
    grace: str,
    metrics_port: int | None,
    metrics_host: str,
    for_dev: bool,
    log_format: str,
    place: Place,
) -> None:
    """Execute runs of APP until told to stop.

    APP is a file, a module (every workflow in it), or module:object.

    Stops on SIGTERM or Ctrl-C: running steps get the grace time, everything else is handed back at once; a second
    one stops immediately. A worker serves all tenants.
    """
    logs.write(log_format)
    if for_dev:
        _end_with_parent()
    try:
        workflows = apps.load(app)
    except apps.AppError as error:
        if for_dev:
            _show(error)
        raise
    if for_dev:
        _log.info("start a run: onward start %s", samples.arguments(workflows[0]))
    served = _Served(workflows, place.url, concurrency=concurrency, lease=lease, threads=threads, grace=grace)
    if metrics_port is not None:
        from onward.server.serving import listen

        served.metrics = listen(metrics_host, metrics_port, "--metrics-port")
    _serve(served)


async def _knock(url: str) -> None:
    """A worker may be up before its database, and then waits for it; it should not do so without a word."""
    try:
        async with examine(url):
            pass
    except DatabaseUnavailable as error:
        _log.warning("%s; trying for half a minute", error)


def _serve(served: Worker) -> None:
    import uvloop

    uvloop.run(served.run())


def _end_with_parent() -> None:
    """`dev` holds the other end of stdin: when it is gone, however it went, this worker stops."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="onward-parent", daemon=True).start()


def _show(error: apps.AppError) -> None:
    """The user's own part of the traceback."""
    cause = error.__cause__
    if cause is not None:
        frames = "".join(traceback.format_list(apps.own_frames(cause)))
        click.echo(frames + "".join(traceback.format_exception_only(cause)).rstrip(), err=True)
