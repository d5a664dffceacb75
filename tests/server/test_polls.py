"""Laws of waiting: a poll ends with its run, holds no connection, and does not hold up a server that stops."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from onward import Context, workflow
from onward.server import runs
from server.conftest import Open
from server.sites import HEADERS, Site, refused


@workflow
async def waits(ctx: Context) -> None:
    await ctx.step.wait_for_event("go")


async def test_a_poll_is_answered_when_its_run_ends(site: Site) -> None:
    await site.worker(waits)
    run = await site.client.start(waits)
    poll = asyncio.create_task(site.http.get(f"/v1/runs/{run.id}?wait=60s", timeout=70))
    while not await site.sql("select from onward.awaited"):
        await asyncio.sleep(0.01)
    await run.signal("go")
    assert (await asyncio.wait_for(poll, 10)).json()["status"] == "completed"


async def test_a_poll_is_over_when_its_time_is_and_gives_the_run_as_it_is(site: Site) -> None:
    run = await site.client.start("nobody")
    began = time.monotonic()
    answer = await site.http.get(f"/v1/runs/{run.id}?wait=200ms")
    assert answer.json()["status"] == "running"
    assert 0.2 <= time.monotonic() - began < 5


async def test_no_poll_waits_longer_than_a_minute(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LONGEST_WAIT", 0.1)
    run = await site.client.start("nobody")
    assert (await site.http.get(f"/v1/runs/{run.id}?wait=7d", timeout=10)).json()["status"] == "running"
    refused(await site.http.get(f"/v1/runs/{run.id}?wait=soon"), 422, "invalid-input")


async def test_a_poll_for_no_run_is_not_found_at_once(site: Site) -> None:
    refused(await site.http.get(f"/v1/runs/{'0' * 32}?wait=60s", timeout=10), 404, "not-found")


async def test_many_polls_use_few_connections_and_others_get_through(site: Site) -> None:
    run = await site.client.start("nobody")
    async with httpx.AsyncClient(
        base_url=site.serving.url, headers=HEADERS, limits=httpx.Limits(max_connections=None), timeout=60
    ) as http:
        polls = [asyncio.create_task(http.get(f"/v1/runs/{run.id}?wait=60s")) for _ in range(300)]
        service = site.app.service
        link = service.client("default")._link
        while sum(map(len, link._results._waits.values() if link._results else [])) < 300:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        count = "select count(*) from pg_stat_activity where datname = current_database() and application_name = $1"
        [mine] = await site.sql(count, "onward client")
        assert mine[0] <= 5 + 2, "five of the server, and what the test's own client has"
        assert (await site.http.get("/v1/runs")).status_code == 200
        await run.cancel()
        assert {answer.json()["status"] for answer in await asyncio.gather(*polls)} == {"cancelled"}


async def test_who_goes_away_is_waited_for_no_more(site: Site) -> None:
    run = await site.client.start("nobody")
    poll = asyncio.create_task(site.http.get(f"/v1/runs/{run.id}?wait=60s"))
    link = site.app.service.client("default")._link
    while not (link._results and link._results._waits):  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)
    poll.cancel()
    async with asyncio.timeout(5):
        while link._results._waits:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)


# ---- stopping ------------------------------------------------------------------------------------------------


async def test_a_server_that_stops_answers_its_polls_at_once(open_site: Open) -> None:
    site = await open_site()
    run = await site.client.start("nobody")
    poll = asyncio.create_task(site.http.get(f"/v1/runs/{run.id}?wait=60s", timeout=70))
    while not await site.sql("select from onward.awaited"):
        await asyncio.sleep(0.01)
    began = time.monotonic()
    await site.serving.stop()
    answer = await poll
    assert (answer.status_code, answer.json()["status"]) == (200, "running")
    assert time.monotonic() - began < 3
    with pytest.raises(httpx.ConnectError):
        await site.http.get("/healthz")


async def test_a_request_that_is_being_answered_gets_its_time(site: Site) -> None:
    """The database takes the start only after the server was told to stop."""
    line = (await site.client.database()).line()
    await line.fetch("begin")
    await line.fetch("lock table onward.run")
    start = asyncio.create_task(site.http.post("/v1/workflows/hello/runs", json={"input": 1}))
    while not await site.sql("select from pg_locks where not granted"):
        await asyncio.sleep(0.01)
    stop = asyncio.create_task(site.serving.stop())
    while not site.app.service.stopping.is_set():
        await asyncio.sleep(0.01)
    await line.fetch("commit")
    assert (await start).status_code == 201
    await stop
    line.close()


async def test_a_stop_waits_no_longer_than_its_grace(open_site: Open) -> None:
    """... and who still waits is told to ask again."""
    site = await open_site(grace=1)
    line = (await site.client.database()).line()
    await line.fetch("begin")
    await line.fetch("lock table onward.run")
    start = asyncio.create_task(site.http.post("/v1/workflows/hello/runs"))
    while not await site.sql("select from pg_locks where not granted"):
        await asyncio.sleep(0.01)
    began = time.monotonic()
    await site.serving.stop()
    assert time.monotonic() - began < 5
    refused(await start, 503, "unavailable")
    line.close()


async def test_a_stop_may_be_asked_for_twice(open_site: Open) -> None:
    site = await open_site()
    await site.serving.stop()
    await site.serving.stop()
    await site.app.close()
