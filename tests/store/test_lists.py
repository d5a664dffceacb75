"""Lists of runs: what is on a page, and what a page costs with a million runs."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import postgres
from onward.store import schema
from onward.store.runs import ListQuery, RunRecord
from postgres import Connect
from store.stage import Client, Stage, end, run

DAY = datetime(2026, 1, 1, tzinfo=UTC)
STATUSES = ("running", "completed", "failed", "cancelled")


def query(limit: int = 50, after: RunRecord | None = None, **filters: Any) -> ListQuery:
    """`has`: what the input contains; `any_of`: one of these."""
    patterns = [filters.pop("has")] if "has" in filters else filters.pop("any_of", None)
    asked: dict[str, Any] = dict.fromkeys(ListQuery._fields) | filters
    asked["patterns"] = None if patterns is None else [json.dumps(pattern) for pattern in patterns]
    if after is not None:
        asked |= {"after_time": after.started_at, "after_id": after.run_id}
    return ListQuery(**asked | {"limit": limit})


# ---- what is on a page ---------------------------------------------------------------------------------------

RANDOM_WORLD = """
    with world as materialized (
        select gen_random_uuid() as id, case when random() < 0.1 then 'other' else 't' end as tenant,
               (array['a', 'b', 'c', 'd'])[1 + floor(4 * random() * random())::int] as workflow,
               (array['running', 'completed', 'failed', 'cancelled'])[1 + floor(4 * random() * random())::int]
               as status,
               timestamptz '2026-01-01 00:00Z' + make_interval(hours => floor(60 * random())::int) as at,
               jsonb_build_object('n', floor(20 * random() * random()), 'half', random() < 0.5) as input
          from (select setseed(0.5)) seed, generate_series(1, 400)),
    runs as (
        insert into onward.run (run_id, tenant, workflow, version, input_hash, started_at)
        select id, tenant, workflow, 1, '', at from world),
    inputs as (
        insert into onward.run_input (run_id, input, search)
        select id, 'null', case when random() < 0.9 then input end from world),
    running as (
        insert into onward.running (tenant, workflow, started_at, run_id)
        select tenant, workflow, at, id from world where status = 'running')
    insert into onward.run_result
           (run_id, status, output, error, completed_at, expires_at, tenant, workflow, started_at)
    select id, status, case status when 'completed' then 'null'::bytea end,
           case status when 'failed' then 'null'::bytea end, at, 'infinity', tenant, workflow, at
      from world where status <> 'running'
"""

LIST = "select onward.list_runs($1, $2, $3, $4, $5, $6, $7, $8, $9)"

NAIVE = """
    select r.run_id
      from onward.run r join onward.run_input i using (run_id) left join onward.run_result x using (run_id)
     where r.tenant = $1 and ($2::text is null or r.workflow = $2)
       and ($3::text is null or coalesce(x.status, 'running') = $3)
       and ($4::timestamptz is null or r.started_at >= $4) and ($5::timestamptz is null or r.started_at < $5)
       and ($6::text[] is null or exists (select 1 from unnest($6::text[]) p where i.search @> p::jsonb))
       and ($7::timestamptz is null or (r.started_at, r.run_id) < ($7, $8::uuid))
     order by r.started_at desc, r.run_id desc limit $9
"""

SMALL_STEPS = (
    (
        "list_runs",
        ("v_step integer := 1000", "v_step integer := 5"),
        ("v_step := 4000", "v_step := 9"),
        ("v_few constant integer := 5000", "v_few constant integer := 25"),
        ("v_looked >= 5000 and cardinality(v_found) * 400", "v_looked >= 14 and cardinality(v_found) * 4"),
    ),
    ("walk_runs", ("greatest(20, 2 * p_limit", "greatest(2, p_limit / 2")),
)
"""So that a few hundred runs are as many to it as millions."""

PATTERNS: tuple[list[dict[str, Any]] | None, ...] = (
    None, [{}], [{"half": True}], [{"n": 0}], [{"n": 3}], [{"n": 9}, {"n": 12}], [{"n": 0, "half": False}], [{"n": 99}],
)  # fmt: skip

# with hours in common with runs, and not
TIMES = st.none() | st.integers(-2, 125).map(lambda n: DAY + timedelta(minutes=30 * n))
QUESTIONS = st.fixed_dictionaries(
    {"limit": st.integers(1, 12) | st.just(500)},
    optional={
        "workflow": st.sampled_from(["a", "b", "d", "nowhere"]),
        "status": st.sampled_from(STATUSES),
        "since": TIMES,
        "until": TIMES,
        "after_time": TIMES.filter(bool),
        "any_of": st.sampled_from(PATTERNS[1:]),
    },
)


@pytest.fixture(scope="module")
def random_world(any_server: postgres.Server) -> Iterator[str]:
    """Full of starts at the same moment, in a database whose walks are short."""
    url = any_server.create()

    async def build() -> None:
        connection = await asyncpg.connect(url)
        stage = Stage(url, None, Client(connection, "t"))  # type: ignore[arg-type]
        for function, *replacements in SMALL_STEPS:
            await stage.weaken(function, *replacements)  # type: ignore[arg-type]
        await connection.execute(RANDOM_WORLD)
        await connection.close()

    asyncio.run(build())
    yield url
    any_server.drop(url)


async def test_a_page_is_what_a_naive_query_finds(random_world: str) -> None:
    """Every combination of filters, with a page that is filled and with one that is not."""
    connection = await asyncpg.connect(random_world)
    early, middle, late = (DAY + timedelta(hours=hours) for hours in (10, 25, 30))
    for workflow, status, (since, until), cursor, patterns, limit in itertools.product(
        (None, "a", "d"),
        (None, *STATUSES),
        ((None, None), (early, None), (None, middle), (early, middle)),
        ({}, {"after_time": late, "after_id": UUID(int=1 << 127)}),
        PATTERNS,
        (4, 500),
    ):
        asked = query(limit, workflow=workflow, status=status, since=since, until=until, any_of=patterns, **cursor)
        found = await connection.fetchval(LIST, "t", *asked) or []
        assert found == [row[0] for row in await connection.fetch(NAIVE, "t", *asked)], asked
    await connection.close()


@given(QUESTIONS, st.sampled_from(["t", "t", "other", "nobody"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_together_are_what_a_naive_query_finds(random_world: str, question: dict[str, Any], tenant: str) -> None:
    async def check() -> None:
        connection = await asyncpg.connect(random_world)
        try:
            if "after_time" in question:
                question["after_id"] = UUID(int=1 << 127)
            client, asked = Client(connection, tenant), query(**question)
            everything = [row[0] for row in await connection.fetch(NAIVE, tenant, *asked._replace(limit=1000))]
            found: list[UUID] = []
            while records := await client.runs.page(asked):
                found += [record.run_id for record in records]
                asked = asked._replace(after_time=records[-1].started_at, after_id=records[-1].run_id)
            assert found == everything
        finally:
            await connection.close()

    asyncio.run(check())


async def listed(client: Client, **filters: Any) -> list[UUID]:
    return [record.run_id for record in await client.runs.page(query(**filters))]


async def test_each_way_to_start_and_to_end_a_run_is_listed(stage: Stage) -> None:
    worker, client = await stage.worker(), stage.root
    alone = await client.new()
    together = [started.run_id for started in await client.start(run(), run(), run(), run())]
    again = run().run_id
    assert await client.runs.rerun(alone, again, None, {}) == "ok"
    child = await client.new(parent=alone, call="invoke")
    everything = [child, again, *sorted(filter(None, together), reverse=True), alone]
    assert await listed(client) == await listed(client, status="running") == everything
    assert await listed(client, workflow="w", status="running") == everything

    outs = {out.run_id: out for out in await worker.claim()}
    first, second, third, fourth = everything[2:6]
    assert await worker.end(outs[alone]) == "ok"
    assert (await worker.commit(*[end(outs[run_id]) for run_id in (first, second)])).ends in (None, [])
    assert await client.runs.cancel(third) == "cancelled"
    await client.execute("select onward.fail_poison($1, onward.now())", [fourth])
    for filters in ({}, {"workflow": "w"}):
        assert await listed(client, **filters) == everything
        assert await listed(client, status="running", **filters) == [child, again]
        assert await listed(client, status="completed", **filters) == [first, second, alone]
        assert await listed(client, status="cancelled", **filters) == [third]
        assert await listed(client, status="failed", **filters) == [fourth]
    assert await client.fetchval("select count(*) from onward.running") == 2


FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"workflow": "w"},
    {"has": {"x": 1}},
    {"status": "running"},
    {"status": "completed"},
    {"status": "completed", "workflow": "w"},
)


@pytest.mark.parametrize("filters", FILTERS, ids=str)
async def test_pages_are_stable_while_rows_arrive(stage: Stage, filters: dict[str, Any]) -> None:
    """No run twice, and none missed that was there and still fits; runs start and end between any two pages."""
    worker, client = await stage.worker("w@1", "v@1"), stage.root

    async def arrive(runs: int) -> None:
        for workflow in ("w", "v"):
            await client.start(*[run(data=b'{"x":1}') for _ in range(runs)], workflow=workflow)
        for out in await worker.claim(runs):
            assert await worker.end(out) == "ok"

    for _ in range(8):
        await arrive(3)
    there = await listed(client, limit=1000, **filters)
    found: list[UUID] = []
    after = None
    while records := await client.runs.page(query(5, after, **filters)):
        found += [record.run_id for record in records]
        after = records[-1]
        await arrive(2)
    assert len(found) == len(set(found))
    still = set(await listed(client, limit=1000, **filters))
    assert [run_id for run_id in found if run_id in there and run_id in still] == [i for i in there if i in still]
    if "status" not in filters:
        assert found == there


async def test_an_upgrade_lists_the_runs_that_were_there(
    any_empty_url: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await connect(any_empty_url)
    before = schema.migrations()[:5]
    with monkeypatch.context() as older:
        older.setattr(schema, "migrations", lambda: before)
        await schema.migrate(connection)
    ids = [UUID(int=n) for n in range(1, 4)]
    for number, run_id in enumerate(ids):
        await connection.execute(
            "insert into onward.run (run_id, tenant, workflow, version, input_hash, started_at) "
            "values ($1, 't', 'w', 1, '', $2)",
            run_id,
            DAY + timedelta(days=number),
        )
        await connection.execute("insert into onward.run_input (run_id, input) values ($1, 'null')", run_id)
    await connection.execute(
        "insert into onward.message (msg_id, tenant, queue, version, visible_at) values ($1, 't', '__wf_w', 1, now())",
        ids[0],
    )
    await connection.execute(
        "insert into onward.run_result (run_id, status, output, completed_at, expires_at) "
        "select unnest($1::uuid[]), 'completed', 'null', now(), 'infinity'",
        ids[1:],
    )
    await schema.migrate(connection)
    client = Client(connection, "t")
    assert await listed(client) == ids[::-1]
    assert await listed(client, status="running") == ids[:1]
    assert await listed(client, status="completed", workflow="w") == ids[:0:-1]


# ---- what a page costs ---------------------------------------------------------------------------------------

MILLION = """
    create temp table world as
    select ('00000000-0000-7000-8000-' || lpad(to_hex(t.number * 10000000 + n), 12, '0'))::uuid as id, t.tenant, n,
           timestamptz '2026-01-01 00:00Z' + n / 7 * interval '1 second' as at,
           case t.tenant when 'wide' then 'w' || n % 100
                         when 'big' then (array['a', 'b', 'c', 'd'])[1 + n % 4] else 'a' end as workflow,
           case t.tenant
                when 'big' then case when n > 10 * 77 then 'completed'
                                     when n % 77 = 0 then 'failed' when n % 77 = 1 then 'running' else 'cancelled' end
                when 'asleep' then case when n % 20000 = 7 then 'completed' else 'running' end
                else (array['running', 'completed', 'failed', 'cancelled'])[1 + n / 100 % 4] end as status
      from (values (1, 'big', 1000000), (2, 'asleep', 200000), (3, 'wide', 40000), (4, 'small', 10))
           t (number, tenant, runs),
           generate_series(1, runs) n;
    insert into onward.run (run_id, tenant, workflow, version, input_hash, retention, started_at)
    select id, tenant, workflow, 1, '', interval '30 days', at from world;
    insert into onward.run_input (run_id, input, search)
    select id, '{}', jsonb_build_object('id', n, 'half', n % 2, 'tag', n % 100, 'few', n % 1000) from world;
    insert into onward.run_result
           (run_id, status, output, error, completed_at, expires_at, tenant, workflow, started_at)
    select id, status, case status when 'completed' then 'null'::bytea end,
           case status when 'failed' then '{}'::bytea end, at, 'infinity', tenant, workflow, at
      from world where status <> 'running';
    insert into onward.running (tenant, workflow, started_at, run_id)
    select tenant, workflow, at, id from world where status = 'running';
    insert into onward.message (msg_id, tenant, queue, version, visible_at)
    select id, tenant, '__wf_' || workflow, 1, case n % 2 when 0 then now() else 'infinity' end
      from world where status = 'running';
"""

SECONDARY = """
    from pg_index x join pg_class t on t.oid = x.indrelid
   where t.relnamespace = 'onward'::regnamespace and not x.indisunique
     and t.relname in ('run', 'run_input', 'run_result', 'running')
"""


@pytest.fixture(scope="module")
def million(bundled_server: postgres.Server) -> Iterator[str]:
    """Four tenants. `big`: a million runs, all completed but for the oldest: 10 failed, 10 running, the rest cancelled;
    `asleep`: all running but for 10; `wide`: many workflows, every status; `small`: ten runs."""
    url = bundled_server.create()

    async def build() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("set maintenance_work_mem = '512MB'; set work_mem = '64MB'")
        indexes = await connection.fetch(f"select x.indexrelid::regclass, pg_get_indexdef(x.indexrelid) {SECONDARY}")
        for name, _ in indexes:
            await connection.execute(f"drop index {name}")
        await connection.execute(MILLION)
        for _, definition in indexes:
            await connection.execute(definition)
        for table in ("run", "run_input", "run_result", "running", "message"):
            await connection.execute(f"vacuum (analyze) onward.{table}")
        await connection.close()

    asyncio.run(build())
    yield url
    bundled_server.drop(url)


FULL = """
    create temp table world as
    select gen_random_uuid() as id, now() + n * interval '1 second' as at from generate_series(1, 20000) n;
    insert into onward.run (run_id, tenant, workflow, input_hash, started_at) select id, 't', 'a', '', at from world;
    insert into onward.run_input (run_id, input, search) select id, '', '{"n": 1}' from world;
    insert into onward.running (tenant, workflow, started_at, run_id) select 't', 'a', at, id from world;
    insert into onward.run_result (run_id, status, output, completed_at, expires_at, tenant, workflow, started_at)
    select id, 'completed', '', at, at, 't', 'a', at from world;
"""


class Case(NamedTuple):
    """`found` runs are on the page, and at most `rows` were looked at for it, in tables and indexes together."""

    tenant: str
    asked: ListQuery
    found: int
    rows: int


LAST = DAY + timedelta(seconds=1_000_000 // 7)
DEEP = {"after_time": LAST - timedelta(seconds=500_000 // 7), "after_id": UUID(int=0)}
"""The 10,000th page of fifty."""

CASES = {
    "all": Case("big", query(), 50, 60),
    "all, deep": Case("big", query(**DEEP), 50, 60),
    "all, a thousand": Case("big", query(1000), 1000, 1100),
    "workflow": Case("big", query(workflow="a"), 50, 60),
    "workflow, deep": Case("big", query(workflow="a", **DEEP), 50, 60),
    "workflow that is not there": Case("big", query(workflow="x"), 0, 10),
    "since": Case("big", query(since=LAST), 2, 10),
    "until": Case("big", query(until=DAY + timedelta(hours=1)), 50, 60),
    "since and until": Case("big", query(since=DAY + timedelta(hours=1), until=DAY + timedelta(hours=2)), 50, 60),
    "workflow, since and until": Case("big", query(workflow="b", since=DAY, until=DAY + timedelta(seconds=2)), 4, 10),
    "before all": Case("big", query(until=DAY), 0, 10),
    "completed, common": Case("big", query(status="completed"), 50, 250),
    "completed, common, deep": Case("big", query(status="completed", **DEEP), 50, 250),
    "completed, common, of a workflow": Case("big", query(status="completed", workflow="c"), 50, 60),
    "completed, common, a thousand": Case("big", query(1000, status="completed"), 1000, 2500),
    "failed, rare": Case("big", query(status="failed"), 10, 100),
    "failed, rare, of a workflow": Case("big", query(status="failed", workflow="a"), 2, 10),
    "failed, rare, since": Case("big", query(status="failed", since=DAY + timedelta(hours=1)), 0, 10),
    "cancelled, long ago": Case("big", query(status="cancelled"), 50, 250),
    "running, rare": Case("big", query(status="running"), 10, 100),
    "running, rare, of a workflow": Case("big", query(status="running", workflow="a"), 2, 10),
    "running, common": Case("asleep", query(status="running"), 50, 150),
    "running, common, of a workflow": Case("asleep", query(status="running", workflow="a"), 50, 60),
    "completed, rare": Case("asleep", query(status="completed"), 10, 100),
    "failed, none": Case("asleep", query(status="failed"), 0, 10),
    "completed, of a hundred workflows": Case("wide", query(status="completed"), 50, 2500),
    "running, of a hundred workflows": Case("wide", query(status="running"), 50, 2500),
    "a small tenant": Case("small", query(), 10, 20),
    "a small tenant, running": Case("small", query(status="running"), 10, 60),
    "a small tenant, failed": Case("small", query(status="failed"), 0, 10),
    "nobody": Case("nobody", query(), 0, 10),
    "nobody, running": Case("nobody", query(status="running"), 0, 10),
    "input of one run": Case("big", query(has={"id": 77}), 1, 11_000),
    "input of none": Case("big", query(has={"id": -1}), 0, 11_000),
    "input of one run, failed": Case("big", query(has={"id": 77}, status="failed"), 1, 50),
    "input of half": Case("big", query(has={"half": 1}), 50, 1200),
    "input of half, deep": Case("big", query(has={"half": 1}, **DEEP), 50, 1200),
    "input of half, of a workflow": Case("big", query(has={"half": 1}, workflow="b"), 50, 1200),
    "input of half, completed": Case("big", query(has={"half": 1}, status="completed"), 50, 2500),
    "input of half, failed, rare": Case("big", query(has={"half": 1}, status="failed"), 5, 50),
    "input of half, running, rare": Case("big", query(has={"half": 1}, status="running"), 5, 50),
    "input of one in 100": Case("big", query(has={"tag": 5}), 50, 15_000),
    "input of one in 100, deep": Case("big", query(has={"tag": 5}, **DEEP), 50, 15_000),
    "input of one in 100, completed": Case("big", query(has={"tag": 5}, status="completed"), 50, 25_000),
    "input of one in 1000": Case("big", query(has={"few": 5}), 50, 15_000),
    "input of one in 1000, until": Case("big", query(has={"few": 5}, until=LAST - timedelta(days=1)), 50, 15_000),
    "input of one in 1000, completed": Case("big", query(has={"few": 5}, status="completed"), 50, 30_000),
    "input that a workflow never has": Case("big", query(has={"few": 4}, workflow="b"), 0, 15_000),
    "input, a small tenant": Case("small", query(has={"half": 1}), 5, 50),
}


@pytest.fixture
async def connection(million: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(million, server_settings={"jit": "off"})
    yield connection
    await connection.close()


LOOKED_AT = """
    select coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::bigint as entries,
           coalesce(sum(pg_stat_get_xact_numscans(oid)) filter (where relkind = 'r' and reltuples > 1000), 0)::bigint
               as scans
      from pg_class where relnamespace = 'onward'::regnamespace and relkind in ('r', 'i')
"""


async def looked_at(connection: asyncpg.Connection, work: Callable[[], Awaitable[Any]]) -> int:
    """How many entries of tables and indexes it went through; it went through no large table as a whole."""
    async with connection.transaction():  # a session tells its counts now and then, but not within one
        before = await connection.fetchrow(LOOKED_AT)
        await work()
        after = await connection.fetchrow(LOOKED_AT)
    assert before is not None
    assert after is not None
    assert after["scans"] == before["scans"]
    return int(after["entries"] - before["entries"])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_page_costs_its_rows_and_no_more(connection: asyncpg.Connection, case: Case) -> None:
    """The plan guard: what the page had the database go through, entry by entry."""
    client = Client(connection, case.tenant)
    for _ in range(6):  # by then a session has chosen its plans
        found = await connection.fetchval(LIST, case.tenant, *case.asked) or []
        await client.runs.describe(found)
    assert len(found) == case.found
    assert await looked_at(connection, lambda: connection.fetchval(LIST, case.tenant, *case.asked)) <= case.rows
    assert await looked_at(connection, lambda: client.runs.describe(found)) <= 5 * len(found) + 15


PLANNED = (
    query(),
    query(workflow="a"),
    query(status="completed"),
    query(status="completed", workflow="a"),
    query(status="running"),
    query(status="running", workflow="a"),
    query(has={"n": 1}),
    query(has={"n": 1}, status="completed"),
    query(has={"n": 2}),
    query(has={"n": 2}, status="running"),
)


@pytest.mark.parametrize("asked", PLANNED, ids=str)
async def test_a_plan_that_was_made_for_an_empty_database_holds_for_a_full_one(stage: Stage, asked: ListQuery) -> None:
    """Nobody has counted the rows since."""
    connection = stage.root.session
    for _ in range(6):
        assert not await connection.fetchval(LIST, "t", *asked)
    await connection.execute(FULL)
    entries = await looked_at(connection, lambda: connection.fetchval(LIST, "t", *asked))
    assert entries <= (18_000 if asked.patterns else 200)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_page_takes_less_than_50_milliseconds(connection: asyncpg.Connection, case: Case) -> None:
    """... of a million runs, with what there is to tell of each."""
    client = Client(connection, case.tenant)
    assert await median(lambda: client.runs.page(case.asked)) < 0.05


async def test_the_counts_of_workflows_take_less_than_50_milliseconds(connection: asyncpg.Connection) -> None:
    """They are sums of what happened: here as much as comes between two foldings, and a hundred workflows."""
    client = Client(connection, "counted")
    await connection.execute(
        "insert into onward.tally (tenant, workflow, metric, label, count) "
        "select 'counted', 'w' || n % 100, 'started', '', 50 from generate_series(1, 20000) n"
    )
    assert sum(count.running for count in await client.runs.workflows()) == 1_000_000
    assert await median(client.runs.workflows) < 0.05


async def median(work: Callable[[], Awaitable[Any]], times: int = 9) -> float:
    """Seconds, in a session that has warmed up."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)
