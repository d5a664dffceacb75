"""`ctx.step.batch`: work for a program outside, handed over by pointer, answered by a signal.

    "render"                journalled last, with the answer under the step's own key
      ├── submit            a step: the program was told, at least once, and not again once that is journalled
      └── answer            a wait for the signal that carries this hand-off's token

What lies under `tmp/` goes with the bucket's rule after ten days. So an answer is copied to the step's key before the
batch is journalled; a crash in between copies it again, to the same place, and changes nothing.
"""

from __future__ import annotations

import inspect
import re

import msgspec

from onward.authoring.engine import Batch, Work
from onward.authoring.handoff import Answer, Handoff
from onward.client.inputs import encoded
from onward.core import durations, ids, names, pointers
from onward.core.codec import PLAIN
from onward.core.names import shown
from onward.core.pointers import Pointer
from onward.core.replay import Call, Row
from onward.errors import InvalidInput, PayloadTooLarge
from onward.store.handouts import Want
from onward.worker import attempts, faults
from onward.worker.execution import Execution
from onward.worker.outputs import Outputs

_LONGEST = 60
_COUNT = re.compile(r"(?:#[0-9]+)+\Z")


class Batches:
    """The hand-offs of one run."""

    __slots__ = ("_outputs", "_run")

    def __init__(self, run: Execution, outputs: Outputs) -> None:
        self._run, self._outputs = run, outputs

    def submit(self, call: Call, batch: Batch) -> Work:
        """The step that tells the program."""

        async def submit() -> None:
            handoff = await self._handoff(call, batch)
            if attempts.is_async(batch.submit):
                await batch.submit(handoff)
                return
            threads = self._run.host.threads
            await threads.slot()
            told = await threads.run(batch.submit, (handoff,))
            if inspect.isawaitable(told):  # a lambda around an async function
                await told

        workflow = self._run.workflow
        return Work(submit, (), workflow.retry, workflow.step_timeout, PLAIN)

    def want(self, call: Call, path: str, batch: Batch) -> Want:
        """The wait for its answer."""
        match = f'{{"token":"{self._token(call)}"}}'
        return Want(path, "batch", seconds=batch.timeout, event=_event(call), match=match)

    async def answered(self, call: Call, batch: Batch, row: Row) -> tuple[bytes | None, bytes | None]:
        """What is journalled for the batch: an output, or an error."""
        if row.output is None or row.output == b"null":
            limit = durations.show(batch.timeout or 0)
            return None, faults.told("TimeoutError", f"the program did not answer within {limit}").encode()
        try:
            answer = msgspec.json.decode(row.output, type=Answer)
        except msgspec.MsgspecError as error:
            return None, _wrong(f'the answer is no {{"token", "output"}} or {{"token", "error"}}: {error}')
        if answer.error is not None:
            return None, faults.told("BatchFailed", answer.error).encode()
        try:
            return await self._output(call, batch, bytes(answer.output)), None
        except (InvalidInput, PayloadTooLarge) as error:
            return None, faults.told(type(error).__name__, str(error)).encode()

    async def _output(self, call: Call, batch: Batch, data: bytes) -> bytes:
        owner, what = self._outputs.owner, f"the answer to {shown(call.path)}"
        payloads, told = self._run.host.payloads, self._run.trouble(f"{what} cannot be copied")
        if (pointer := _pointed(data)) is not None:
            place = await self._outputs.patiently(lambda: payloads.required(what))
            if place.layout.owner(pointer.key) != owner:
                raise InvalidInput(f"{what} points to {pointer.key}, which is not below its hand-off's key")
            data = await self._run.readings.load(pointer)
        value = batch.codec.decode(data)
        return await self._outputs.patiently(
            lambda: payloads.journalled(
                data, what, lambda at, kind: at.step(owner, call.path, kind), value=value, told=told
            )
        )

    async def _handoff(self, call: Call, batch: Batch) -> Handoff:
        owner, out, payloads = self._outputs.owner, self._run.out, self._run.host.payloads
        what = f"the input of batch {shown(call.path)}"
        data, told = encoded(batch.value, what), self._run.trouble(f"{what} cannot be written")
        input_id, output_id = (ids.derive(out.run_id, call.path, salt) for salt in ("batch input", "batch output"))
        stored = await self._outputs.patiently(
            lambda: payloads.journalled(data, what, lambda at, _: at.batch(owner, input_id), ref=True, told=told)
        )
        place = await self._outputs.patiently(lambda: payloads.required(what))
        return Handoff(
            self._run.key,
            out.tenant,
            _event(call),
            self._token(call),
            pointers.decode(stored),
            place.layout.batch(owner, output_id),
        )

    def _token(self, call: Call) -> str:
        return str(ids.derive(self._run.out.run_id, call.path, "batch token"))


def _event(call: Call) -> str:
    """For people: the token tells hand-offs apart."""
    return "batch:" + _COUNT.sub("", names.split(call.path)[1][:_LONGEST])


def _wrong(why: str) -> bytes:
    return faults.told(InvalidInput.__name__, why).encode()


def _pointed(data: bytes) -> Pointer | None:
    """The pointer that a program wrote into its answer, in whatever spacing."""
    try:
        inner = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if set(inner) == {"$payload"}:
            return pointers.decode(b'{"$payload":' + bytes(inner["$payload"]) + b"}")
    except msgspec.MsgspecError:
        pass
    return None
