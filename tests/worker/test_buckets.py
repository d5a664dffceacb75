"""Payloads in a bucket: the engine on a real S3 server, which may stop, be slow, or refuse."""

from __future__ import annotations

from typing import Any

import pytest

import s3 as servers
from onward import Client, Context, workflow

calls: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


@pytest.fixture
def bucket(reached: servers.Server, no_store: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """The store of this test's database."""
    name = reached.bucket()
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", f"s3://{name}/prefix")
    return name


def keys(server: servers.Server, bucket: str) -> list[str]:
    """What lies there, but for what a worker writes to see whether it can."""
    found = [found["Key"] for found in server.client.list_objects_v2(Bucket=bucket).get("Contents", ())]
    return [key for key in found if "/tmp/" not in key]


def video() -> bytes:
    calls.append("video")
    return b"\x00\x01" * (10 << 20)


def text() -> str:
    calls.append("text")
    return "t" * 100_000


@workflow
async def edits(ctx: Context, title: str) -> int:
    film = await ctx.step.run("film", video)
    words = await ctx.step.run("words", text)
    await ctx.step.wait_for_event("go")
    return len(film) + len(words) + len(title)


async def test_a_run_keeps_its_payloads_in_a_bucket_and_finds_them_on_replay(
    world: Any, reached: servers.Server, bucket: str, until: Any
) -> None:
    worker = await world.worker(edits)
    run = await world.client.start(edits, "t" * 70_000)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    await worker.stop()
    await world.worker(edits)
    await run.signal("go")
    assert await run.result(timeout=30) == (20 << 20) + 100_000 + 70_000
    assert calls == ["video", "text"]
    below = f"prefix/onward/workflow-payloads/default/edits/{run.id}/"
    inputs = f"prefix/onward/executions/default/edits/{run.id}/input.json"
    assert set(keys(reached, bucket)) == {below + "film.bin", below + "words.txt", inputs}


async def test_a_server_that_stops_in_the_middle_delays_the_step_and_runs_it_once(
    world: Any, reached: servers.Server, bucket: str, until: Any
) -> None:
    await world.worker(edits)
    with reached.frozen():
        run = await world.client.start(edits, "title")
        told = await until(lambda: world.value("select trouble from onward.message"), seconds=30)
    assert "film" in told
    await run.signal("go")
    assert await run.result(timeout=40) == (20 << 20) + 100_000 + 5
    assert calls == ["video", "text"]


async def test_refused_credentials_are_told_and_the_run_goes_on_once_they_are_right(
    world: Any, reached: servers.Server, bucket: str, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")
    worker = await world.worker(edits)
    run = await world.client.start(edits, "title")
    told = await until(lambda: world.value("select trouble from onward.message"), seconds=30)
    assert "a-wrong-secret" not in told
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.SECRET)
    await world.crash(worker)  # credentials are read when a process starts
    await world.worker(edits)
    await run.signal("go")
    assert await run.result(timeout=30) == (20 << 20) + 100_000 + 5


async def test_the_store_is_recorded_so_a_client_needs_credentials_and_no_address(
    world: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.worker(edits)
    monkeypatch.delenv("ONWARD_PAYLOAD_URL")
    async with Client(world.url) as client:
        run = await client.start(edits, "t" * 70_000)
        seen = await run.get()
        assert await seen.input.load() == "t" * 70_000
