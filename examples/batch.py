"""Work for a program outside: it gets its input by pointer, and answers by a signal.

python examples/batch.py                  # a worker, a run, and the program, on the embedded Postgres

The run hands a large list to `python examples/batch.py crunch`, a process of its own that knows nothing of workflows.
It may take hours, run on another machine, be started by a cluster; the run holds nothing meanwhile but a row.
"""

import asyncio
import os
import statistics
import subprocess
import sys
from typing import Any

from onward import Client, Context, Handoff, Worker, workflow

CRUNCH = "crunch"


def launch(handoff: Handoff) -> None:
    """Starts the program and does not wait for it. It may be called twice: the first answer counts."""
    subprocess.Popen([sys.executable, __file__, CRUNCH], env={**os.environ, "HANDOFF": str(handoff)})


@workflow
async def measure(ctx: Context, readings: list[float]) -> dict[str, Any]:
    summary: dict[str, Any] = await ctx.step.batch("crunch", launch, readings, timeout="1h")
    await ctx.artifacts.keep("summary", "reports", summary)
    return summary


async def crunch() -> None:
    """The program outside. In another language: read the object, send the signal (see the guide)."""
    handoff = Handoff.parse(os.environ["HANDOFF"])
    async with Client() as client:
        readings = await client.take(handoff)
        await client.answer(handoff, {"count": len(readings), "median": statistics.median(readings)})


async def main() -> None:
    async with Client() as client, Worker(measure):
        run = await client.start(measure, [float(i % 1000) for i in range(50_000)])
        print(await run.result(timeout=60))


if __name__ == "__main__":
    asyncio.run(crunch() if sys.argv[1:] == [CRUNCH] else main())
