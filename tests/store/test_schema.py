"""Setting up and upgrading the schema, and that claims stay cheap on a full table."""

from __future__ import annotations

import asyncio
import re
from importlib import resources

import asyncpg
import pytest

from onward.errors import SchemaMismatch
from onward.store import schema
from postgres import Connect
from store.stage import Stage

FUNCTIONS = resources.files("onward.store") / "sql" / "functions"


async def set_version(connection: asyncpg.Connection, number: int) -> None:
    await connection.execute("update onward.setting set value = $1 where name = 'schema'", str(number))


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> int:
    """A release that comes after this one, with one more migration."""
    number = schema.newest() + 1
    later = (*schema.migrations(), (number, "create table onward.later ()"))
    monkeypatch.setattr(schema, "migrations", lambda: later)
    return number


async def test_of_many_that_migrate_at_once_one_applies(any_empty_url: str, connect: Connect) -> None:
    connections = [await connect(any_empty_url) for _ in range(8)]
    applied = await asyncio.gather(*[schema.migrate(connection) for connection in connections])
    everything = [number for number, _ in schema.migrations()]
    assert sorted(applied) == [[]] * 7 + [everything]
    assert await schema.version(connections[0]) == schema.newest()


async def test_of_many_that_begin_on_an_empty_database_all_find_the_schema(
    any_empty_url: str, connect: Connect
) -> None:
    connections = [await connect(any_empty_url) for _ in range(8)]
    await asyncio.gather(*[schema.ensure(connection) for connection in connections])
    assert await connections[0].fetchval("select count(*) from onward.message") == 0


async def test_a_dry_run_changes_nothing(any_empty_url: str, connect: Connect) -> None:
    connection = await connect(any_empty_url)
    everything = [number for number, _ in schema.migrations()]
    assert await schema.migrate(connection, dry_run=True) == everything
    assert await schema.version(connection) == 0
    assert await schema.migrate(connection) == everything
    assert await schema.migrate(connection, dry_run=True) == []


async def test_a_migration_may_be_repeated(any_url: str, connect: Connect) -> None:
    connection = await connect(any_url)
    assert await schema.migrate(connection) == []
    await schema.ensure(connection)


async def test_an_older_schema_is_left_for_a_person_to_upgrade(any_url: str, connect: Connect, newer: int) -> None:
    connection = await connect(any_url)
    with pytest.raises(SchemaMismatch, match="onward migrate"):
        await schema.ensure(connection)
    assert await schema.version(connection) == newer - 1
    assert await schema.migrate(connection, dry_run=True) == [newer]
    assert await schema.migrate(connection) == [newer]
    await schema.ensure(connection)
    assert await connection.fetchval("select count(*) from onward.later") == 0


async def test_an_upgrade_is_made_whole_or_not_at_all(
    any_url: str, connect: Connect, newer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await connect(any_url)
    monkeypatch.setattr(schema, "functions", lambda: "select 1 / 0")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await schema.migrate(connection)
    assert await schema.version(connection) == newer - 1
    assert await connection.fetchval("select to_regclass('onward.later')") is None


async def test_a_newer_schema_asks_for_a_newer_package(any_url: str, connect: Connect) -> None:
    connection = await connect(any_url)
    await set_version(connection, schema.newest() + 1)
    for attempt in (schema.ensure, schema.migrate):
        with pytest.raises(SchemaMismatch, match="upgrade the package"):
            await attempt(connection)
    assert await schema.version(connection) == schema.newest() + 1


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [number for number, _ in schema.migrations()] == list(range(1, schema.newest() + 1))


@pytest.mark.parametrize("name", sorted(file.name for file in FUNCTIONS.iterdir()))
def test_each_function_has_a_file_of_its_name_that_says_who_calls_it(name: str) -> None:
    text = (FUNCTIONS / name).read_text("utf-8")
    header, _, rest = text.partition("create or replace function ")
    assert re.findall(r"create or replace function onward\.(\w+)", text) == [name.removesuffix(".sql")]
    assert rest
    lines = header.strip().splitlines()
    assert all(line.startswith("--") for line in lines)
    if name != "now.sql":  # by everything
        assert "called by" in header.lower()


@pytest.mark.parametrize("name", sorted(file.name for file in FUNCTIONS.iterdir()))
async def test_shipped_functions_compile(stage: Stage, name: str) -> None:
    """The schema is loaded without a look at the bodies, because they call each other."""
    await stage.root.execute((FUNCTIONS / name).read_text("utf-8"))


# ---- claims on a full table ------------------------------------------------------------------------------------

SLEEPERS = """
    insert into onward.message (msg_id, tenant, queue, version, visible_at)
    select gen_random_uuid(), 't', '__wf_w', 1, onward.now() + make_interval(days => 1, secs => n)
      from generate_series(1, 100000) n
"""


async def claimed_pages(stage: Stage) -> int:
    """How many pages claims touch in steady use: of one due run, and of none."""
    worker = await stage.worker()
    for _ in range(6):  # the first ones fill caches and choose plans
        await stage.root.new()
        assert len(await worker.claim()) == 1
        assert await worker.claim() == []
    await stage.root.new()
    pages = 0
    for due in (1, 0):
        await worker.execute("begin")
        lines = await worker.fetch(
            f"explain (analyze, buffers, timing off, summary off) select * from onward.claim({worker.id}, 10)"
        )
        text = "\n".join(line[0] for line in lines)
        assert f"rows={due}" in text
        found = re.search(r"Buffers: shared hit=(\d+)(?: read=(\d+))?", text)
        assert found
        pages += sum(int(count or 0) for count in found.groups())
        await worker.execute("commit")
    return pages


async def test_sleepers_cost_a_claim_nothing(stage: Stage) -> None:
    before = await claimed_pages(stage)
    await stage.root.execute(SLEEPERS)
    await stage.root.execute("vacuum analyze onward.message")
    after = await claimed_pages(stage)
    assert after < before + 30, "a level more of an index here and there, not a walk through 100,000 rows"


async def test_claims_go_by_their_index(stage: Stage) -> None:
    """The claim's own inner query, as the shipped file has it."""
    await stage.root.execute(SLEEPERS)
    await stage.root.execute("vacuum analyze onward.message")
    worker = await stage.worker("w@1", "w@2", "v@1")
    text = (FUNCTIONS / "claim.sql").read_text("utf-8")
    found = re.search(r"into v_ids,.*?\bfrom\s+(\(.*?\) due);", text, re.DOTALL)
    assert found
    for setting in re.findall(r"set (enable_\w+ = off)", text):
        await worker.execute(f"set {setting}")
    query = found[1].replace("p_worker", str(worker.id)).replace("p_n", "10").replace("v_now", "now()")
    plan = "\n".join(line[0] for line in await worker.fetch(f"explain select * from {query}"))
    assert "message_claim" in plan
    assert "Seq Scan on message" not in plan
