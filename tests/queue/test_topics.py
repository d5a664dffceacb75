"""Topics: who gets what is published, and that nobody does where somebody could not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from onward.client import Client
from onward.core import topics
from onward.errors import Conflict, InvalidInput, InvalidName, NotFound
from onward.store.deliveries import Deliveries
from onward.store.topics import Topics

Skip = Callable[[float], Awaitable[None]]

QUEUE = {"type": "queue", "name": "q"}
HTTP = {"type": "http", "url": "https://example.com/hook"}
WORKFLOW = {"type": "workflow", "name": "w"}


async def received(client: Client, queue: str = "q") -> list[Any]:
    return [message.body for message in await client.queue(queue).receive(100)]


async def counts(root: asyncpg.Connection) -> dict[str, int]:
    tables = ("queued", "delivery", "run", "message", "run_input", "publication")
    return {t: await root.fetchval(f"select count(*) from onward.{t}") for t in tables}


# ---- patterns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "topic", "is_match"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.bc", False),
        ("a.b", "a.b.c", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.*", "a", False),
        ("a.*.c", "a.b.c", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#", "ab", False),
        ("#.c", "c", True),
        ("a.#.c", "a.c", True),
        ("a.#.c", "a.x.y.c", True),
        ("a.#.#.*.c", "a.c", False),
        ("a.#.#.*.c", "a.b.c", True),
        ("#.#", "a", True),
    ],
)
def test_a_pattern_means_what_it_says(pattern: str, topic: str, is_match: bool) -> None:
    assert topics.matches(pattern, topic) is is_match


WORDS = st.sampled_from(["a", "b", "ab", "a-b", "A_1"])
TOPICS = st.lists(WORDS, min_size=1, max_size=5).map(".".join)
PATTERNS = st.lists(st.one_of(WORDS, st.just("*"), st.just("#")), min_size=1, max_size=5).map(".".join)


def test_the_database_matches_as_the_reference_does(url: str) -> None:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(url))
        numbers = iter(range(1_000_000))

        @settings(max_examples=80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(PATTERNS, min_size=1, max_size=8, unique=True), st.lists(TOPICS, min_size=1, max_size=6))
        def check(patterns: list[str], published: list[str]) -> None:
            calls = Topics(connection, f"t{next(numbers)}")  # type: ignore[arg-type]
            for pattern in patterns:
                runner.run(calls.subscribe(uuid4(), pattern, "queue", pattern, None, None))
            for topic in published:
                found = [s.target for s in runner.run(calls.subscribed(topic, uuid4()))]
                assert sorted(found) == sorted(p for p in patterns if topics.matches(p, topic))

        try:
            check()
        finally:
            connection.terminate()


@pytest.mark.parametrize("name", ["", ".", "a..b", "a.", "a b", "a.é", "x" * 256, 3, "a/b"])
async def test_a_name_that_breaks_the_rules_is_refused(client: Client, name: Any) -> None:
    with pytest.raises(InvalidName):
        await client.topics.publish(name, 1)
    with pytest.raises(InvalidName):
        await client.topics.subscribe(name, QUEUE)


async def test_nobody_publishes_to_a_pattern(client: Client) -> None:
    for pattern in ("a.*", "#"):
        with pytest.raises(InvalidName):
            await client.topics.publish(pattern, 1)


# ---- publishing ----------------------------------------------------------------------------------------------


async def test_every_subscription_gets_what_is_published(client: Client, root: asyncpg.Connection) -> None:
    await client.topics.subscribe("user.*", QUEUE)
    await client.topics.subscribe("user.#", {"type": "queue", "name": "all"})
    await client.topics.subscribe("user.signed-up", WORKFLOW)
    await client.topics.subscribe("user.signed-up", HTTP)
    await client.topics.subscribe("user.left", {"type": "queue", "name": "left"})
    body = {"id": 42, "name": "a\x00b"}
    assert await client.topics.publish("user.signed-up", body) == 4
    assert await received(client) == await received(client, "all") == [body]
    assert await received(client, "left") == []
    [run] = (await client.runs()).runs
    assert (run.workflow, run.input, run.state) == ("w", body, "stranded")
    assert len((await client.runs(input={"id": 42})).runs) == 1
    assert await root.fetchval("select count(*) from onward.delivery") == 1


async def test_what_nobody_has_subscribed_reaches_nobody(client: Client) -> None:
    assert await client.topics.publish("user.signed-up", 1) == 0


async def test_topics_belong_to_their_tenant(url: str, client: Client) -> None:
    mine = await client.topics.subscribe("a", QUEUE)
    async with Client(url, tenant="other") as other:
        assert await other.topics.publish("a", 1) == 0
        assert await other.topics.subscriptions() == []
        with pytest.raises(NotFound):
            await other.topics.unsubscribe(mine.id)
    assert await client.topics.publish("a", 1) == 1


FAILING = """
    create function public.fail() returns trigger language plpgsql as $$ begin raise exception 'no room'; end $$;
    create trigger fail before insert on onward.{} for each row execute function public.fail()
"""


@pytest.mark.parametrize("table", ["queued", "delivery", "run", "run_input", "message"])
async def test_a_publication_that_fails_on_one_target_reaches_none(
    client: Client, root: asyncpg.Connection, table: str
) -> None:
    for target in (QUEUE, HTTP, WORKFLOW):
        await client.topics.subscribe("a", target)
    await root.execute(FAILING.format(table))
    with pytest.raises(asyncpg.RaiseError, match="no room"):
        await client.topics.publish("a", 1, idempotency_key="k")
    assert set((await counts(root)).values()) == {0}
    await root.execute(f"drop trigger fail on onward.{table}")
    assert await client.topics.publish("a", 1, idempotency_key="k") == 3


async def test_with_a_key_twice_is_once(client: Client, root: asyncpg.Connection, skip: Skip) -> None:
    for target in (QUEUE, HTTP, WORKFLOW):
        await client.topics.subscribe("#", target)
    again = [client.topics.publish("a", {"x": 1, "y": 2}, idempotency_key="k") for _ in range(8)]
    assert await asyncio.gather(*again) == [3] * 8
    assert await client.topics.publish("a", {"y": 2, "x": 1}, idempotency_key="k") == 3
    assert await counts(root) == {
        "queued": 1, "delivery": 1, "run": 1, "message": 1, "run_input": 1, "publication": 1,
    }  # fmt: skip
    with pytest.raises(Conflict, match="another key"):
        await client.topics.publish("a", "other", idempotency_key="k")
    assert await client.topics.publish("b", "other", idempotency_key="k") == 3
    calls = Deliveries(await client.database())
    assert await calls.forget_publications(10) == 0
    await skip(8 * 86_400)
    assert await calls.forget_publications(10) == 2


async def test_publishing_to_a_hundred_subscriptions_takes_under_20_ms(client: Client) -> None:
    for n in range(100):
        await client.topics.subscribe("a.b" if n % 2 else f"*.#.b{'.#' * (n % 3)}", {"type": "queue", "name": f"q{n}"})
    took = []
    for _ in range(10):
        began = time.perf_counter()
        assert await client.topics.publish("a.b", {"n": 1}) == 100
        took.append(time.perf_counter() - began)
    assert min(took) < 0.02


# ---- large bodies --------------------------------------------------------------------------------------------


async def test_each_run_has_a_large_body_as_an_input_of_its_own(client: Client, folder: Path) -> None:
    body = {"data": "x" * 100_000}
    for target in (QUEUE, WORKFLOW, {"type": "workflow", "name": "v"}):
        await client.topics.subscribe("a", target)
    assert await client.topics.publish("a", body) == 3
    runs = (await client.runs()).runs
    assert sorted(run.workflow for run in runs) == ["v", "w"]
    for run in runs:
        kept = folder / f"onward/executions/default/{run.workflow}/{run.id}/input.json"
        assert kept.stat().st_size > 100_000
        assert run.input.key.endswith(f"{run.id}/input.json")
    for temporary in (folder / "onward/tmp").rglob("*.json"):
        assert temporary.parent.parent.name == "oversized"
    assert await received(client) == [body]


async def test_a_large_body_under_a_known_key_leaves_no_input_behind(client: Client, folder: Path) -> None:
    await client.topics.subscribe("a", WORKFLOW)
    for _ in range(2):
        assert await client.topics.publish("a", "x" * 100_000, idempotency_key="k") == 1
    with pytest.raises(Conflict):
        await client.topics.publish("a", "y" * 100_000, idempotency_key="k")
    [run] = (await client.runs()).runs
    assert [kept.parent.name for kept in (folder / "onward/executions").rglob("input.json")] == [run.id]


async def test_a_workflow_that_is_subscribed_meanwhile_gets_its_input_too(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribed, asked = Topics.subscribed, []

    async def late(self: Topics, topic: str, publication: Any) -> Any:
        found = await subscribed(self, topic, publication)
        asked.append(len(found))
        if len(asked) == 1:
            await client.topics.subscribe("a", WORKFLOW)
        return found

    monkeypatch.setattr(Topics, "subscribed", late)
    assert await client.topics.publish("a", "x" * 100_000) == 1
    assert asked == [0, 1]
    [run] = (await client.runs()).runs
    assert run.input.key.endswith("input.json")


# ---- subscribing ---------------------------------------------------------------------------------------------


async def test_one_target_is_subscribed_once_under_a_pattern(client: Client) -> None:
    first = await client.topics.subscribe("a.*", QUEUE)
    assert (await client.topics.subscribe("a.*", QUEUE)).id == first.id
    assert (await client.topics.subscribe("a.#", QUEUE)).id != first.id
    assert [s.pattern for s in await client.topics.subscriptions()] == ["a.#", "a.*"]
    assert [s.id for s in await client.topics.subscriptions("a.*")] == [first.id]
    assert await client.topics.publish("a.b", 1) == 2


async def test_a_secret_is_made_and_shown_once(client: Client, root: asyncpg.Connection) -> None:
    first = await client.topics.subscribe("a", HTTP)
    assert first.secret is not None
    assert first.secret.startswith("whsec_")
    assert first.target == HTTP
    again = await client.topics.subscribe("a", HTTP)
    assert again.secret is None
    [listed] = await client.topics.subscriptions()
    assert (listed.secret, listed.target) == (None, HTTP)
    assert await root.fetchval("select secret from onward.subscription") == first.secret
    own = "whsec_" + "A" * 32
    await client.topics.subscribe("a", {**HTTP, "secret": own})
    assert await root.fetchval("select secret from onward.subscription") == own


async def test_an_unsubscribed_target_gets_nothing_any_more(client: Client) -> None:
    made = await client.topics.subscribe("a", QUEUE)
    await client.topics.unsubscribe(made.id)
    assert await client.topics.publish("a", 1) == 0
    for unknown in (made.id, "no uuid"):
        with pytest.raises(NotFound, match="onward topic list"):
            await client.topics.unsubscribe(unknown)


@pytest.mark.parametrize(
    "target",
    [
        {},
        "queue",
        {"type": "mail", "name": "x"},
        {"type": "queue"},
        {"type": "queue", "name": "__wf_w"},
        {"type": "queue", "name": "q", "url": "http://x/"},
        {"type": "workflow", "name": "W"},
        {"type": "http", "url": "ftp://example.com/"},
        {"type": "http", "url": "http:///x"},
        {"type": "http", "url": "http://user:password@example.com/"},
        {"type": "http", "url": "http://example.com/a b"},
        {"type": "http", "url": "http://example.com/\r\nx: y"},
        {"type": "http", "url": "http://example.com:99999/"},
        {"type": "http", "url": "http://example.com/" + "x" * 2000},
        {"type": "http", "url": 3},
        {"type": "http", "url": "https://example.com/", "secret": "plain"},
        {"type": "http", "url": "https://example.com/", "secret": "whsec_c2hvcnQ="},
    ],
)
async def test_a_target_that_is_none_is_refused(client: Client, target: Any) -> None:
    with pytest.raises((InvalidInput, InvalidName)):
        await client.topics.subscribe("a", target)
