"""Laws of being a part of another application: it works without its lifespan, below any path, in any loop."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import Any

import fastapi
import httpx
import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

from onward import Client
from onward.server import App, app
from onward.server.serving import PortTaken, listen, local_only
from rest import serving

RUNS = "/onward/v1/workflows/hello/runs"
HEADERS = {"Authorization": "x"}


@pytest.mark.parametrize("framework", ["fastapi", "starlette"])
async def test_it_mounts_in_another_application_and_closes_with_it(url: str, framework: str) -> None:
    api = app(url)
    parent: Any = fastapi.FastAPI() if framework == "fastapi" else Starlette(routes=[Mount("/onward", api)])
    if framework == "fastapi":
        parent.mount("/onward", api)
    async with (
        api,
        httpx.AsyncClient(transport=httpx.ASGITransport(parent), base_url="http://x", headers=HEADERS) as http,
    ):
        answer = await http.post(RUNS, json={"input": 1})
        assert answer.status_code == 201
        where = answer.headers["location"]
        assert where.startswith(f"{RUNS}/")
        assert (await http.get(where)).json() == answer.json()
        missing = (await http.get("/onward/v1/nothing")).json()
        assert (missing["type"], missing["instance"]) == ("/errors/no-route", "/onward/v1/nothing")
        assert (await http.get("/onward/healthz")).status_code == 200
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("onward")] == []


async def test_a_parent_may_hold_it_open(url: str) -> None:
    api = app(url)

    @asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> Any:
        async with api:
            yield

    parent = fastapi.FastAPI(lifespan=lifespan)
    parent.mount("/onward", api)

    def use() -> int:
        with TestClient(parent, headers=HEADERS) as http:
            return http.post(RUNS, json={"input": 1}).status_code

    assert await asyncio.to_thread(use) == 201


def test_each_request_may_come_in_a_loop_of_its_own(url: str) -> None:
    """As those of a test client do that nobody entered."""
    parent = fastapi.FastAPI()
    parent.mount("/onward", app(url))
    http = TestClient(parent, headers=HEADERS)
    assert [http.post(RUNS, json={"input": n}).status_code for n in range(3)] == [201] * 3
    assert len(http.get(RUNS).json()["runs"]) == 3


async def test_it_may_be_used_again_after_it_was_closed(url: str) -> None:
    api = app(url)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://x", headers=HEADERS) as http:
        for _ in range(2):
            assert (await http.get("/v1/runs")).status_code == 200
            await api.close()
            await api.close()


async def test_a_client_finds_a_server_below_a_path(url: str) -> None:
    class Below(App):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                scope = {**scope, "root_path": "/below"}
            await super().__call__(scope, receive, send)

    async with serving(url, kind=Below) as server, Client(f"{server.url}/below/", token="x") as client:
        run = await client.start("hello", 1)
        assert (await run.get()).input == 1


@pytest.mark.parametrize("module", ["onward", "onward.client", "onward.worker.worker", "onward.cli"])
def test_who_serves_nothing_imports_no_server_and_no_client_of_http(module: str) -> None:
    code = f"import {module}, sys; print([m for m in ('starlette', 'uvicorn', 'httpx') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# ---- addresses -----------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_told() -> None:
    with listen("127.0.0.1", 0) as there:
        port = there.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} of 127.0.0.1 is taken"):
            listen("127.0.0.1", port)


def test_small_answers_are_sent_at_once() -> None:
    """asyncio sets TCP_NODELAY only on what it can tell is TCP; else each answer to a body waits 40 ms."""
    with listen("127.0.0.1", 0) as there:
        assert there.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.0.0.1", False),
        ("no.such.host.invalid", False),
    ],
)
def test_only_loopback_is_local(host: str, local: bool) -> None:
    assert local_only(host) == local
