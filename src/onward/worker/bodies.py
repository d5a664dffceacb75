"""Plays a run's body from the top: the same coroutine the first time and on every replay."""

from __future__ import annotations

from onward.authoring.context import Context
from onward.core import pointers
from onward.core.codec import is_plain
from onward.core.frozen import freeze
from onward.errors import InvalidInput
from onward.worker import faults, tasks
from onward.worker.execution import Ending, Execution
from onward.worker.verbs import Verbs, not_awaited


async def play(run: Execution, verbs: Verbs) -> None:
    """Ends the run with what the body returns or raises, unless the run was taken away meanwhile."""
    tasks.body.set(run.body)
    if run.traced is not None:
        run.traced.enter("")
    try:
        output = await _body(run, verbs)
        if unawaited := verbs.not_awaited():
            not_awaited(unawaited)
        ending = Ending("completed", await verbs.outputs.of_run(output), None)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if run.over or run.cancelled:
            return
        ending = Ending("failed", None, faults.of_run(error).encode())
    finally:
        if run.over:
            verbs.close()
    if not run.over:
        verbs.not_awaited()
        run.end(ending)


async def _body(run: Execution, verbs: Verbs) -> object:
    workflow = run.workflow
    if not workflow.takes_input or (workflow.input_optional and run.out.input == b"null"):
        return await workflow.body(Context(verbs))
    try:
        data = await run.readings.input(run.out.input) if pointers.is_pointer(run.out.input) else run.out.input
        value = workflow.input_codec.decode(data)
    except InvalidInput as error:
        kept = await verbs.outputs.invalid(data)
        raise InvalidInput(f"the input of workflow {workflow.name!r}: {error}{kept}") from error
    if is_plain(workflow.input_codec):
        value = freeze(value)
    return await workflow.body(Context(verbs), value)
