"""`onward server`: the REST interface, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal

import click

from onward.cli import logs
from onward.cli.options import Place, reaching_all_tenants
from onward.core import durations
from onward.errors import DatabaseUnavailable, InvalidInput
from onward.store.health import examine

_log = logging.getLogger("onward")

PORT = 8787


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any free one.")
@click.option(
    "--auth",
    type=click.Choice(["none", "presence", "tokens"]),
    default="presence",
    show_default=True,
    help="none: everybody, on loopback only. presence: an Authorization header must be there, and somebody in front "
    "checks it. tokens: see `onward token`.",
)
@click.option("--grace", default="25s", show_default=True, help="What running requests get when told to stop.")
@logs.formatted
@reaching_all_tenants
def server(host: str, port: int, auth: str, grace: str, log_format: str, place: Place) -> None:
    """Serve REST: /v1, described at /openapi.json.

    Stops on SIGTERM or Ctrl-C: running requests get the grace time, long polls are answered at once. Any number of
    servers may run side by side.
    """
    from onward.server.serving import local_only

    logs.write(log_format)
    local = auth == "none"
    if local and not local_only(host):
        raise InvalidInput(
            f"--auth none lets everybody who reaches {host} do everything: listen on 127.0.0.1, or take --auth tokens"
        )
    seconds = durations.seconds(grace, what="--grace")
    import uvloop

    uvloop.run(_serve(host, port, auth, local, seconds, place))


async def _serve(host: str, port: int, auth: str, local: bool, grace: float, place: Place) -> None:
    from onward.server.application import app
    from onward.server.serving import Serving, listen

    api = app(place.url, auth)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    listening = listen(host, port)
    try:
        await _knock(place.url)
        async with Serving(api, listening, local=local, grace=grace) as serving:
            gc.collect()
            gc.freeze()  # what was imported stays: the collector need not look at it again and again
            _log.info("serving REST on %s, auth: %s", serving.url, auth)
            await stop.wait()
            _log.info("stopping: running requests may finish")
    finally:
        listening.close()
    _log.info("stopped")


async def _knock(url: str | None) -> None:
    """A server may be up before its database; it should not be so without a word."""
    if url is None:
        return
    try:
        async with examine(url):
            pass
    except DatabaseUnavailable as error:
        _log.warning("%s; /readyz tells when it is there", error)
