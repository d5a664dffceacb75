"""What the payload store costs: beside writing the same bytes bare, and where nothing needs it."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import measures
import obstore
from measures import Place, Result
from obstore.store import LocalStore

from onward.client.payloads import Payloads
from onward.core.codec import PLAIN
from onward.payloads.layout import Owner
from onward.payloads.settings import Settings
from onward.store.database import Database

VALUES, SIZE, AT_ONCE = 1000, 100_000, 32


async def offloading(place: Place) -> Result:
    """A thousand values of 100 KB, encoded, written and made pointers, against obstore writing the same bytes."""
    values = [os.urandom(SIZE // 2 - 1).hex() for _ in range(int(VALUES * place.scale))]
    with tempfile.TemporaryDirectory(prefix="onward-bench-") as folder:
        database = Database(place.url)
        settings = Settings(url=(Path(folder) / "payloads").as_uri())
        await place.bare.execute("delete from onward.setting where name like 'payload%'")
        payloads = Payloads(database, settings)
        (Path(folder) / "bare").mkdir()
        store = LocalStore(Path(folder) / "bare")

        owner = Owner("default", "bench", uuid4())

        async def offload(value: str) -> None:
            data, value = PLAIN.trip(value, "a value")
            step = uuid4().hex
            await payloads.journalled(data, "a value", lambda at, kind: at.step(owner, step, kind), value=value)

        async def bare(value: str) -> None:
            await obstore.put_async(store, f"bench/{owner.run_id}/{uuid4()}.txt", value.encode())

        await _all(offload, values[:50])
        pairs = [(await _all(offload, values), await _all(bare, values)) for _ in range(5)]
        await database.close()
        await place.bare.execute("delete from onward.setting where name like 'payload%'")
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    detail = f"{ours * 1000:.0f} ms, obstore {theirs * 1000:.0f} ms"
    return Result(f"offloading {len(values):,} values of 100 KB against obstore", ratio, detail, at_most=2.5)


async def _all(work: Callable[[str], Awaitable[None]], values: list[str]) -> float:
    """Seconds for all of them, so many at once."""
    began, waiting = time.perf_counter(), iter(values)

    async def some() -> None:
        for value in waiting:
            await work(value)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return time.perf_counter() - began


async def throughput_with_a_store(place: Place) -> Result:
    """W1 with a store configured, against none: small values should not notice."""
    name = await place.bare.fetchval("select current_database()")
    rounds = []
    for _ in range(5):
        with_store = await measures.rate(place, 1)
        await place.bare.execute(f"alter database \"{name}\" set onward.payloads = ''")
        without = await measures.rate(place, 1)
        await place.bare.execute(f'alter database "{name}" reset onward.payloads')
        rounds.append((with_store, without))
    ratio = statistics.median(a / b for a, b in rounds)
    a, b = (statistics.median(column) for column in zip(*rounds, strict=True))
    return Result("W1 with a payload store against none", ratio, f"{a:,.0f} and {b:,.0f} steps/s", at_least=0.97)


MEASURES: list[Callable[[Place], Awaitable[Result]]] = [offloading, throughput_with_a_store]
