"""Inputs on their way into the database: encoded, hashed, made searchable."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any
from uuid import UUID

from onward.authoring.definition import Workflow
from onward.core import ids
from onward.core.codec import PLAIN, canonical, searchable
from onward.errors import PayloadTooLarge
from onward.store.runs import NewRun

MAX_VALUE = 1 << 20
"""Bytes of a value in the database. Larger ones need the payload store."""


def new_id() -> UUID:
    """Made here, so that a start that is repeated after a lost connection starts the same run."""
    return ids.uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def new_run(
    run_id: UUID,
    workflow: Workflow[Any, Any] | str,
    data: bytes,
    *,
    version: int | None = None,
    key: str | None = None,
    retention: float | None = None,
    delay: float | None = None,
) -> NewRun:
    """A `Workflow` brings its version and retention; for a name the database looks who serves it."""
    if isinstance(workflow, Workflow):
        version = workflow.version if version is None else version
        if retention is None and version == workflow.version:
            retention = workflow.retention.total_seconds()
    digest = hashlib.sha256(canonical(data)).digest()
    return NewRun(run_id, version, key, digest, data, searchable(data), retention, delay)


def encode(workflow: Workflow[Any, Any] | str, value: Any) -> bytes:
    """The input as the workflow declares it; as plain JSON where only a name is known, or no input is taken. None
    stands for the default where there is one."""
    name = workflow if isinstance(workflow, str) else workflow.name
    if value is None and not isinstance(workflow, str) and workflow.input_optional:
        return b"null"
    codec = PLAIN if isinstance(workflow, str) else workflow.input_codec
    return fitting(codec.encode(value, f"the input of workflow {name!r}"), f"the input of workflow {name!r}")


def fitting(data: bytes, what: str) -> bytes:
    if len(data) > MAX_VALUE:
        raise PayloadTooLarge(
            f"{what} is {len(data):,} bytes long, the limit is {MAX_VALUE:,}: "
            "keep large values elsewhere and pass on where they are"
        )
    return data
