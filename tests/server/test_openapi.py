"""Laws of the document: it says what the table says, the table holds the contract, and the server keeps its word."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from onward.client.problems import KINDS
from onward.core import names
from onward.errors import OnwardError
from onward.server import app, openapi, runs
from onward.server.table import ROUTER
from onward.store.tokens import Tokens
from server.conftest import Open
from server.sites import Site

CONTRACT = """
POST /v1/workflows/{name}/runs
POST /v1/workflows/{name}/runs:batch
GET /v1/workflows/{name}/runs
GET /v1/runs
GET /v1/workflows
POST /v1/queues/{queue}/messages
POST /v1/queues/{queue}/messages:receive
DELETE /v1/queues/{queue}/messages/{id}
PATCH /v1/queues/{queue}/messages/{id}
GET /v1/queues
GET /v1/queues/{queue}
POST /v1/queues/{queue}:purge
POST /v1/topics/{topic}/messages
GET /v1/topics/{pattern}/subscriptions
POST /v1/topics/{pattern}/subscriptions
DELETE /v1/topics/{pattern}/subscriptions/{id}
GET /metrics
GET /healthz
GET /readyz
GET /openapi.json
"""
ON_A_RUN = """
GET
DELETE
POST /signals/{event}
GET /steps
POST :pause
POST :resume
POST :rerun
"""


def contract() -> set[tuple[str, str]]:
    found = {tuple(line.split()) for line in CONTRACT.split("\n") if line}
    for line in filter(None, ON_A_RUN.split("\n")):
        method, _, rest = line.partition(" ")
        found |= {(method, f"{root}{{id}}{rest}") for root in ("/v1/runs/", "/v1/workflows/{name}/runs/")}
    return found  # type: ignore[return-value]


async def test_the_document_is_the_table_and_the_table_holds_the_contract(site: Site) -> None:
    document = (await site.http.get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    table = {(route.method, route.path) for route in ROUTER.routes}
    assert described == table
    assert contract() <= table


async def test_every_reference_of_the_document_leads_somewhere(site: Site) -> None:
    text = (await site.http.get("/openapi.json")).text
    document = (await site.http.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    for name in re.findall(r'"#/components/schemas/([^"]+)"', text):
        assert name in schemas
    assert {"Run", "NewRun", "Problem"} <= set(schemas)
    ids = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))


def test_each_route_says_what_it_does_and_which_answers_it_has() -> None:
    document = openapi.describe(ROUTER.routes)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            assert {"200", "201", "202"} & set(operation["responses"]), where
            declared = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
            assert declared == set(re.findall(r"{(\w+)}", path)), where
            assert ("401" in operation["responses"]) == (path not in ("/healthz", "/readyz")), where


def test_names_in_paths_follow_the_rules_of_the_core() -> None:
    pattern = openapi.PARAMETERS["name"][1]["pattern"]
    for name in ("a", "a" * 43, "a-b_c", "0", "", "-", "A", "a" * 44, "a.b", "ä", "a\n"):
        try:
            fits = bool(names.workflow_name(name))
        except OnwardError:
            fits = False
        assert bool(re.fullmatch(pattern.rstrip("$") + r"\Z", name)) == fits


def test_every_problem_has_a_status_of_its_kind() -> None:
    for kind in KINDS.values():
        assert 400 <= kind.status < 600
        assert re.fullmatch("[a-z-]+", kind.name)


async def test_no_request_that_the_document_allows_or_forbids_breaks_the_server(
    open_site: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schemathesis makes them of the document, valid ones and others, and follows its links.

    Two of its checks do not hold here: what no schema can say (a cursor must be one of ours) is refused although it
    fits the schema, and a run that was cancelled is there until its retention is over.
    """
    monkeypatch.setattr(runs, "LONGEST_WAIT", 0.01)
    site = await open_site(auth="tokens")
    token, _ = await Tokens(await site.client.database()).create("default", "admin")
    arguments = [
        *("run", f"{site.serving.url}/openapi.json", "-H", f"Authorization: Bearer {token}"),
        *("--max-examples", "10", "--seed", "1", "--no-color", "--generation-database", "none"),
        *("--exclude-checks", "positive_data_acceptance,use_after_free"),
    ]
    code = "import sys; from schemathesis.cli import schemathesis; schemathesis(sys.argv[1:])"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=tmp_path,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()
    assert f"Tested: {len(ROUTER.routes) - 1}" in said.decode(), "all but the document itself"


@pytest.mark.parametrize("path", ["", "/api"])
async def test_the_document_knows_where_it_is_mounted(site: Site, path: str) -> None:
    async with app(site.url) as api:
        transport = httpx.ASGITransport(api, root_path=path)
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers={"Authorization": "x"}) as http:
            document: Any = (await http.get(f"{path}/openapi.json")).json()
    assert document["servers"] == [{"url": path or "/"}]
