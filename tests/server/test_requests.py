"""Laws of reading: what a route does not know is refused, with the status that says why, and nothing is changed."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from faults.proxies import way
from onward.server import reading
from rest import serving
from server.sites import Site, refused

RUNS = "/v1/workflows/hello/runs"
JSON = {"Content-Type": "application/json"}
LIMIT = 32 << 20


async def nothing_was_started(site: Site) -> bool:
    return (await site.http.get("/v1/runs")).json()["runs"] == []


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b"nonsense", b'{"input": 1} 2', b'{"input": NaN}', b'{"input": "\xc3\x28"}']
)
async def test_what_is_no_json_is_a_bad_request(site: Site, body: bytes) -> None:
    refused(await site.http.post(RUNS, content=body, headers=JSON), 400, "malformed")
    assert await nothing_was_started(site)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"inputs": 1},
        {"id": "x"},
        {"version": 0},
        {"version": True},
        {"version": 2**31},
        {"idempotencyKey": ""},
        {"idempotencyKey": "ä" * 300},
        {"idempotencyKey": "a\0b"},
        {"retentionDays": -1},
        {"delay": "soon"},
        {"delay": -1},
        {"delay": [1]},
    ],
)
async def test_json_that_does_not_fit_is_told_where(site: Site, body: Any) -> None:
    detail = refused(await site.http.post(RUNS, json=body), 422, "invalid-input")
    assert any(word in detail for word in ("object", "id", "version", "key", "retentionDays", "delay", "inputs"))
    assert await nothing_was_started(site)


async def test_a_value_that_is_nested_too_deep_is_refused_and_one_that_is_not_comes_through(site: Site) -> None:
    for depth, status in ((1000, 201), (1001, 422), (200_000, 422)):
        value = b"[" * depth + b"]" * depth
        answer = await site.http.post(RUNS, content=b'{"input": ' + value + b"}", headers=JSON)
        assert answer.status_code == status, answer.text[:200]
        assert status != 201 or value in answer.content


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/json; charset=x"])
async def test_a_body_of_another_kind_is_refused(site: Site, kind: str) -> None:
    """... and one without a kind, too: a web page can send such a one anywhere."""
    answer = await site.http.post(RUNS, content=b"{}", headers={"Content-Type": kind} if kind else {})
    assert "application/json" in refused(answer, 415, "unsupported-media-type") or "charset" in kind
    assert await nothing_was_started(site)


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=UTF-8", "application/problem+json"])
async def test_json_by_any_of_its_names_is_taken(site: Site, kind: str) -> None:
    assert (await site.http.post(RUNS, content=b"{}", headers={"Content-Type": kind})).status_code == 201


@pytest.mark.parametrize(
    "query",
    [
        "statsu=failed",
        "status=done",
        "limit=0",
        "limit=1001",
        "limit=x",
        "since=yesterday",
        "cursor=abc",
        "limit=1&limit=2",
        "input.a=1&input.a=2",
        "input.a=1&input.a.b=2",
        "input=1",
        "x=%ff",
        "&".join(f"input.a{n}=1" for n in range(200)),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(site: Site, query: str) -> None:
    """A mistyped filter would list everything."""
    refused(await site.http.get(f"/v1/runs?{query}"), 422, "invalid-input")


async def test_an_empty_parameter_counts_as_not_given(site: Site) -> None:
    await site.http.post(RUNS)
    assert len((await site.http.get("/v1/runs?status=&since=&until=&cursor=&limit=")).json()["runs"]) == 1


async def test_there_is_nothing_elsewhere_and_a_method_that_is_not_there_is_told_which_are(site: Site) -> None:
    for path in ("/", "/v1", "/v1/", "/v1/runs/", f"{RUNS}/", "/v1/workflow", f"/v1/runs/{'0' * 32}:fly", "//v1/runs"):
        refused(await site.http.request("GET", path), 404, "no-route")
    for method, path, allowed in [
        ("PUT", RUNS, "GET, POST"),
        ("POST", "/v1/runs", "GET"),
        ("OPTIONS", RUNS, "GET, POST"),
    ]:
        answer = await site.http.request(method, path)
        assert allowed in refused(answer, 405, "method-not-allowed")
        assert answer.headers["allow"] == allowed


async def test_head_is_get_without_its_body(site: Site) -> None:
    answer, there = await site.http.head("/v1/runs"), await site.http.get("/v1/runs")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == there.headers["content-length"]


@pytest.mark.parametrize("name", ["UPPER", "a" * 44, "-x", "ä", "a%00b"])
async def test_a_workflow_that_cannot_be_called_so_is_refused(site: Site, name: str) -> None:
    refused(await site.http.post(f"/v1/workflows/{name}/runs"), 422, "invalid-name")


@pytest.mark.parametrize("tenant", ["", "a b", "ä".encode(), "x" * 64])
async def test_a_tenant_that_cannot_be_called_so_is_refused(site: Site, tenant: Any) -> None:
    refused(await site.http.get("/v1/runs", headers={"Onward-Tenant": tenant}), 422, "invalid-name")


# ---- request ids ---------------------------------------------------------------------------------------------


async def test_a_request_id_is_given_back_and_else_made(site: Site) -> None:
    assert (await site.http.get("/healthz", headers={"X-Request-Id": "mine-1"})).headers["x-request-id"] == "mine-1"
    made = {(await site.http.get("/healthz")).headers["x-request-id"] for _ in range(3)}
    assert len(made) == 3
    for strange in ("x" * 129, "a b", "ä".encode()):
        answer = await site.http.get("/healthz", headers={"X-Request-Id": strange})
        assert len(answer.headers["x-request-id"]) == 32


async def test_a_mistake_of_ours_tells_nothing_of_the_inside(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    await site.sql("alter function onward.describe(text, uuid[]) rename to other")
    answer = await site.http.get(f"/v1/runs/{'0' * 32}", headers={"X-Request-Id": "find-me"})
    detail = refused(answer, 500, "internal")
    assert "find-me" in detail
    assert "describe" not in detail
    assert "find-me" in caplog.text
    assert "describe" in caplog.text


# ---- how much a body may be ----------------------------------------------------------------------------------


class Raw:
    """A connection on which anything may be said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, site: Site) -> Raw:
        there = urlsplit(site.serving.url)
        return cls(*await asyncio.open_connection(there.hostname, there.port))

    def say(self, *lines: str, body: bytes = b"") -> None:
        head = [
            f"POST {RUNS} HTTP/1.1",
            "Host: localhost",
            "Authorization: x",
            "Content-Type: application/json",
            *lines,
        ]
        self.writer.write("\r\n".join([*head, "", ""]).encode() + body)

    async def status(self) -> int:
        async with asyncio.timeout(10):
            return int((await self.reader.readline()).split()[1])


async def test_a_body_that_tells_a_length_over_the_limit_is_refused_before_it_is_sent(site: Site) -> None:
    raw = await Raw.open(site)
    raw.say(f"Content-Length: {LIMIT + 1}")
    assert await raw.status() == 413
    raw.writer.close()


async def test_a_body_that_tells_no_length_is_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BODY_LIMIT", 1 << 20)

    async def parts(number: int) -> Any:
        yield b'{"input": "'
        for _ in range(number):
            yield b"x" * 65_536
        yield b'"}'

    assert (await site.http.post(RUNS, content=parts(15), headers=JSON)).status_code == 201
    raw = await Raw.open(site)
    raw.say("Transfer-Encoding: chunked", body=(b"10000\r\n" + b"x" * 65_536 + b"\r\n") * 17)
    assert await raw.status() == 413
    raw.writer.close()
    assert len((await site.http.get("/v1/runs")).json()["runs"]) == 1


async def test_who_sends_too_much_still_reads_why(site: Site) -> None:
    answer = await site.http.post(RUNS, content=b"x" * (LIMIT + 1), headers=JSON)
    assert "keep the value elsewhere" in refused(answer, 413, "body-too-large")


async def test_a_body_of_just_the_limit_is_taken(site: Site) -> None:
    body = b'{"input": "' + b"x" * (LIMIT - 13) + b'"}'
    assert len(body) == LIMIT
    assert (await site.http.post(RUNS, content=body, headers=JSON)).status_code == 201


async def test_a_body_that_does_not_come_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BODY_PATIENCE", 0.05)
    raw = await Raw.open(site)
    raw.say("Content-Length: 10", body=b"{")
    assert await raw.status() == 408
    raw.writer.close()


async def test_who_goes_away_while_sending_leaves_the_server_as_it_was(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    raw = await Raw.open(site)
    raw.say("Content-Length: 10", body=b"{")
    await raw.writer.drain()
    raw.writer.close()
    assert await nothing_was_started(site)
    assert caplog.records == []


async def test_a_database_that_is_away_is_told_as_such(url: str) -> None:
    async with way(url) as there, serving(there.url) as server, httpx.AsyncClient(base_url=server.url) as http:
        http.headers["Authorization"] = "x"
        assert (await http.get("/readyz")).json() == {"status": "ready"}
        database = await server.app.service.client("default").database()
        database.patience = 0.1
        await there.cut()
        answer = await http.get("/v1/runs")
        refused(answer, 503, "database-unavailable")
        assert answer.headers["retry-after"]
        assert (await http.get("/healthz")).status_code == 200
        refused(await http.get("/readyz"), 503, "database-unavailable")
        await there.open()
        assert (await http.get("/readyz")).status_code == 200
