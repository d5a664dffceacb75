"""Laws of a client behind a server: what it raises is what the server met, and what is lost on the way is asked
again."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from onward import Client, Context, Ref, Start, Worker, workflow
from onward.client import remote, transport
from onward.client.problems import KINDS, PREFIX, error_of, kind_of
from onward.client.wire import Problem
from onward.errors import (
    Conflict,
    DatabaseUnavailable,
    InvalidInput,
    InvalidName,
    NotFound,
    OnwardError,
    PayloadCorrupt,
    PayloadTooLarge,
    RunFailed,
    Unauthorized,
)
from onward.server.serving import Serving
from rest import serving


@dataclass
class Order:
    number: int
    at: datetime


@workflow(version=3, retention="7d")
async def ships(ctx: Context, order: Order) -> Order:
    return Order(order.number + 1, order.at)


@workflow
async def large(ctx: Context, size: int) -> str:
    async def outer() -> str:
        return await ctx.step.run("inner", "x".__mul__, size)

    return await ctx.step.run("outer", outer)


@workflow
async def breaks(ctx: Context) -> None:
    raise ValueError("no luck")


@pytest.fixture
async def server(url: str) -> AsyncIterator[Serving]:
    async with serving(url, auth="none") as server:
        yield server


@pytest.fixture
async def client(server: Serving) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


@asynccontextmanager
async def both(url: str, server: Serving) -> AsyncIterator[tuple[Client, Client]]:
    async with Client(url) as near, Client(server.url) as far:
        yield near, far


async def test_both_clients_see_the_same_runs_and_steps(url: str, server: Serving) -> None:
    async with both(url, server) as (near, far), Worker([ships, large, breaks], url):
        runs = [await far.start(ships, Order(1, datetime(2026, 5, 1, tzinfo=UTC))), await near.start(large, 100_000)]
        runs += [await far.start(breaks), await far.start("nobody", {"a": [None, "\0", 2**100, 1.5]}, delay="1h")]
        assert await runs[0].result(timeout=10) == Order(2, datetime(2026, 5, 1, tzinfo=UTC))
        await runs[1].result(timeout=10)
        with pytest.raises(RunFailed, match="no luck"):
            await runs[2].result(timeout=10)
        for run in runs:
            assert await far.get(run.id) == await near.get(run.id)
            assert await far.steps(run.id) == await near.steps(run.id)
        assert (await far.runs()).runs == (await near.runs()).runs
        assert await far.workflows() == await near.workflows()
        assert (await far.get(runs[0].id)).retention == timedelta(days=7)


async def test_a_large_value_comes_whole_and_its_reference_is_loaded_through_the_server(
    url: str, client: Client
) -> None:
    async with Worker(large, url):
        run = await client.start(large, 100_000)
        assert await run.result(timeout=10) == "x" * 100_000
        output = (await run.get()).output
        assert isinstance(output, Ref)
        assert await output.load() == "x" * 100_000
        steps = {step.name: step.output for step in await run.steps()}
        assert await steps["inner"].load() == "x" * 100_000
        broken = Ref(
            output.pointer.__class__(output.key, "0" * 64, output.size, "application/json"), output._codec, output._load
        )
        with pytest.raises(PayloadCorrupt):
            await broken.load()


async def test_pages_and_filters_are_those_of_the_database(url: str, server: Serving) -> None:
    async with both(url, server) as (near, far):
        started = [await far.start("w", {"user": {"id": n % 2, "name": "a&b=c"}}) for n in range(5)]
        for wanted in ({"user.id": 1}, {"user": {"id": 0}, "user.name": "a&b=c"}, {"": 1}, {"user.id": "1"}):
            assert (await far.runs("w", input=wanted, limit=2)).runs == (
                await near.runs("w", input=wanted, limit=2)
            ).runs
        assert [run.id async for run in far.runs(limit=2)] == [run.id for run in started[::-1]]
        at = (await started[2].get()).started_at
        assert len((await far.runs(since=at)).runs) == 3
        assert len((await far.runs(until=at, status="running")).runs) == 2


async def test_every_problem_comes_back_as_the_error_that_it_was() -> None:
    for kind in KINDS.values():
        error = error_of(Problem(f"{PREFIX}{kind.name}", kind.title, kind.status, "so it is"))
        assert type(error) is kind.error
        assert str(error) == "so it is"
        if kind.error is not OnwardError and kind.name not in ("malformed", "body-too-large", "unsupported-media-type"):
            assert kind_of(error) is kind
    assert type(error_of(Problem(f"{PREFIX}of-a-newer-server", "", 418, "x"))) is OnwardError
    assert kind_of(ValueError("secret")).name == "internal"


async def test_errors_are_those_of_the_database(url: str, server: Serving) -> None:
    async with both(url, server) as (near, far):
        ended = await near.start("w", idempotency_key="k")
        await ended.cancel()
        unknown = "01890a5d-ac96-774b-bcce-b302099a8057"
        for ask in (
            lambda c: c.get(unknown),
            lambda c: c.steps(unknown),
            lambda c: c.result(unknown, timeout=1),
            lambda c: c.signal(unknown, "go"),
            lambda c: c.signal(ended.id, "go"),
            lambda c: c.signal(ended.id, "\n"),
            lambda c: c.pause(ended.id),
            lambda c: c.cancel(unknown),
            lambda c: c.rerun(unknown),
            lambda c: c.rerun(ended.id, from_step="nowhere"),
            lambda c: c.rerun(ended.id, with_outputs={"a": 1}),
            lambda c: c.rerun(ended.id, from_step="a", with_outputs={"b": 1}),
            lambda c: c.start("w", 1, idempotency_key="k"),
            lambda c: c.start("W"),
            lambda c: c.start("w", object()),
            lambda c: c.result(ended.id),
        ):
            met = []
            for client in (near, far):
                with pytest.raises(OnwardError) as caught:
                    await ask(client)
                met.append((type(caught.value), str(caught.value).partition("; it is kept as")[0]))
            assert met[0] == met[1]
        assert (await far.cancel(ended.id)).status == "cancelled"


async def test_a_server_that_asks_for_a_token_says_so(url: str) -> None:
    async with serving(url, auth="tokens") as server, Client(server.url, token="onw_x") as client:
        with pytest.raises(Unauthorized, match="onward token create"):
            await client.workflows()


@pytest.mark.parametrize("token", ["", "a\nb", "ä"])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput, match="token"):
        Client("http://localhost:1", token=token)


async def test_a_token_is_for_a_server() -> None:
    with pytest.raises(InvalidInput, match="REST server"):
        Client("postgresql://h/d", token="x")


async def test_the_environment_may_name_a_server(url: str, server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONWARD_URL", server.url)
    async with Client() as client:
        assert (await client.runs()).runs == []
        with pytest.raises(InvalidInput, match="needs the database itself"):
            await client.database()
        with pytest.raises(InvalidInput, match="needs the database itself"):
            await client.workers()


async def test_tenants_do_not_see_each_other(url: str, server: Serving) -> None:
    async with Client(server.url) as mine, Client(server.url, tenant="other") as theirs, Worker(large, url):
        run = await theirs.start(large, 100_000)
        assert await run.result(timeout=10) == "x" * 100_000
        with pytest.raises(NotFound):
            await mine.get(run.id)
        assert (await mine.runs()).runs == []


async def test_large_batches_are_sent_in_parts_that_the_server_takes(client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(remote, "_BATCH", 1000)
    items = [Start("x" * 300, idempotency_key=str(n % 40)) for n in range(50)]
    handles = await client.start_many("w", items)
    assert [handle.created for handle in handles] == [True] * 40 + [False] * 10
    assert [handle.id for handle in handles[40:]] == [handle.id for handle in handles[:10]]


async def test_an_input_over_the_servers_limit_is_too_large(client: Client) -> None:
    with pytest.raises(PayloadTooLarge, match="33,554,432"):
        await client.start("w", "x" * (32 << 20))


# ---- what is lost on the way -----------------------------------------------------------------------------------


class Lossy:
    """Between a client and its server: the answers to the first requests get lost, once they were given."""

    def __init__(self, server: Serving) -> None:
        self._port = int(server.url.rpartition(":")[2])
        self.lose = 1

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection("127.0.0.1", self._port)

        async def forth() -> None:
            while data := await reader.read(65536):
                to_there.write(data)

        task = asyncio.create_task(forth())
        while data := await there.read(65536):
            if self.lose:
                self.lose -= 1
                break
            writer.write(data)
        task.cancel()
        for end in (writer, to_there):
            end.transport.abort()


@pytest.mark.parametrize("what", ["start", "start_many", "signal", "rerun", "cancel", "pause"])
async def test_what_was_done_and_not_answered_is_done_once(url: str, server: Serving, what: str) -> None:
    lossy = Lossy(server)
    async with AsyncExitStack() as stack:
        between = await stack.enter_async_context(await asyncio.start_server(lossy.carry, "127.0.0.1", 0))
        near = await stack.enter_async_context(Client(url))
        far = await stack.enter_async_context(Client(f"http://127.0.0.1:{between.sockets[0].getsockname()[1]}"))
        run = await near.start("w")
        done: Any = {
            "start": lambda: far.start("w", 1),
            "start_many": lambda: far.start_many("w", [Start(1), Start(2)]),
            "signal": lambda: far.signal(run.id, "go", 1),
            "rerun": lambda: far.rerun(run.id),
            "cancel": lambda: far.cancel(run.id),
            "pause": lambda: far.pause(run.id),
        }[what]()
        answer = await done
        assert lossy.lose == 0
        runs = [found.id async for found in near.runs()]
        made = {"start": 1, "start_many": 2, "rerun": 1}.get(what, 0)
        assert len(runs) == 1 + made
        for handle in answer if isinstance(answer, list) else [answer]:
            assert not made or (handle.created and handle.id in runs)
        if what == "signal":
            connection = await asyncpg.connect(url)
            assert await connection.fetchval("select count(*) from onward.signal") == 1
            await connection.close()


async def test_a_client_rides_out_a_restart_of_the_server(url: str) -> None:
    async with AsyncExitStack() as stack:
        async with serving(url, auth="none") as first:
            port = int(first.url.rpartition(":")[2])
            client = await stack.enter_async_context(Client(first.url))
            run = await client.start("w")
            waiting = asyncio.create_task(run.result(timeout=60))
        starting = asyncio.create_task(client.start("w", 2))
        near = await stack.enter_async_context(Client(url))
        await stack.enter_async_context(serving(url, port=port, auth="none"))
        assert (await near.get((await starting).id)).input == 2
        await near.cancel(run.id)
        with pytest.raises(OnwardError, match="cancelled"):
            await waiting


async def test_a_server_that_stays_away_is_told_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "PATIENCE", 0.2)
    async with Client("http://u:secret@127.0.0.1:1/x", token="hidden") as client:
        with pytest.raises(DatabaseUnavailable, match=r"cannot reach the server http://u@127\.0\.0\.1:1/x") as caught:
            await client.workflows()
    told = "".join(traceback.format_exception_only(caught.value))
    assert "secret" not in told
    assert "hidden" not in told


@pytest.mark.parametrize("answer", [b"<html>hello</html>", b'{"type": "about:blank"}', b'{"id": 1}'])
async def test_what_is_no_server_of_ours_is_told_as_such(answer: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + answer)
        writer.close()

    there = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with there, Client(f"http://127.0.0.1:{there.sockets[0].getsockname()[1]}") as client:
        with pytest.raises(OnwardError, match="no Onward server"):
            await client.get("01890a5d-ac96-774b-bcce-b302099a8057")


@pytest.mark.parametrize("address", ["http://", "http://[", "http://h:port", "https:// h"])
async def test_an_address_that_nothing_can_read_is_wrong_use(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "PATIENCE", 0.1)
    async with Client(address) as client:
        with pytest.raises((InvalidInput, DatabaseUnavailable)):
            await client.workflows()


def test_a_name_that_is_wrong_is_wrong_before_anything_is_sent() -> None:
    with pytest.raises(InvalidName):
        Client("http://localhost:1", tenant="a b")
    with pytest.raises(Conflict):
        raise error_of(Problem(f"{PREFIX}conflict", "", 409, ""))
