"""Onward: durable workflows for Python on the Postgres that people already have.

This is the whole public API, with `onward.errors`. Below it lie layers; an arrow never points up:

    cli                     the commands
    server                  REST
    worker                  claims runs, plays their bodies, commits what they did
    client                  starts, signals, steers and reads runs
    store │ payloads │ embedded │ authoring    SQL │ large values │ the Postgres that comes along │ writing workflows
    core                    pure: replay, retry, names, ids, durations, values
    errors
"""

from onward.authoring.context import Context
from onward.authoring.current import current_step
from onward.authoring.definition import Workflow, provide_serving
from onward.authoring.handoff import Handoff
from onward.authoring.workflow import workflow
from onward.client import Client, Run, RunHandle, RunPage, SignalResult, Start, Step, WorkflowCounts
from onward.core.ref import Ref
from onward.core.retry import Backoff, GiveUp, Retry, RetryAfter
from onward.worker.serving import serve
from onward.worker.worker import Worker

provide_serving(serve)

__all__ = [
    "Backoff",
    "Client",
    "Context",
    "GiveUp",
    "Handoff",
    "Ref",
    "Retry",
    "RetryAfter",
    "Run",
    "RunHandle",
    "RunPage",
    "SignalResult",
    "Start",
    "Step",
    "Worker",
    "Workflow",
    "WorkflowCounts",
    "current_step",
    "serve",
    "workflow",
]
