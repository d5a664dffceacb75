"""A worker in a process of its own: `python program.py URL FOLDER OPTIONS`, the options as JSON.

`serve` names the workflows, as `name@version`; the rest goes to the worker. What steps do is told in FOLDER/log, one
line for each event, so that a test can count what was executed, when, where and how often (see crew.py).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import uvloop

from onward import Backoff, Context, Retry, Worker, current_step, workflow

folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
played: set[str] = set()
"""Runs whose body this process has played before."""


def tell(what: str) -> None:
    """One line, in one write: run, step and process, by the machine's one clock."""
    step = current_step()
    line = f"{time.monotonic():.6f} {os.getpid()} {what} {step.run_id} {step.name}\n"
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(log, line.encode())
    finally:
        os.close(log)


def is_free(gate: str) -> bool:
    """A gate is opened for all processes, or for one."""
    return (folder / gate).exists() or (folder / f"{gate}-{os.getpid()}").exists()


def brief(number: int) -> int:
    """A sync step."""
    tell("begin")
    time.sleep(0.03 * (number % 5))
    tell("end")
    return number * number


async def brisk(number: int) -> int:
    """The same in the loop."""
    tell("begin")
    await asyncio.sleep(0.03 * (number % 5))
    tell("end")
    return number * number


async def lasting(seconds: float) -> str:
    tell("begin")
    await asyncio.sleep(seconds)
    tell("end")
    return "lasted"


async def gated(gate: str) -> str:
    """Executes until the test opens the gate."""
    tell("begin")
    while not is_free(gate):
        await asyncio.sleep(0.02)
    tell("end")
    return gate


def gated_in_a_thread(gate: str) -> str:
    tell("begin")
    while not is_free(gate):
        time.sleep(0.02)
    tell("end")
    return gate


async def deadly(gate: str) -> None:
    """Takes the process with it: as soon as the gate is open, and from then on at once."""
    await gated(gate)
    os._exit(1)


async def deadly_at_first(number: int) -> int:
    """Takes the process with it, the first time."""
    tell("begin")
    scar = folder / f"scar-{current_step().run_id}-{number}"
    if not scar.exists():
        scar.touch()
        os._exit(1)
    tell("end")
    return number


async def deadly_so_often(times: int) -> None:
    """Takes the process with it so many times."""
    tell("begin")
    scar = folder / f"scar-{current_step().run_id}"
    scars = len(scar.read_bytes()) if scar.exists() else 0
    if scars < times:
        scar.write_bytes(b"x" * (scars + 1))
        os._exit(1)
    tell("end")


async def flawed(number: int) -> int:
    """Fails the first time: there is a back-off beside everything else."""
    tell("begin")
    if current_step().attempt == 1:
        raise RuntimeError("the first attempt fails")
    await asyncio.sleep(0.01)
    tell("end")
    return number


async def clock() -> float:
    tell("begin")
    return time.time()


@workflow
async def march(ctx: Context, number: int) -> list[int]:
    """Twenty short steps and what may lie between steps: a pair side by side, a sleep, a back-off."""
    found = [await ctx.step.run("first", brisk, number)]
    for i in range(8):
        found.append(await ctx.step.run(f"brisk {i}", brisk, number + i))
        if i == 3:
            await ctx.step.sleep("nap", "200ms")
    pair = [ctx.step.run("left", brisk, number + 1), ctx.step.run("right", brief, number + 2)]
    found += await asyncio.gather(*pair)
    again = Retry(attempts=3, backoff=Backoff.fixed("50ms"))
    found.append(await ctx.step.run("flawed", flawed, number, retry=again))
    for i in range(8):
        found.append(await ctx.step.run(f"brief {i}", brief, number + i))
    return found


def marched(number: int) -> list[int]:
    """What `march` returns."""
    squares = [(number + i) ** 2 for i in range(8)]
    return [number**2, *squares, (number + 1) ** 2, (number + 2) ** 2, number, *squares]


@workflow
async def guard(ctx: Context, gate: str) -> str:
    """A step that executes until its gate is open, and one after it."""
    await ctx.step.run("gated", gated, gate)
    return await ctx.step.run("after", lasting, 0.0)


@workflow
async def guard_in_a_thread(ctx: Context, gate: str) -> str:
    return await ctx.step.run("gated", gated_in_a_thread, gate)


@workflow
async def last(ctx: Context, seconds: float) -> str:
    """One step of that length."""
    return await ctx.step.run("lasting", lasting, seconds)


@workflow
async def keep_appointments(ctx: Context, gate: str) -> list[Any]:
    """A sleep and a wait beside a long step."""
    pair = [ctx.step.sleep("nap", "3s"), ctx.step.wait_for_event("sign", timeout="3500ms")]
    return [*await asyncio.gather(*pair, ctx.step.run("gated", gated, gate)), ctx.now().isoformat()]


@workflow
async def poison(ctx: Context, gate: str) -> None:
    await ctx.step.run("deadly", deadly, gate)


@workflow
async def dawdle(ctx: Context, gate: str) -> str:
    """Is in its worker's memory without executing a step, until the gate is open."""
    while not is_free(gate):
        await asyncio.sleep(0.02)
    return await ctx.step.run("lasting", lasting, 0.0)


@workflow
async def stumble(ctx: Context, times: int) -> int:
    """Its worker dies in each of its steps, once."""
    return sum([await ctx.step.run(f"step {i}", deadly_at_first, i) for i in range(times)])


@workflow
async def recover(ctx: Context, deaths: int) -> str:
    """Falls over so many times in one step, gets past it, sleeps, and then has a step that takes its time."""
    await ctx.step.run("deadly", deadly_so_often, deaths)
    await ctx.step.sleep("nap", "300ms")
    return await ctx.step.run("gated", gated, "recovered")


@workflow
async def try_again(ctx: Context, delay: str) -> int:
    """Back-offs side by side."""
    again = Retry(attempts=2, backoff=Backoff.fixed(delay))
    return sum(await asyncio.gather(*[ctx.step.run(f"flawed {i}", flawed, i, retry=again) for i in range(3)]))


@workflow
async def idle(ctx: Context) -> str:
    return await ctx.step.wait_for_event("sign", type=str)


@workflow
async def nod_off(ctx: Context, seconds: float) -> str:
    await ctx.step.sleep("nap", seconds)
    return "rested"


@workflow
async def drip(ctx: Context, number: int) -> int:
    """A step begins every 200 ms, whatever the database says: only the fence can stop that."""
    pace = 0.0 if ctx.run_id in played else 0.2  # a replay must not dawdle
    played.add(ctx.run_id)

    async def drop(i: int) -> str:
        await asyncio.sleep(i * pace)
        return await ctx.step.run(f"drop {i}", lasting, 0.05)

    return len(await asyncio.gather(*map(drop, range(number))))


@workflow
async def tell_the_time(ctx: Context) -> list[Any]:
    """The step's clock is the machine's; all else is the database's."""
    shown = [ctx.started_at, ctx.now()]
    machine = await ctx.step.run("clock", clock)
    await ctx.step.sleep("nap", "1s")
    shown.append(ctx.now())
    answer = await ctx.step.wait_for_event("sign", timeout="1s")
    shown.append(ctx.now())
    return [machine, answer, *map(datetime.isoformat, shown)]


def versioned(version: int, retention: str) -> Any:
    @workflow(name="versioned", version=version, retention=retention)
    async def body(ctx: Context, gate: str = "") -> int:
        await ctx.step.run("before", lasting, 0.0)
        if gate:
            await ctx.step.wait_for_event(gate)
        await ctx.step.run("lasting", lasting, 0.0)
        return version

    return body


everything: dict[str, Any] = {
    f"{found.name}@{found.version}": found
    for found in (
        *(
            march,
            guard,
            guard_in_a_thread,
            last,
            keep_appointments,
            poison,
            dawdle,
            stumble,
            recover,
            try_again,
            idle,
            nod_off,
            drip,
        ),
        *(tell_the_time, versioned(1, "10d"), versioned(2, "20d"), versioned(3, "30d")),
    )
}


class Told(Worker):
    """Says that it has heard SIGTERM; nothing comes between that and its ceasing to claim."""

    async def stop(self) -> None:
        (folder / f"stopping-{os.getpid()}").touch()
        await super().stop()


def main(url: str, options: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    run: Callable[[Awaitable[None]], None] = uvloop.run  # type: ignore[assignment]  # as onward.serve does it
    run(Told([everything[name] for name in options.pop("serve")], url, **options).run())


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[3]))
