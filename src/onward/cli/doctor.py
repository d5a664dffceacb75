"""`onward doctor`: is everything there that runs need, and what to do where it is not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import click

from onward.cli import forms, times
from onward.cli.options import PATIENCE, Place, printing, reaching_all_tenants
from onward.cli.paper import Line, Paper, clean
from onward.client.address import resolve
from onward.client.payloads import Payloads
from onward.client.payloads import Place as Store
from onward.client.why import SILENT
from onward.errors import DatabaseUnavailable, InvalidInput, OnwardError
from onward.payloads.layout import Layout
from onward.payloads.objects import Objects
from onward.payloads.settings import INLINE, Settings
from onward.payloads.trouble import StoreUnavailable
from onward.store import schema
from onward.store.database import Database, shown
from onward.store.health import Health, Server, Trouble, examine
from onward.store.runs import WorkerRecord

OK, WARN, FAIL = "ok", "warn", "FAIL"
_STYLES = {OK: "green", WARN: "yellow", FAIL: "bold red"}
_ROOM = 20
"""Connections that should be free: a few processes' pools."""


class Finding(NamedTuple):
    level: str
    what: str
    said: str
    advice: str | None = None


@click.command()
@reaching_all_tenants
@printing
def doctor(place: Place, as_json: bool) -> int:
    """Check the database, the workers and the runs of all tenants.

    Says what to do. Exits with 1 where something is broken.
    """
    findings = asyncio.run(_examined(place))
    if as_json:
        click.echo(forms.encoded({"findings": [finding._asdict() for finding in findings]}))
    else:
        Paper().put(line for finding in findings for line in _lines(finding))
    return 1 if any(finding.level == FAIL for finding in findings) else 0


def _lines(finding: Finding) -> Iterator[Line]:
    yield [
        (f"{finding.level:<5}", _STYLES[finding.level]),
        (f"{finding.what:<10}", "bold"),
        (clean(finding.said), ""),
    ]
    if finding.advice:
        yield [(" " * 15, ""), (f"→ {clean(finding.advice)}", "cyan")]


async def _examined(place: Place) -> list[Finding]:
    try:
        address = await resolve(place.url)
    except InvalidInput:  # wrong use, as for every command
        raise
    except OnwardError as error:
        return [Finding(FAIL, "database", str(error))]
    try:
        async with examine(address.url) as health:
            where = shown(address.url) if address.lease is None else f"embedded, in {address.lease.folder}"
            return [finding async for finding in _findings(health, address.url, where)]
    except InvalidInput:
        raise
    except DatabaseUnavailable as error:
        return [Finding(FAIL, "database", str(error), "is it running, and is the URL right? (--url, ONWARD_URL)")]
    except OnwardError as error:
        return [Finding(FAIL, "database", str(error))]
    finally:
        await address.release()


async def _findings(health: Health, url: str, where: str) -> AsyncIterator[Finding]:
    server = await health.server()
    yield database(server, where)
    yield connections(server)
    yield listening(await health.hears())
    number = await health.schema()
    yield fitting(number)
    yield threads()
    if number == schema.newest():
        yield await _keeping(url)
        workers = await health.workers()
        yield working(workers)
        for finding in standing_still(await health.troubles()):
            yield finding


async def _keeping(url: str) -> Finding:
    """Asks the payload store whether it works. Nothing is recorded: that is for who first writes to it."""
    database = Database(url, size=1, patience=PATIENCE, name="onward doctor")
    try:
        settings = Settings.from_environment()
        place = await Payloads(database, replace(settings, url=None, root=None)).place()
        if settings.url is not None and (place is None or not place.recorded):
            place = Store(Objects.open(settings.url), Layout(settings.root or "onward"), False)
        if place is None:
            return keeping(None, False)
        if place.recorded:
            await Payloads(database, settings).check_recorded()
        await place.objects.check(place.layout.probe)
        return keeping(place.objects.address, place.recorded)
    except (InvalidInput, StoreUnavailable) as error:
        return Finding(FAIL, "payloads", str(error))
    finally:
        await database.close()


# ---- one finding each: facts in, finding out ------------------------------------------------------------------------


def database(server: Server, where: str) -> Finding:
    said = f"Postgres {server.name.split()[0]}, {where}"
    if server.version < 15:
        return Finding(FAIL, "database", said, "Onward needs Postgres 15 or later: upgrade the server")
    if server.replica:
        return Finding(FAIL, "database", f"{said}: a read-only replica", "point --url to the primary")
    if not server.fsync:
        return Finding(WARN, "database", f"{said}: fsync is off", "a crash of the machine may lose journalled steps")
    return Finding(OK, "database", said)


def connections(server: Server) -> Finding:
    left = server.max_connections - server.connections
    said = f"{server.connections} of {server.max_connections} connections in use"
    if left < _ROOM:
        return Finding(WARN, "sessions", said, "raise max_connections, or run fewer workers (each takes up to 8)")
    return Finding(OK, "sessions", said)


def listening(heard: bool) -> Finding:
    if heard:
        return Finding(OK, "notify", "notifications arrive")
    advice = "connect past the pooler, or in its session mode; until then workers find work by polling every second"
    return Finding(WARN, "notify", "notifications do not arrive: a pooler that shares sessions?", advice)


def fitting(number: int) -> Finding:
    newest = schema.newest()
    if number == 0:
        return Finding(WARN, "schema", "there is none yet", "the first use creates it; or now: onward migrate")
    if number < newest:
        return Finding(FAIL, "schema", f"{number}, this release needs {newest}", "run once: onward migrate")
    if number > newest:
        advice = "another machine runs a newer Onward; upgrade here: pip install --upgrade onward"
        return Finding(FAIL, "schema", f"{number}, this release knows {newest}", advice)
    return Finding(OK, "schema", f"{number}, as this release needs")


def keeping(address: str | None, recorded: bool) -> Finding:
    if address is None:
        advice = "set ONWARD_PAYLOAD_URL: file:///folder, s3://bucket, gs://bucket or az://container"
        return Finding(WARN, "payloads", f"no store: values over {INLINE >> 20} MiB are refused", advice)
    said = f"{address} can be read and written"
    return Finding(OK, "payloads", said if recorded else f"{said}; not used yet")


def threads() -> Finding:
    cpus = os.cpu_count() or 1
    return Finding(OK, "threads", f"{cpus} CPUs here: a worker runs {min(32, cpus + 4)} sync steps at once (--threads)")


def working(workers: Sequence[WorkerRecord]) -> Finding:
    alive = [w for w in workers if w.alive and w.silent_for <= SILENT]
    silent = [w for w in workers if w not in alive]
    served = sorted({name for worker in alive for name in worker.serves or ()})
    if silent:
        who = ", ".join(f"{w.name} (silent for {times.span(w.silent_for)}, {w.owned} runs)" for w in silent[:3])
        advice = None if alive else "start one: onward worker APP; it frees what the dead ones hold"
        return Finding(WARN, "workers", f"{len(alive)} alive; not heard of: {who}", advice)
    if not alive:
        return Finding(WARN, "workers", "none: runs are accepted and wait", "start one: onward worker APP")
    return Finding(OK, "workers", f"{len(alive)} alive, serving {', '.join(served)}")


def standing_still(troubles: Sequence[Trouble]) -> Iterator[Finding]:
    if not troubles:
        yield Finding(OK, "runs", "none is stranded, parked, paused or held by a dead worker")
    for trouble in troubles:
        yield _standing_still(trouble)


def _standing_still(trouble: Trouble) -> Finding:
    tenant = "" if trouble.tenant == "default" else f" --tenant {trouble.tenant}"
    name = f"{trouble.workflow}@{trouble.version}" if trouble.version else trouble.workflow
    count = f"{trouble.runs} run{'' if trouble.runs == 1 else 's'} of {name}"
    ask = f"onward why {trouble.run_id}{tenant}"
    if trouble.trouble == "stranded":
        return Finding(WARN, "stranded", f"{count}: due, and no live worker serves it", f"start one that does; {ask}")
    if trouble.trouble == "parked":
        return Finding(WARN, "parked", f"{count}: {trouble.reason}", f"deploy code that fits, then resume; {ask}")
    if trouble.trouble == "held":
        return Finding(WARN, "held", f"{count}: their worker's lease has run out", f"start a worker; {ask}")
    return Finding(OK, "paused", f"{count}", f"onward runs resume {trouble.run_id}{tenant}")
