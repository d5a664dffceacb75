"""Inputs on their way into the database: encoded, hashed, made searchable."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any
from uuid import UUID

import msgspec

from onward.authoring.definition import Workflow
from onward.client.payloads import Payloads, Told
from onward.core import ids, pointers
from onward.core.codec import PLAIN, canonical, codec, searchable
from onward.payloads.layout import Owner
from onward.store.runs import NewRun


def new_id() -> UUID:
    """Made here, so that a start that is repeated after a lost connection starts the same run."""
    return ids.uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def new_run(
    run_id: UUID,
    workflow: Workflow[Any, Any] | str,
    data: bytes,
    stored: bytes | None = None,
    *,
    version: int | None = None,
    key: str | None = None,
    retention: float | None = None,
    delay: float | None = None,
    trace: str | None = None,
) -> NewRun:
    """A `Workflow` brings its version and retention; for a name the database looks who serves it. `stored`: what is
    recorded in place of the input, where it lies outside; then nobody searches it."""
    if isinstance(workflow, Workflow):
        version = workflow.version if version is None else version
        if retention is None and version == workflow.version:
            retention = workflow.retention.total_seconds()
    digest = hashlib.sha256(canonical(data)).digest()
    small = stored is None or not pointers.is_pointer(stored)
    search = searchable(data) if small else None
    return NewRun(run_id, version, key, digest, data if stored is None else stored, search, retention, delay, trace)


def encode(workflow: Workflow[Any, Any] | str, value: Any) -> bytes:
    """The input as the workflow declares it; as plain JSON where only a name is known, or no input is taken. None
    stands for the default where there is one."""
    name = workflow if isinstance(workflow, str) else workflow.name
    if value is None and not isinstance(workflow, str) and workflow.input_optional:
        return b"null"
    how = PLAIN if isinstance(workflow, str) else workflow.input_codec
    return how.encode(value, f"the input of workflow {name!r}")


def encoded(value: Any, what: str) -> bytes:
    """A value about which nothing is declared but what it is."""
    plain = value is None or (isinstance(value, (str, int, float, list, tuple, dict)) and not hasattr(value, "_fields"))
    return (PLAIN if plain else codec(type(value))).encode(value, what)


def readable(value: Any) -> bytes:
    """An input that cannot be encoded, as JSON that shows a person what it was."""
    try:
        return msgspec.json.encode(value, enc_hook=repr)
    except Exception:  # whatever a user's object does when it is looked at
        return msgspec.json.encode(ascii(type(value)))


async def record(
    payloads: Payloads, tenant: str, workflow: str, run_id: UUID, data: bytes, told: Told | None = None
) -> bytes:
    """What is recorded for an input: itself, or a pointer once the object is there."""
    if payloads.keeps(data):
        return pointers.literal(data)
    owner = Owner(tenant, workflow, run_id)
    what = f"the input of workflow {workflow!r}"
    return await payloads.recorded(data, what, lambda layout: layout.input(owner), told=told)
