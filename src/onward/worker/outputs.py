"""What a run produces, on its way into the journal: small values as they are, large ones by pointer.

An object is written before anything of it is journalled. While the payload store does not answer, the step has done its
work and waits, still executing: nothing is lost but time, `onward why` says so, and only a crash repeats the step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from onward.authoring.engine import Work
from onward.client import inputs
from onward.client.payloads import Key, Payloads
from onward.core import ids, pointers
from onward.core.codec import PLAIN, Codec, Ref, Referred
from onward.core.names import shown
from onward.core.pointers import Pointer
from onward.core.replay import Call
from onward.payloads import contents
from onward.payloads.layout import EXTENSIONS, Owner
from onward.store.database import TRANSIENT
from onward.worker.execution import Execution

_log = logging.getLogger("onward")

T = TypeVar("T")


class Outputs:
    """Of one run."""

    __slots__ = ("_run",)

    def __init__(self, run: Execution) -> None:
        self._run = run

    @property
    def owner(self) -> Owner:
        out = self._run.out
        return Owner(out.tenant, self._run.workflow.name, out.run_id)

    @property
    def _payloads(self) -> Payloads:
        return self._run.host.payloads

    def ref(self, data: bytes, codec: Codec) -> Ref[Any]:
        """What the body gets for a pointer that was journalled."""
        inner = codec.inner if isinstance(codec, Referred) else codec
        return Ref(pointers.decode(data), inner, self._run.readings.load)

    async def of_step(self, call: Call, work: Work, value: Any) -> tuple[bytes, Any]:
        """What is journalled for what a step returned, and what the body gets."""
        if isinstance(value, Ref):  # it passes on what it was given
            call.whole = not work.ref
            own = await self._own(value.pointer, lambda at, kind: at.step(self.owner, call.path, kind))
            data = pointers.encode(own, held=work.ref)
            if not work.ref:
                work.codec.decode(await self._run.readings.load(own))  # what does not fit fails this step
            return data, self.ref(data, work.codec) if work.ref else None
        data, value = work.codec.trip(value, what := f"step {shown(call.path)}")
        payloads = self._payloads
        if payloads.is_small(data) and not work.ref and type(value) is not bytes:
            return pointers.literal(data), value
        told = self._run.trouble(f"the value of {shown(call.path)} cannot be written")
        owner = self.owner
        data = await self.patiently(
            lambda: payloads.journalled(
                data, what, lambda at, kind: at.step(owner, call.path, kind), value=value, ref=work.ref, told=told
            )
        )
        return data, self.ref(data, work.codec) if work.ref else value

    async def of_run(self, value: Any) -> bytes:
        """What is recorded for what the body returned. While it is written, what the body left running gets nothing
        and begins nothing: it ends with the body."""
        self._run.readings.busy += 1
        try:
            return await self._of_run(value)
        finally:
            self._run.readings.busy -= 1

    async def _of_run(self, value: Any) -> bytes:
        if isinstance(value, Ref):
            return pointers.encode(await self._own(value.pointer, lambda at, _: at.output(self.owner)))
        workflow, payloads, owner = self._run.workflow, self._payloads, self.owner
        data = workflow.output_codec.encode(value, what := f"the result of workflow {workflow.name!r}")
        ref = isinstance(workflow.output_codec, Referred)
        if payloads.keeps(data) and not ref:
            return pointers.literal(data)
        told = self._run.trouble("its output cannot be written")
        return await self.patiently(
            lambda: payloads.recorded(data, what, lambda at: at.output(owner), ref=ref, told=told)
        )

    async def _own(self, pointer: Pointer, key: Key) -> Pointer:
        """A pointer that this run may journal: its own as it is; another run's payload is copied, since it goes with
        that run."""
        place = await self.patiently(lambda: self._payloads.required("a Ref"))
        if place.layout.owner(pointer.key) in (None, self.owner):
            return pointer
        content, kind = await self._run.readings.content(pointer), EXTENSIONS[pointer.content_type]
        told = self._run.trouble(f"a copy of {pointer.key} cannot be written")
        return await self.patiently(
            lambda: self._payloads.create(lambda at: key(at, kind), content, pointer.content_type, told)
        )

    def keeping(self, call: Call, type: str, value: Any) -> Work:  # noqa: A002  contract
        """The step that copies a value to where retention never reaches; the body gets a Ref to it."""
        how, workflow = PLAIN, self._run.workflow
        told = self._run.trouble(f"the artifact {shown(call.path)} cannot be written")

        async def keep() -> Ref[Any]:
            if isinstance(value, Ref):
                content, content_type = await self._run.readings.content(value.pointer), value.pointer.content_type
            else:
                data = inputs.encoded(value, f"the artifact {shown(call.path)}")
                content, content_type = contents.content(data, value)
            owner, kind = self.owner, EXTENSIONS[content_type]
            pointer = await self.patiently(
                lambda: self._payloads.create(
                    lambda at: at.artifact(owner, type, call.path, kind), content, content_type, told
                )
            )
            return Ref(pointer, how, self._run.readings.load)

        return Work(keep, (), workflow.retry, workflow.step_timeout, how, ref=True)

    async def invalid(self, data: bytes) -> str:
        """Keeps an input that does not fit the workflow; where it lies, for the error."""
        where = await self._payloads.invalid(self.owner.tenant, ids.derive(self._run.out.run_id, "", "invalid"), data)
        return f"; it is kept as {where}" if where else ""

    async def patiently(self, write: Callable[[], Awaitable[T]]) -> T:
        """A database that is away, when it has to say which store is used, is waited for like the store itself."""
        while True:
            try:
                return await write()
            except TRANSIENT as error:
                self._run.check()
                said = "run %s: a payload is not written yet: %s"
                _log.warning(said, self._run.key, error or type(error).__name__, extra=self._run.about)
                await asyncio.sleep(1.0)
