"""Starting, signalling, steering and reading runs."""

from onward.client.client import Client
from onward.client.handle import RunHandle
from onward.client.records import Run, RunPage, SignalResult, Start, Step, WorkflowCounts

__all__ = ["Client", "Run", "RunHandle", "RunPage", "SignalResult", "Start", "Step", "WorkflowCounts"]
