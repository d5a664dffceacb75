"""Laws of who may ask: no route answers a wrong token, and to a right one there is no other tenant."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from onward import Context, workflow
from onward.errors import InvalidInput
from onward.server import app
from onward.server.auth import Local
from onward.server.routes import Route
from onward.server.table import ROUTER
from onward.store.tokens import SCOPES, Tokens
from server.conftest import Open
from server.sites import Site, refused


@workflow
async def waits(ctx: Context) -> Any:
    return await ctx.step.wait_for_event("go")


GUARDED = [route for route in ROUTER.routes if route.scope is not None]
OPEN = [route for route in ROUTER.routes if route.scope is None]


async def token(site: Site, tenant: str = "default", scope: str = "admin", **options: Any) -> str:
    text, _ = await Tokens(await site.client.database()).create(tenant, scope, **options)
    return text


async def ask(site: Site, route: Route, run: str, **headers: str) -> httpx.Response:
    """Its body is no JSON: who may ask is told so, and changes nothing."""
    values = {"name": "waits", "id": run, "event": "go", "key": "onward/x"}
    path = route.path.format_map({name: values.get(name, "x") for name in route.parameters})
    site.http.headers.pop("Authorization", None)
    return await site.http.request(route.method, path, headers={**headers, "Content-Type": "text/plain"}, content="{")


def test_everything_but_health_is_guarded() -> None:
    assert [route.path for route in OPEN] == ["/healthz", "/readyz"]
    assert {route.scope for route in GUARDED} <= set(SCOPES)
    for route in GUARDED:
        reads = route.method == "GET"
        assert (route.scope == "read") == reads, f"{route.method} {route.path}"


async def test_no_route_answers_a_wrong_token(open_site: Open) -> None:
    site = await open_site(auth="tokens")
    run, right = await site.client.start(waits), await token(site)
    expired, revoked = await token(site, seconds=0), await token(site)
    await Tokens(await site.client.database()).revoke("default", revoked.split("_")[1])
    other = (await token(site)).rpartition("_")[2]
    wrong = [
        None,
        "",
        "Bearer",
        "Bearer x",
        f"Basic {right}",
        right,
        f"Bearer {right[:-1]}",
        f"Bearer {right}0",
        f"Bearer {right.upper()}",
        f"Bearer {right.rpartition('_')[0]}_{other}",
        f"Bearer onw_{'0' * 16}_{other}",
        f"Bearer {expired}",
        f"Bearer {revoked}",
    ]
    held = [await token(site, scope=scope) for scope in SCOPES]
    for route in GUARDED:
        for value in wrong:
            answer = await ask(site, route, run.id, **({} if value is None else {"Authorization": value}))
            refused(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith('Bearer realm="onward"')
            assert right not in answer.text
        for number, scope in enumerate(SCOPES):
            answer = await ask(site, route, run.id, Authorization=f"Bearer {held[number]}")
            if number < SCOPES.index(str(route.scope)):
                refused(answer, 403, "forbidden")
                assert f'scope="{route.scope}"' in answer.headers["www-authenticate"]
            else:
                assert answer.status_code not in (401, 403), f"{route.method} {route.path} {scope}"
    for path in ("/nothing", "/v1/runs/x:fly", "/"):
        refused(await site.http.get(path), 401, "unauthorized")
        refused(await site.http.put(path), 401, "unauthorized")
    for route in OPEN:
        assert (await site.http.get(route.path)).status_code == 200


async def test_two_authorization_headers_are_none(open_site: Open) -> None:
    site = await open_site(auth="tokens")
    right = f"Bearer {await token(site)}"
    site.http.headers.pop("Authorization")
    answer = await site.http.get("/v1/runs", headers=[("Authorization", right), ("Authorization", right)])
    refused(answer, 401, "unauthorized")


async def test_to_a_token_there_is_no_other_tenant(open_site: Open) -> None:
    site = await open_site(auth="tokens")
    mine = await site.client.start(waits, idempotency_key="k")
    theirs = {"Authorization": f"Bearer {await token(site, 'other')}"}
    ours = {"Authorization": f"Bearer {await token(site)}"}
    for route in GUARDED:
        if "id" not in route.parameters or "queue" in route.path or "topic" in route.path:
            continue
        path = route.path.format_map({"name": "waits", "id": mine.id, "event": "go"})
        refused(await site.http.request(route.method, path, headers=theirs), 404, "not-found")
        for headers in (theirs, ours):
            named = {**headers, "Onward-Tenant": "third"}
            refused(await site.http.request(route.method, path, headers=named), 404, "not-found")
    for path in ("/v1/runs", "/v1/workflows/waits/runs"):
        assert (await site.http.get(path, headers=theirs)).json()["runs"] == []
    assert (await site.http.get("/v1/workflows", headers=theirs)).json() == []
    started = await site.http.post("/v1/workflows/waits/runs", headers=theirs, json={"idempotencyKey": "k"})
    assert (started.status_code, started.json()["tenant"]) == (201, "other")
    assert (await mine.get()).status == "running"
    assert (await site.http.get(f"/v1/runs/{mine.id}", headers={**ours, "Onward-Tenant": "default"})).status_code == 200


async def test_a_token_is_refused_as_soon_as_it_is_revoked_or_has_expired(open_site: Open) -> None:
    site = await open_site(auth="tokens")
    tokens = Tokens(await site.client.database())
    text, record = await tokens.create("default", "read")
    lasting = await token(site, seconds=3600)
    for held in (text, lasting):
        assert (await site.http.get("/v1/runs", headers={"Authorization": f"Bearer {held}"})).status_code == 200
    assert not await tokens.revoke("other", record.token_id)
    assert await tokens.revoke("default", record.token_id)
    await site.sql("insert into onward.setting values ('clock_offset', '1 hour')")
    for held in (text, lasting):
        refused(await site.http.get("/v1/runs", headers={"Authorization": f"Bearer {held}"}), 401, "unauthorized")


async def test_of_a_token_only_a_hash_is_kept(site: Site) -> None:
    text = await token(site, note="for the shop")
    [row] = await site.sql("select t::text from onward.token t")
    secret = text.rpartition("_")[2]
    assert secret not in row[0]
    assert "for the shop" in row[0]


# ---- without tokens ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, ""])
async def test_presence_asks_for_an_authorization_header_and_for_no_more(open_site: Open, value: str | None) -> None:
    site = await open_site(auth="presence")
    headers = {} if value is None else {"Authorization": value}
    for route in GUARDED:
        refused(await ask(site, route, str(uuid4()), **headers), 401, "unauthorized")
        assert (await ask(site, route, str(uuid4()), Authorization="whatever")).status_code not in (401, 403)


@pytest.mark.parametrize("auth", ["none", "presence"])
async def test_the_tenant_is_the_one_that_is_named(open_site: Open, auth: str) -> None:
    site = await open_site(auth=auth)
    for tenant in (None, "acme"):
        headers = {} if tenant is None else {"Onward-Tenant": tenant}
        run = (await site.http.post("/v1/workflows/waits/runs", headers=headers)).json()
        assert run["tenant"] == tenant or (tenant is None and run["tenant"] == "default")
        assert len((await site.http.get("/v1/runs", headers=headers)).json()["runs"]) == 1


def test_another_word_for_auth_is_refused() -> None:
    with pytest.raises(InvalidInput, match="none, presence, tokens"):
        app("postgresql://h/d", auth="basic")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8787"}, 200),
        ({"Host": "[::1]:8787", "Origin": "http://localhost:3000"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:8787"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "["}, 403),
    ],
)
async def test_without_auth_no_web_page_is_answered(url: str, headers: dict[str, str], status: int) -> None:
    """... that a browser of this machine has open: it may send to loopback, by any name that it had resolved to it."""
    async with app(url, auth="none") as api:
        transport = httpx.ASGITransport(Local(api))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8787") as http:
            assert (await http.post("/v1/workflows/waits/runs", headers=headers)).status_code in (status, status + 1)
