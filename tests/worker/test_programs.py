"""Law: whatever a body is made of, a replay from any commit goes the way of the first run, and nothing runs twice.

Bodies are made at random: groups, races, chains, nested and retried steps, failures that are caught, names that repeat.
A program that breaks the law is told with its seed; `play` it alone to see why.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from onward import Backoff, Context, GiveUp, Retry, current_step, workflow
from onward.errors import StepFailed

PROGRAMS = 24  # a seed; some three seconds

executed: Counter[str] = Counter()

LEAVES = ("value", "value", "failure", "nap")
NODES = ("chain", "gather", "group", "race", "first", "completed", "nested", "retried", "tidied", *LEAVES)


def program(chance: random.Random, depth: int, number: Counter[str]) -> list[Any]:
    """[kind, name, label, parts or seconds]: names repeat, labels do not."""
    kind = chance.choice(NODES if depth else LEAVES)
    number["all"] += 1
    name, label = f"step {chance.randint(0, 5)}", str(number["all"])
    if kind in (*LEAVES, "retried"):
        return [kind, name, label, chance.choice([0, 0, 0.005, 0.01, 0.03])]
    return [kind, name, label, [program(chance, depth - 1, number) for _ in range(chance.randint(2, 3))]]


async def value(label: str, seconds: float) -> str:
    executed[label] += 1
    await asyncio.sleep(seconds)
    return label


async def failure(label: str, seconds: float) -> None:
    executed[label] += 1
    await asyncio.sleep(seconds)
    raise GiveUp(label)


async def retried(label: str) -> str:
    executed[label] += 1
    if current_step().attempt == 1:
        raise ValueError(label)
    return label


class Play:
    """One run of a program; `log` is what its body saw, in order."""

    def __init__(self, ctx: Context) -> None:
        self.step, self.log = ctx.step, list[Any]()

    async def __call__(self, part: list[Any]) -> Any:
        kind, name, label, rest = part
        try:
            seen = await getattr(self, kind)(name, label, rest)
        except StepFailed as error:
            self.log.append(["caught", label, error.message])
            return await self.step.run("mend", value, label + " mended", 0)
        self.log.append([label, seen])
        return seen

    async def value(self, name: str, label: str, seconds: float) -> str:
        return await self.step.run(name, value, label, seconds)

    async def failure(self, name: str, label: str, seconds: float) -> None:
        await self.step.run(name, failure, label, seconds)

    async def nap(self, name: str, label: str, seconds: float) -> None:
        await self.step.sleep(name, seconds)

    async def retried(self, name: str, label: str, _: float) -> str:
        policy = Retry(attempts=2, backoff=Backoff.fixed(0))
        return await self.step.run(name, retried, label, retry=policy)

    async def chain(self, name: str, label: str, parts: list[Any]) -> list[Any]:
        return [await self(part) for part in parts]

    async def tidied(self, name: str, label: str, parts: list[Any]) -> list[Any]:
        try:
            return [await self(part) for part in parts]
        finally:
            await self.step.run(name, value, label, 0)

    async def nested(self, name: str, label: str, parts: list[Any]) -> int:
        async def outer() -> int:
            executed[label] += 1
            await self.step.run(name, value, f"{label} alone", 0)
            inner = [self.step.run(name, value, f"{label} {i}", 0.005 * i) for i in range(len(parts))]
            return len(await asyncio.gather(*inner))

        return await self.step.run(name, outer)

    async def gather(self, name: str, label: str, parts: list[Any]) -> list[str]:
        return [str(seen) for seen in await asyncio.gather(*map(self, parts), return_exceptions=True)]

    async def group(self, name: str, label: str, parts: list[Any]) -> list[Any]:
        broken: list[str] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self(part)) for part in parts]
                group.create_task(self.step.run(name, failure if len(parts) > 2 else value, label, 0.01))
        except* StepFailed as failures:
            broken = [str(error) for error in failures.exceptions]
        return broken or [task.result() for task in tasks]

    async def race(self, name: str, label: str, parts: list[Any]) -> list[Any]:
        return list(await self.step.race(name, **{f"branch_{i}": self(part) for i, part in enumerate(parts)}))

    async def first(self, name: str, label: str, parts: list[Any]) -> list[str]:
        tasks = [asyncio.create_task(self(part), name=str(i)) for i, part in enumerate(parts)]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return sorted(task.get_name() for task in done)

    async def completed(self, name: str, label: str, parts: list[Any]) -> list[Any]:
        return [await one for one in asyncio.as_completed([asyncio.create_task(self(part)) for part in parts])]


@workflow
async def plays(ctx: Context, part: list[Any]) -> list[Any]:
    play = Play(ctx)
    return [await play(part), play.log, ctx.now().isoformat()]


@pytest.mark.parametrize("seed", range(4))
async def test_a_replay_of_any_program_goes_the_way_of_its_first_run(world: Any, seed: int) -> None:
    await world.worker(plays)
    for n in range(seed * PROGRAMS, (seed + 1) * PROGRAMS):
        chance = random.Random(n)
        part = program(chance, chance.choice([1, 2, 2, 3]), Counter())
        run = await world.client.start(plays, part)
        outcome = await run.result(timeout=20)
        journal = [step for step in await run.steps() if step.completed_at]
        for rows in {len(journal), chance.randint(0, len(journal))}:
            executed.clear()
            again = await world.copy(run, rows)
            repeated = await again.result(timeout=20)
            kept = [step for step in await again.steps() if step.completed_at][:rows]
            assert [(s.name, s.kind, s.output) for s in kept] == [(s.name, s.kind, s.output) for s in journal[:rows]], n
            if rows == len(journal):
                assert repeated == outcome, f"program {n}: {part}"
                assert not executed, f"program {n}: {part}"
