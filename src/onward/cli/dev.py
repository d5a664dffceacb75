"""`onward dev`: a database, REST, and a worker that starts anew when the code changes; one process to stop.

The worker is a child, so that every start sees fresh modules and no reload leaves half of the old ones behind. It
is in a session of its own: Ctrl-C reaches this process alone, which stops it in order. Its stdin is a pipe from
here: when this process is gone, even by SIGKILL, the pipe ends and the worker stops by itself. REST is served by this
process, so it stays there while the worker comes and goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onward.cli import apps, logs
from onward.cli.options import Place, reaching_all_tenants
from onward.cli.server import PORT
from onward.client.address import Address, resolve
from onward.embedded.trouble import from_os
from onward.errors import DatabaseUnavailable
from onward.store.database import shown
from onward.store.health import examine

if TYPE_CHECKING:
    from onward.server.serving import Serving

GRACE = "2s"
"""What running steps get at a reload: they are executed again, and the developer is waiting."""


@click.command()
@click.argument("app")
@click.option("--port", type=click.IntRange(0, 65535), help=f"Where REST is served on 127.0.0.1; default: {PORT}.")
@logs.formatted
@reaching_all_tenants
def dev(app: str, port: int | None, log_format: str, place: Place) -> None:
    """Work on APP with a database, REST and a worker that reloads.

    The worker restarts when a .py file changes. Without --url the database is the embedded Postgres of the nearest
    .onward folder from here upward; where there is none it is created here.
    """
    logs.write(log_format, logging.WARNING)  # what is told at INFO is about files that changed, and is told here anyway
    asyncio.run(Dev(app, place, port, log_format).run())


class Dev:
    """One session at the desk."""

    def __init__(self, app: str, place: Place, port: int | None, log_format: str) -> None:
        self._app, self._place, self._port, self._log_format = app, place, port, log_format
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()
        self._child: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop.set)
        folder = _folder(self._app)
        if self._place.url is None:
            _have_folder()
        database = await resolve(self._place.url)
        try:
            await _check(database.url)
            async with contextlib.AsyncExitStack() as stack:
                rest = self._rest(database.url)
                if rest is not None:
                    await stack.enter_async_context(rest)
                self._greet(folder, database, rest)
                watching = asyncio.create_task(self._watch(folder))
                await self._serve()
                self._stop.set()
                await watching
        finally:
            await self._end_child()
            ended = await database.release()
        used = "; others still use its database" if database.lease else ""
        click.echo("bye: the worker and its database are stopped" if ended else f"bye: the worker is stopped{used}")

    def _rest(self, url: str) -> Serving | None:
        """For programs of this machine. None where another one listens on the usual port, another `dev` for
        instance."""
        from onward.server.application import app
        from onward.server.serving import PortTaken, Serving, listen

        try:
            listening = listen("127.0.0.1", PORT if self._port is None else self._port)
        except PortTaken as error:
            if self._port is not None:
                raise
            click.secho(f"REST is not served: {error}", fg="yellow", err=True)
            return None
        return Serving(app(url, "none"), listening, local=True, grace=2)

    def _greet(self, folder: Path, database: Address, rest: Serving | None) -> None:
        where = shown(database.url) + (f"  (embedded, in {database.lease.folder})" if database.lease else "")
        click.secho(f"onward dev {self._app}", bold=True)
        click.echo(f"  database  {where}")
        if rest is not None:
            click.echo(f"  REST      {rest.url}/v1, described at {rest.url}/openapi.json")
        click.echo(f"  reloads   when a .py file changes in {folder}")
        click.echo("  look in   onward runs list, onward runs show ID, onward why ID")
        click.echo("  Ctrl-C    stops everything\n")

    async def _serve(self) -> None:
        """A worker at a time, until told to stop."""
        while not self._stop.is_set():
            self._changed.clear()
            child = self._child = await self._start_child()
            if await self._first(child.wait()):
                continue
            if not self._stop.is_set():
                click.secho("the worker has ended; it starts again when a .py file changes", fg="yellow", err=True)
                await self._first(asyncio.Event().wait())

    async def _first(self, other: Any) -> bool:
        """Waits for `other`, a change or the stop. True: the code changed, and the old worker is gone."""
        tasks = [asyncio.ensure_future(w) for w in (other, self._changed.wait(), self._stop.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        if self._changed.is_set() or self._stop.is_set():
            await self._end_child()
        return self._changed.is_set()

    async def _start_child(self) -> asyncio.subprocess.Process:
        options = ["--for-dev", "--grace", GRACE, "--log-format", self._log_format]
        command = [sys.executable, "-m", "onward.cli", "worker", self._app, *options]
        env = dict(os.environ)
        if self._place.url:  # not on the command line, where every user of the machine could read the password
            env["ONWARD_URL"] = self._place.url
        return await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, start_new_session=True, env=env
        )

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is None or child.returncode is not None:
            return
        child.terminate()
        try:
            await asyncio.wait_for(child.wait(), 10)
        except TimeoutError:
            child.kill()
            await child.wait()

    async def _watch(self, folder: Path) -> None:
        from watchfiles import PythonFilter, awatch

        changes = awatch(
            folder, watch_filter=PythonFilter(), stop_event=self._stop, debounce=400, ignore_permission_denied=True
        )
        try:
            async for changed in changes:
                names = sorted({Path(path).name for _, path in changed})
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                click.secho(f"changed: {', '.join(names[:3])}{more}; the worker starts again", fg="cyan")
                self._changed.set()
        except (OSError, RuntimeError) as error:  # the system's limit of watched folders, for instance
            click.secho(f"cannot watch {folder}, so nothing reloads: {error}", fg="yellow", err=True)


async def _check(url: str) -> None:
    """A URL that cannot be meant ends this; a database that is away is waited for, by the worker."""
    with contextlib.suppress(DatabaseUnavailable):
        async with examine(url):
            pass


def _folder(app: str) -> Path:
    folder = apps.folder(app)
    where = app.rpartition(":")[0] or app
    if not folder.is_dir() or (where.endswith(".py") and not Path(where).is_file()):
        raise apps.AppError(f"there is no file {where}")
    return folder


def _have_folder() -> None:
    """`.onward` here, where there is none upward: the embedded server is found by it."""
    here = Path.cwd()
    if not any((above / ".onward").is_dir() for above in (here, *here.parents)):
        try:
            (here / ".onward").mkdir()
        except OSError as problem:
            raise from_os(problem, here) from problem
        click.echo(f"created {here / '.onward'} (add it to .gitignore)")
