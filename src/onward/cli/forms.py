"""Runs, steps and workers as JSON: the keys of the REST interface."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from onward.client import Run, Step
from onward.core import durations
from onward.core.codec import PLAIN, Ref
from onward.store.runs import WorkerRecord


def encoded(value: Any) -> str:
    """On one line. Integers of any size come out as they went in."""
    return PLAIN.encode(value_form(value), "what is to be printed").decode()


def value_form(value: Any) -> Any:
    """A run's or step's value; a pointer where it lies outside."""
    if not isinstance(value, Ref):
        return value
    p = value.pointer
    return {"$payload": {"key": p.key, "sha256": p.sha256, "size": p.size, "contentType": p.content_type}}


def run_form(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "workflow": run.workflow,
        "version": run.version,
        "tenant": run.tenant,
        "status": run.status,
        "state": run.state,
        "reason": run.reason,
        "input": value_form(run.input),
        "output": value_form(run.output),
        "error": run.error,
        "metadata": dict(run.metadata),
        "idempotencyKey": run.idempotency_key,
        "rerunOf": run.rerun_of,
        "retention": _duration(run.retention),
        "startedAt": moment(run.started_at),
        "completedAt": moment(run.completed_at),
    }


def step_form(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "parent": step.parent,
        "kind": step.kind,
        "status": step.status,
        "attempt": step.attempt,
        "output": value_form(step.output),
        "error": step.error,
        "startedAt": moment(step.started_at),
        "completedAt": moment(step.completed_at),
    }


def worker_form(worker: WorkerRecord) -> dict[str, Any]:
    return {
        "id": worker.worker_id,
        "name": worker.name,
        "alive": worker.alive,
        "serves": list(worker.serves or ()),
        "owned": worker.owned,
        "startedAt": moment(worker.started_at),
        "silentFor": round(worker.silent_for, 3),
    }


def moment(when: datetime | None) -> str | None:
    """In UTC."""
    return None if when is None else when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _duration(span: timedelta | None) -> str | None:
    """As people write it; what that would round is given in seconds."""
    if span is None:
        return None
    shown = durations.show(span.total_seconds())
    return shown if durations.seconds(shown) == span.total_seconds() else f"{span.total_seconds():g}s"
