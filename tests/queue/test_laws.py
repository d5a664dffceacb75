"""The promises of a queue, against the real database: a model that says exactly what must be handed out after any
story, and consumers that crash side by side."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from onward.client import Client, Message
from onward.errors import Conflict
from onward.store.queues import NewMessage, Queues

GROUPS = st.sampled_from([None, None, "a", "b"])
MOST = 3
"""Receives until a message is dead."""
TICK = 1000.0
"""Seconds of one step of the model's clock: what the test itself takes does not count beside it."""


@dataclass
class Known:
    """What the model knows of a message."""

    id: UUID
    group: str | None
    number: int
    visible: int  # ticks
    receipt: int = 0
    reads: int = 0
    place: float = 0.0
    sent: float = 0.0  # its first place


@dataclass
class Held:
    """What a consumer believes that it holds."""

    id: UUID
    receipt: int


@dataclass
class Model:
    """Messages in order of sending."""

    now: int = 0
    there: dict[UUID, Known] = field(default_factory=dict)
    dead: dict[UUID, Known] = field(default_factory=dict)
    numbers: Any = field(default_factory=itertools.count)

    def heads(self) -> list[Known]:
        """The first of each group, and all without one."""
        seen: set[str] = set()
        found = []
        for known in sorted(self.there.values(), key=lambda k: k.number):
            if known.group is None or known.group not in seen:
                found.append(known)
                seen.add(known.group or "")
        return found

    def ready(self) -> list[Known]:
        return sorted((k for k in self.heads() if k.visible <= self.now), key=lambda k: (k.place, k.number))


class Story(RuleBasedStateMachine):
    """One queue and what may happen to it."""

    runner: asyncio.Runner
    connection: asyncpg.Connection
    queues = itertools.count()

    @initialize()
    def begin(self) -> None:
        self.queue = f"q{next(Story.queues)}"
        self.calls = Queues(self.connection, "t")  # type: ignore[arg-type]
        self.model = Model()
        self.held: list[Held] = []
        self.places = itertools.count(1)

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    @rule(groups=st.lists(GROUPS, min_size=1, max_size=4), delay=st.sampled_from([0, 0, 0, 1, 2]))
    def send(self, groups: list[str | None], delay: int) -> None:
        new = [NewMessage(uuid4(), g, (delay - 0.5) * TICK if delay else None, b"1", None, None) for g in groups]
        self.run(self.calls.send(self.queue, new))
        place = next(self.places)
        for message in new:
            visible = self.model.now + delay
            self.model.there[message.msg_id] = Known(
                message.msg_id,
                message.group,
                next(self.model.numbers),
                visible,
                place=visible * 1e6 + place,
                sent=self.model.now * 1e6 + place,
            )

    @rule(most=st.integers(1, 6), ticks=st.integers(1, 3))
    def receive(self, most: int, ticks: int) -> None:
        found = self.run(self.calls.receive(self.queue, most, (ticks - 0.5) * TICK, MOST, None))
        expected = self._expected(most, ticks)
        assert [(m.msg_id, m.read_count) for m in found] == [(k.id, k.reads) for k in expected]
        for message, known in zip(found, expected, strict=True):
            assert message.receipt > known.receipt
            known.receipt = message.receipt
            self.held.append(Held(message.msg_id, message.receipt))

    def _expected(self, most: int, ticks: int) -> list[Known]:
        out: list[Known] = []
        place = next(self.places)
        while len(out) < most and (ready := self.model.ready()[: most - len(out)]):
            for known in ready:
                if known.reads >= MOST:
                    self.model.dead[known.id] = self.model.there.pop(known.id)
                    known.receipt = -1
                else:
                    known.reads += 1
                    known.visible = self.model.now + ticks
                    known.place = known.visible * 1e6 + place
                    out.append(known)
        return out

    def _pick(self, n: int) -> tuple[Held, Known | None, bool] | None:
        if not self.held:
            return None
        held = self.held[n % len(self.held)]
        known = self.model.there.get(held.id)
        return held, known, known is not None and known.receipt == held.receipt

    @rule(n=st.integers(0, 99))
    def delete(self, n: int) -> None:
        if (picked := self._pick(n)) is None:
            return
        held, known, valid = picked
        [word] = self.run(self.calls.delete(self.queue, [held.id], [held.receipt]))
        gone = known is None and held.id not in self.model.dead
        assert word == ("deleted" if valid else "gone" if gone else "stale")
        if valid:
            del self.model.there[held.id]

    @rule(n=st.integers(0, 99), ticks=st.integers(0, 3))
    def extend(self, n: int, ticks: int) -> None:
        if (picked := self._pick(n)) is None:
            return
        held, known, valid = picked
        seconds = (ticks - 0.5) * TICK if ticks else 0
        word, _ = self.run(self.calls.change_visibility(self.queue, held.id, held.receipt, seconds))
        gone = known is None and held.id not in self.model.dead
        assert word == ("changed" if valid else "gone" if gone else "stale")
        if valid and known is not None:
            known.visible = self.model.now + ticks
            known.place = known.visible * 1e6 + next(self.places)

    @rule(n=st.integers(0, 99))
    def give_back(self, n: int) -> None:
        if (picked := self._pick(n)) is None:
            return
        held, known, valid = picked
        self.run(self.calls.give_back(self.queue, [(held.id, held.receipt)]))
        if valid and known is not None:
            known.visible, known.place, known.receipt = self.model.now, known.sent, -1
            known.reads -= 1

    @rule(ticks=st.integers(1, 2))
    def wait(self, ticks: int) -> None:
        """Consumers crash or sleep: either way only time passes."""
        self.model.now += ticks
        self.run(
            self.connection.execute(
                "insert into onward.setting (name, value) values ('clock_offset', $1 || ' s') on conflict (name) do "
                "update set value = (split_part(onward.setting.value, ' ', 1)::float8 + $1::float8)::text || ' s'",
                str(ticks * TICK),
            )
        )

    @invariant()
    def nothing_is_lost_and_each_group_has_one_head(self) -> None:
        if not hasattr(self, "model"):
            return
        rows = self.run(
            self.connection.fetch(
                "select msg_id, head, queue from onward.queued where queue = any ($1)",
                [self.queue, f"{self.queue}.dead"],
            )
        )
        assert {r["msg_id"] for r in rows if r["queue"] == self.queue} == set(self.model.there)
        assert {r["msg_id"] for r in rows if r["queue"] != self.queue} == set(self.model.dead)
        assert {r["msg_id"] for r in rows if r["head"] and r["queue"] == self.queue} == {
            k.id for k in self.model.heads()
        }
        groups = self.run(self.connection.fetch("select group_id from onward.queue_group where queue = $1", self.queue))
        assert {r[0] for r in groups} == {k.group for k in self.model.there.values() if k.group}


def test_a_queue_hands_out_exactly_what_the_model_says(url: str) -> None:
    with asyncio.Runner() as runner:
        Story.runner, Story.connection = runner, runner.run(asyncpg.connect(url))
        try:
            run_state_machine_as_test(
                Story,
                settings=settings(
                    max_examples=60,
                    stateful_step_count=40,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            Story.connection.terminate()


# ---- consumers that crash, side by side ------------------------------------------------------------------------


@dataclass
class HandOut:
    """One hand-out, by the clock of this machine, which is the database's too."""

    id: str
    number: int
    receipt: int
    came: float
    until: float


async def test_a_group_goes_in_order_whatever_consumers_crash(url: str) -> None:
    """No message is out twice, and none before the ones ahead of it are deleted."""
    chance = random.Random(7)
    sent = {f"g{g}": list(range(15)) for g in range(6)}
    outs: dict[str, list[HandOut]] = defaultdict(list)
    done: dict[str, dict[int, float]] = defaultdict(dict)  # when its deletion was asked for
    async with Client(url) as a, Client(url) as b:
        for group, numbers in sent.items():
            for n in numbers:
                await a.queue("q").send([group, n], group=group)

        async def consume(client: Client) -> None:
            while sum(map(len, done.values())) < 90:
                messages = await client.queue("q").receive(3, visibility="50ms", wait="200ms")
                now = time.time()
                for m in messages:
                    group, number = m.body
                    outs[group].append(HandOut(m.id, number, m.receipt, now, m.visible_at.timestamp()))
                for message in messages:
                    await handle(client, message)

        async def handle(client: Client, message: Message) -> None:
            group, number = message.body
            if chance.random() < 0.3:  # it crashes
                return
            await asyncio.sleep(chance.choice([0, 0, 0.02, 0.06]))  # it works, at times for too long
            now = time.time()
            with contextlib.suppress(Conflict):
                if await client.queue("q").delete(message):
                    assert number not in done[group]
                    done[group][number] = now

        await asyncio.gather(*[consume(client) for client in (a, b) for _ in range(5)])
        assert (await a.queue("q").stats())[1:5] == (0, 0, 0, 0)
    assert {group: sorted(deleted) for group, deleted in done.items()} == sent
    for group, handed in outs.items():
        in_order = sorted(handed, key=lambda out: (out.number, out.receipt))
        for before, after in itertools.pairwise(in_order):
            if after.number == before.number:
                assert after.receipt > before.receipt
                assert after.came > before.until
            else:
                assert after.came > done[group][before.number]
    assert sum(map(len, outs.values())) > 100  # some did crash
