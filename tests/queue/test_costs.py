"""What receivers pay for a million messages that are not for them."""

from __future__ import annotations

from uuid import UUID

import asyncpg

import postgres
from onward.store.queues import MessageRecord, Queues
from postgres import Connect

MILLION = """
    insert into onward.queued (msg_id, tenant, queue, group_id, head, visible_at, receipt, enqueued_at, body)
    select gen_random_uuid(), 't', 'q', g, head, at + make_interval(days => d), 0, at, '1'
      from (select onward.now() as at) clock,
           (select null as g, true as head, 1 + n % 7 as d from generate_series(1, 500000) n
            union all select 'busy', false, 1 from generate_series(1, 300000) n
            union all select 'g' || n, true, 1 from generate_series(1, 200000) n) m
"""

SOME = """
    insert into onward.queued (msg_id, tenant, queue, group_id, head, visible_at, receipt, enqueued_at, body)
    select gen_random_uuid(), 't', 'q', case when n > 9 then 's' || n else 'busy' end, n = 1 or n > 9,
           at + interval '1 day', 0, at, '1'
      from (select onward.now() as at) clock, generate_series(1, 20000) n
"""
GROUPS = """
    insert into onward.queue_group (tenant, queue, group_id)
    select distinct tenant, queue, group_id from onward.queued where group_id is not null on conflict do nothing
"""


async def filled(connection: asyncpg.Connection) -> None:
    """Indexes are made afterwards: that takes a fifth of the time."""
    indexes = await connection.fetch(
        "select indexname, indexdef from pg_indexes where tablename = 'queued' and indexname <> 'queued_pkey'"
    )
    await connection.execute("set synchronize_seqscans = off; set maintenance_work_mem = '256MB'")
    await connection.execute("alter table onward.queued drop constraint queued_pkey")
    for name, _ in indexes:
        await connection.execute(f"drop index onward.{name}")
    await connection.execute(MILLION)
    await connection.execute("alter table onward.queued add constraint queued_pkey primary key (msg_id)")
    for _, definition in indexes:
        await connection.execute(definition)
    await connection.execute(GROUPS)


async def touched(connection: asyncpg.Connection, call: str) -> tuple[int, int]:
    """How many rows a call reads through indexes, and how many by reading all of a table."""
    counts = """
        select sum(idx_tup_fetch), sum(seq_tup_read) from pg_stat_xact_user_tables
         where relname in ('queued', 'queue_group')
    """
    async with connection.transaction():
        before = await connection.fetchrow(counts)
        await connection.execute(call)
        after = await connection.fetchrow(counts)
    assert before is not None
    assert after is not None
    return after[0] - before[0], after[1] - before[1]


def send(groups: list[str | None]) -> str:
    def array(*values: object, kind: str) -> str:
        return f"array[{', '.join('null' if value is None else str(value) for value in values)}]::{kind}[]"

    n = len(groups)
    columns = (
        array(*["'q'"] * n, kind="text"),
        array(*["gen_random_uuid()"] * n, kind="uuid"),
        array(*[None if group is None else f"'{group}'" for group in groups], kind="text"),
        array(*[None] * n, kind="float8"),
        array(*["'1'"] * n, kind="bytea"),
        array(*[None] * n, kind="text"),
        array(*[None] * n, kind="bytea"),
    )
    return f"select onward.send_messages('t', {', '.join(columns)})"


async def test_a_million_others_cost_a_receiver_nothing(bundled_server: postgres.Server, connect: Connect) -> None:
    """Delayed, in somebody's hands, or behind one that is. Whatever the planner took the tables for: it is asked while
    they are empty, while it believes that a queue of 20,000 groups has one message, and when it knows better."""
    url = bundled_server.create()
    connections = [await connect(url) for _ in range(3)]
    await connections[0].execute("alter table onward.queued set (autovacuum_enabled = off)")
    await connections[0].execute("alter table onward.queue_group set (autovacuum_enabled = off)")
    early = Queues(connections[0], "t")  # type: ignore[arg-type]
    for _ in range(3):
        await connections[0].execute(send([None, "a", "b"]))
        messages = await early.receive("q", 3, 0, 5, None)
        assert await early.delete("q", *held(messages)) == ["deleted"] * 3
    await connections[0].execute(SOME)
    await connections[0].execute(GROUPS)
    await look_at_costs(connections[1])
    await filled(connections[0])
    for connection in connections:
        await look_at_costs(connection)
    await connections[0].execute("analyze onward.queued; analyze onward.queue_group")
    await look_at_costs(await connect(url))
    bundled_server.drop(url)


async def look_at_costs(connection: asyncpg.Connection) -> None:
    async def cheap(call: str, most: int = 60) -> None:
        by_index, by_reading_all = await touched(connection, call)
        assert by_reading_all == 0, call
        assert by_index < most, call

    calls = Queues(connection, "t")  # type: ignore[arg-type]
    await cheap(send([None, "busy", "new", "newer"]))
    await cheap("select * from onward.await_messages(array['t'], array['q'], 0)")
    await cheap("select * from onward.list_messages('t', 'q', 10)")
    await cheap("select * from onward.receive_messages('t', 'q', 10, 0, 5, null)")
    await cheap("select * from onward.receive_messages('t', 'q', 10, 0, 5, '1')")
    found = await calls.receive("q", 10, 0, None, None)
    assert sorted(m.group or "" for m in found) == ["", "new", "newer"]
    ids = f"array[{', '.join(repr(str(m.msg_id)) for m in found)}]::uuid[]"
    await cheap(f"select onward.give_back('t', 'q', {ids}, array[3, 3, 3], null)")
    await cheap("select * from onward.receive_messages('t', 'q', 2, 30, 1, null)")  # all of them are dead
    await cheap("select onward.resend_letters('t', 'q', 10)", 120)
    found = await calls.receive("q", 10, 0, None, None)
    ids = f"array[{', '.join(repr(str(m.msg_id)) for m in found)}]::uuid[]"
    receipts = f"array[{', '.join(str(m.receipt) for m in found)}]"
    await cheap(f"select * from onward.change_visibility('t', 'q', '{found[0].msg_id}', {found[0].receipt}, 60)")
    await cheap(f"select * from onward.delete_messages('t', 'q', {ids}, {receipts})")
    await connection.execute("update onward.queued set receipt = 1 where head and group_id = 'busy'")
    busy = await connection.fetch("select msg_id from onward.queued where head and group_id = 'busy' and receipt = 1")
    for (head,) in busy:
        await cheap(f"select * from onward.delete_messages('t', 'q', array['{head}']::uuid[], array[1])")


def held(messages: list[MessageRecord]) -> tuple[list[UUID], list[int]]:
    return [m.msg_id for m in messages], [m.receipt for m in messages]
