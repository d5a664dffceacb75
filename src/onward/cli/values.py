"""`onward payload get-input`, `get-output`, `get` and `keep`: values of runs, wherever they lie."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from onward.cli import forms
from onward.cli.options import Place, printing, reaching
from onward.client import Client
from onward.client.payloads import Payloads
from onward.client.records import error_of
from onward.core import durations, ids, names, pointers
from onward.core.codec import PLAIN
from onward.errors import NotFound, OnwardError
from onward.payloads import contents
from onward.payloads.layout import EXTENSIONS, Owner
from onward.store.runs import RunRecord, StepRecord

Find = Callable[[Client], Awaitable[bytes]]
"""Finds what was journalled."""


class _Address(click.Command):
    """Has a --url of its own: followed by an address it names the database, as everywhere; alone it asks for one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        following = [*args[1:], ""]
        args = ["--presigned" if a == "--url" and "://" not in b else a for a, b in zip(args, following, strict=True)]
        return super().parse_args(ctx, args)


@dataclass(frozen=True)
class How:
    """What of a value is wanted, and where it goes."""

    form: str
    out: str | None
    expires: str

    @classmethod
    def of(cls, flags: dict[str, bool], out: str | None, expires: str) -> How:
        chosen = [form for form, wanted in flags.items() if wanted]
        if len(chosen) > 1:
            raise click.UsageError(f"choose one of --json, --raw, --pointer and --url, not {len(chosen)}")
        return cls(chosen[0] if chosen else "json", out, expires)


def _reading(command: Callable[..., None]) -> Callable[..., None]:
    """Gives the command the options that choose what is printed, as `how`."""

    @click.option("--json", "as_json", is_flag=True, help="The value as JSON, also where it is bytes: the default.")
    @click.option("--raw", is_flag=True, help="The object itself: text as text, bytes as bytes.")
    @click.option("--pointer", is_flag=True, help="Where it lies, its size and SHA-256.")
    @click.option(
        "--presigned",
        is_flag=True,
        help="An address that anybody may read it from for a while; or just --url, without an address behind it.",
    )
    @click.option("--expires", default="1h", show_default=True, metavar="DURATION", help="For how long.")
    @click.option("--out", metavar="FILE", help="Write to this file.")
    @functools.wraps(command)
    def with_how(
        *args: Any,
        as_json: bool,
        raw: bool,
        pointer: bool,
        presigned: bool,
        expires: str,
        out: str | None,
        **kwargs: Any,
    ) -> None:
        chosen = {"json": as_json, "raw": raw, "pointer": pointer, "url": presigned}
        return command(*args, how=How.of(chosen, out, expires), **kwargs)

    return with_how


@click.command("get-input", cls=_Address)
@click.argument("run_id", metavar="RUN_ID")
@_reading
@reaching
def get_input(run_id: str, how: How, place: Place) -> None:
    """Print a run's input, wherever it lies."""

    async def find(client: Client) -> bytes:
        return (await client.record(run_id)).input

    _print(place, how, find)


@click.command("get-output", cls=_Address)
@click.argument("run_id", metavar="RUN_ID")
@_reading
@reaching
def get_output(run_id: str, how: How, place: Place) -> None:
    """Print a run's output, wherever it lies."""

    async def find(client: Client) -> bytes:
        return _output(await client.record(run_id))

    _print(place, how, find)


@click.command("get", cls=_Address)
@click.argument("run_id", metavar="RUN_ID")
@click.argument("step")
@_reading
@reaching
def get(run_id: str, step: str, how: How, place: Place) -> None:
    """Print what STEP of a run gave, wherever it lies.

    STEP is written as `onward runs steps` shows it: "ship", or "ship / label" for a step inside another.
    """

    async def find(client: Client) -> bytes:
        return _value(run_id, _step(run_id, step, await client.step_records(run_id)))

    _print(place, how, find)


@click.command("keep")
@click.argument("run_id", metavar="RUN_ID")
@click.argument("step")
@click.argument("kind", metavar="TYPE")
@reaching
@printing
def keep(run_id: str, step: str, kind: str, place: Place, as_json: bool) -> None:
    """Copy what STEP of a run gave to where retention never reaches.

    Prints the copy's key, below artifacts/TYPE/.
    """

    async def work(client: Client) -> str:
        run = await client.record(run_id)
        found = _step(run_id, step, await client.step_records(run_id))
        data, owner = _value(run_id, found), Owner(client.tenant, run.workflow, ids.parse(run_id))
        await client.payloads.required("an artifact", writing=True)
        content, content_type = await _content(client.payloads, data)
        pointer = await client.payloads.create(
            lambda at: at.artifact(owner, kind, found.path, EXTENSIONS[content_type]), content, content_type
        )
        return pointer.key

    key = place.ask(work)
    click.echo(forms.encoded({"key": key}) if as_json else key)


def _print(place: Place, how: How, find: Find) -> None:
    async def work(client: Client) -> bytes:
        return await _wanted(client.payloads, how, await find(client))

    data = place.ask(work)
    if how.out is not None:
        _write(Path(how.out), data)
    else:
        click.echo(data if how.form == "raw" else data.decode(), nl=how.form != "raw")


async def _wanted(payloads: Payloads, how: How, data: bytes) -> bytes:
    if how.form == "json":
        return (await payloads.whole(data)).strip()
    if how.form == "raw":
        return (await _content(payloads, data))[0]
    if not pointers.is_pointer(data):
        raise OnwardError("this value lies in the database itself: it has no pointer, and no address")
    return data.strip() if how.form == "pointer" else (await _address(payloads, data, how.expires)).encode()


async def _content(payloads: Payloads, data: bytes) -> tuple[bytes, str]:
    """What an object with this value holds, and its content type."""
    if pointers.is_pointer(data):
        pointer = pointers.decode(data)
        return await payloads.read(pointer), pointer.content_type
    data = data.strip()
    return contents.content(data, PLAIN.decode(data))


async def _address(payloads: Payloads, data: bytes, expires: str) -> str:
    span = timedelta(seconds=durations.seconds(expires, what="--expires"))
    pointer = pointers.decode(data)
    place = await payloads.required(f"the payload {pointer.key}")
    if await place.objects.head(pointer.key) is None:
        raise NotFound(f"the payload {pointer.key} is not in {place.objects.address}")
    address = await place.objects.url(pointer.key, span)
    if address is None:
        raise OnwardError(f"{place.objects.address} is a folder, which gives no addresses: take --raw, with --out FILE")
    return address


def _step(run_id: str, wanted: str, steps: Sequence[StepRecord]) -> StepRecord:
    found = [step for step in steps if wanted in (step.path, names.readable(step.path))]
    if not found:
        raise NotFound(f"run {run_id} has no step {wanted!r}: `onward runs steps {run_id}` lists them")
    return found[0]


def _value(run_id: str, step: StepRecord) -> bytes:
    if step.output is not None:
        return step.output
    error = error_of(step.error) or {}
    why = f"it is {step.status}" if step.completed_at is None else f"it failed: {error.get('type')}: {error['message']}"
    raise NotFound(f"step {names.shown(step.path)} of run {run_id} gave nothing: {why}")


def _output(run: RunRecord) -> bytes:
    if run.output is not None:
        return run.output
    why = f"it is {run.state}" if run.status == "running" else f"it {'was ' * (run.status == 'cancelled')}{run.status}"
    raise NotFound(f"run {run.run_id} has no output: {why}")


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise OnwardError(f"cannot write {path}: {error.strerror}") from error
