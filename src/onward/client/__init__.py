"""Starting, signalling, steering and reading runs; queues and topics."""

from onward.client.client import Client
from onward.client.handle import RunHandle
from onward.client.letters import Held, Message, Send
from onward.client.queues import Queue, QueueStats
from onward.client.records import Run, RunPage, SignalResult, Start, Step, WorkflowCounts

__all__ = [
    "Client",
    "Held",
    "Message",
    "Queue",
    "QueueStats",
    "Run",
    "RunHandle",
    "RunPage",
    "Send",
    "SignalResult",
    "Start",
    "Step",
    "WorkflowCounts",
]
