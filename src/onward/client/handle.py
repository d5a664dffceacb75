"""A run, held by whoever started it or knows its id."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from onward.client.records import Run, SignalResult, Step
from onward.core.codec import Codec
from onward.core.durations import Duration

T = TypeVar("T")


class Runner(Protocol):
    """The client, as a handle sees it."""

    async def get(self, run_id: str) -> Run: ...
    async def steps(self, run_id: str) -> list[Step]: ...
    async def signal(self, run_id: str, event: str, payload: Any = None, *, buffer: bool = True) -> SignalResult: ...
    async def cancel(self, run_id: str) -> Run: ...
    async def outcome(self, run_id: str, timeout: Duration | None, codec: Codec | None) -> Any: ...


class RunHandle(Generic[T]):
    """One run. `created` is false where an idempotency key found a run that was there."""

    __slots__ = ("_client", "_codec", "created", "id")

    def __init__(self, client: Runner, run_id: str, created: bool, codec: Codec | None) -> None:
        self.id = run_id
        self.created = created
        self._client = client
        self._codec = codec

    async def result(self, timeout: Duration | None = None) -> T:
        """The output. Raises RunFailed, RunCancelled, or TimeoutError when `timeout` has passed."""
        output: T = await self._client.outcome(self.id, timeout, self._codec)
        return output

    async def get(self) -> Run:
        return await self._client.get(self.id)

    async def steps(self) -> list[Step]:
        """The journal in its order, then what is pending."""
        return await self._client.steps(self.id)

    async def signal(self, event: str, payload: Any = None, *, buffer: bool = True) -> SignalResult:
        return await self._client.signal(self.id, event, payload, buffer=buffer)

    async def cancel(self) -> Run:
        return await self._client.cancel(self.id)

    def __repr__(self) -> str:
        return f"<RunHandle {self.id}>"
