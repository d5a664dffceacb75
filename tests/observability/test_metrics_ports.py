"""Where metrics are read: a worker's port, and the server's route."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cli.terminal import Terminal, read_until
from onward import Client
from onward.store.tokens import Tokens
from rest import serving

APP = """
from onward import Context, workflow

@workflow
async def counted(ctx: Context) -> None:
    await ctx.step.run("one", int)
"""


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *[value for _, value in sorted(sample.labels.items())]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_worker_serves_the_fleets_metrics_and_stops_with_it(terminal: Terminal) -> None:
    Path("app.py").write_text(APP)
    process = terminal.spawn("worker", "app.py", "--metrics-port", "0")
    found = re.search(r"metrics on (http://127\.0\.0\.1:[0-9]+)/metrics", read_until(process, "metrics on"))
    assert found is not None
    for _ in range(3):
        assert terminal.run("start", "counted", "--wait").code == 0
    with httpx.Client(base_url=found[1]) as http:
        answer = http.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        seen = samples(answer.text)
        assert seen["workflow_runs_started_total", "counted"] == 3
        assert seen["workflow_runs_completed_total", "completed", "counted"] == 3
        assert http.get("/healthz").json() == {"status": "ok"}
        assert [http.get("/").status_code, http.post("/metrics").status_code] == [404, 405]
        assert http.get("/metrics", headers={"Host": "evil.example"}).status_code == 403
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        with pytest.raises(httpx.TransportError):
            http.get("/healthz")


def test_a_port_that_is_taken_is_told_in_one_line(terminal: Terminal) -> None:
    Path("app.py").write_text(APP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = terminal.run("worker", "app.py", "--metrics-port", str(taken.getsockname()[1]))
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "is taken: give another one with --metrics-port" in said.err


def test_without_the_flag_a_worker_listens_nowhere(terminal: Terminal) -> None:
    import psutil

    Path("app.py").write_text(APP)
    process = terminal.spawn("worker", "app.py")
    read_until(process, "serving")
    connections = psutil.Process(process.pid).net_connections("inet")
    assert [c for c in connections if c.status == psutil.CONN_LISTEN] == []


async def test_a_server_tells_the_fleet_and_a_token_its_own_tenant(world: Any) -> None:
    for tenant, name in (("default", "w1"), ("acme", "w2")):
        async with Client(world.url, tenant=tenant) as client:
            await client.start(name, 1)
    async with Client(world.url) as client:
        token, _ = await Tokens(await client.database()).create("acme", "read")
    started = "workflow_runs_started_total"
    async with serving(world.url, auth="presence") as server, httpx.AsyncClient(base_url=server.url) as http:
        assert (await http.get("/metrics")).status_code == 401
        seen = samples((await http.get("/metrics", headers={"Authorization": "x"})).text)
        assert {key for key in seen if key[0] == started} == {(started, "w1"), (started, "w2")}
    async with serving(world.url, auth="tokens") as server, httpx.AsyncClient(base_url=server.url) as http:
        answer = await http.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        seen = samples(answer.text)
        assert {key for key in seen if key[0] == started} == {(started, "w2")}
        assert (await http.get("/metrics", headers={"Authorization": "x"})).status_code == 401


async def test_a_server_sweeps_and_delivers_where_no_worker_does(world: Any, until: Any) -> None:
    run = await world.client.start("nobody-serves-this", 1, version=1, retention="1h")
    await run.cancel()
    await world.skip(3700)
    async with serving(world.url):
        await until(lambda: world.value("select not exists (select 1 from onward.run)"))
        listening = "select count(*) from pg_stat_activity where query like '%onward_delivery%' and datname = $1"
        await until(lambda: world.value(listening, world.url.rpartition("/")[2].partition("?")[0]))
