"""Laws of the routes for runs: what is answered, and with which status."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from onward import Context, workflow
from server.sites import Site, refused

RUNS = "/v1/workflows/hello/runs"


@workflow
async def hello(ctx: Context, name: Any) -> str:
    return f"hello {await ctx.step.run('who', str, name)}"


@workflow
async def waits(ctx: Context) -> Any:
    return await ctx.step.wait_for_event("go/now")


@workflow
async def letters(ctx: Context, size: int) -> str:
    return await ctx.step.run("write", "x".__mul__, size)


async def started(site: Site, body: Any = None, runs: str = RUNS) -> dict[str, Any]:
    answer = await site.http.post(runs, json=body or {})
    assert answer.status_code == 201, answer.text
    run: dict[str, Any] = answer.json()
    return run


# ---- starting ------------------------------------------------------------------------------------------------


async def test_a_start_is_answered_with_the_run_and_where_it_is(site: Site) -> None:
    run = await started(site, {"input": {"big": 2**200, "nul": "\0"}, "retentionDays": 2, "version": 3})
    assert UUID(run["id"]).version == 7
    there = await site.http.get(f"{RUNS}/{run['id']}")
    assert there.json() == run
    assert run["input"] == {"big": 2**200, "nul": "\0"}
    expected = {"workflow": "hello", "version": 3, "tenant": "default", "status": "running", "state": "stranded"}
    assert {key: run[key] for key in expected} == expected
    assert (run["retention"], run["metadata"], run["output"], run["error"]) == ("2d", {}, None, None)
    assert run["startedAt"].endswith("Z")


async def test_a_start_says_where_its_run_is(site: Site) -> None:
    answer = await site.http.post(RUNS)
    assert answer.headers["location"] == f"{RUNS}/{answer.json()['id']}"


async def test_the_answer_to_a_start_is_what_a_look_at_the_run_says(site: Site) -> None:
    await site.worker(waits)
    for body in ({}, {"delay": "1h"}, {"version": 9, "idempotencyKey": "k"}):
        run = await started(site, body, "/v1/workflows/waits/runs")
        seen = (await site.http.get(f"/v1/runs/{run['id']}")).json()
        assert {**seen, "state": ""} == {**run, "state": ""}
        assert seen["state"] == run["state"] or run["state"] == "queued"


async def test_the_same_id_and_input_is_the_same_run_and_another_input_a_conflict(site: Site) -> None:
    body = {"input": 1, "id": str(uuid4())}
    run = await started(site, body)
    assert run["id"] == body["id"]
    again = await site.http.post(RUNS, json=body)
    assert (again.status_code, again.json()) == (200, run)
    assert "another input" in refused(await site.http.post(RUNS, json={**body, "input": 2}), 409, "conflict")
    elsewhere = await site.http.post("/v1/workflows/other/runs", json=body)
    assert "use another id" in refused(elsewhere, 409, "conflict")
    stranger = await site.http.post(RUNS, json=body, headers={"Onward-Tenant": "other"})
    assert "use another id" in refused(stranger, 409, "conflict")


async def test_the_same_key_and_input_is_the_same_run_and_another_input_a_conflict(site: Site) -> None:
    run = await started(site, {"input": {"a": 1, "b": 2}, "idempotencyKey": "k"})
    again = await site.http.post(RUNS, json={"input": {"b": 2, "a": 1}, "idempotencyKey": "k"})
    assert (again.status_code, again.json()["id"]) == (200, run["id"])
    detail = refused(await site.http.post(RUNS, json={"input": 2, "idempotencyKey": "k"}), 409, "conflict")
    assert run["id"] in detail


async def test_starts_that_come_at_once_with_one_key_are_one_run(site: Site) -> None:
    body = {"input": 1, "idempotencyKey": "k"}
    answers = await asyncio.gather(*(site.http.post(RUNS, json=body) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1


async def test_starts_that_come_together_go_together(site: Site) -> None:
    """While one is on its way: here it waits for a lock."""
    line = (await site.client.database()).line()
    await line.fetch("begin")
    await line.fetch("lock table onward.run")
    starts = [asyncio.create_task(site.http.post(RUNS, json={"input": n})) for n in range(50)]
    while sum(map(len, site.app.service.starts._waiting.values())) < 50:
        await asyncio.sleep(0.01)
    await line.fetch("commit")
    line.close()
    answers = await asyncio.gather(*starts)
    assert [answer.json()["input"] for answer in answers] == list(range(50))
    [row] = await site.sql("select count(distinct xmin::text) from onward.run")
    assert row[0] <= 2


async def test_a_start_that_the_database_refuses_harms_no_other(site: Site) -> None:
    await site.sql("create function boom() returns trigger language plpgsql as $$begin raise 'no'; end$$")
    await site.sql("""create trigger boom before insert on onward.run for each row
                      when (new.idempotency_key = 'bad') execute function boom()""")
    bodies = [{"input": n, "idempotencyKey": "bad" if n == 7 else str(n)} for n in range(20)]
    answers = await asyncio.gather(*(site.http.post(RUNS, json=body) for body in bodies))
    assert [answer.status_code for answer in answers] == [500 if n == 7 else 201 for n in range(20)]
    assert "no" not in refused(answers[7], 500, "internal").split()


async def test_a_batch_tells_what_was_created_and_what_was_skipped(site: Site) -> None:
    run, own = await started(site, {"input": 1, "idempotencyKey": "k"}), str(uuid4())
    body = {"runs": [{"input": 2, "idempotencyKey": "k"}, {"input": 3, "id": own}, {}, {"idempotencyKey": "new"}]}
    answer = (await site.http.post(f"{RUNS}:batch", json=body)).json()
    assert answer["existing"] == [{"id": run["id"], "idempotencyKey": "k"}]
    assert [made["input"] for made in answer["runs"]] == [3, None, None]
    assert answer["runs"][0]["id"] == own
    again = (await site.http.post(f"{RUNS}:batch", json={"runs": [body["runs"][1], body["runs"][3]]})).json()
    assert again["runs"] == []
    assert [there["id"] for there in again["existing"]] == [own, answer["runs"][2]["id"]]


async def test_a_batch_of_more_than_a_thousand_is_started_whole(site: Site) -> None:
    answer = await site.http.post(f"{RUNS}:batch", json={"runs": [{"input": n} for n in range(1500)]})
    assert [run["input"] for run in answer.json()["runs"]] == list(range(1500))


async def test_metadata_is_refused_until_there_are_tenants_for_it(site: Site) -> None:
    detail = refused(await site.http.post(RUNS, json={"metadata": {"a": 1}}), 422, "invalid-input")
    assert "later release" in detail


# ---- reading -------------------------------------------------------------------------------------------------


async def test_a_run_under_another_workflows_name_is_not_there(site: Site) -> None:
    run = await started(site)
    for method, rest in [("GET", ""), ("DELETE", ""), ("GET", "/steps"), ("POST", ":pause"), ("POST", ":resume")]:
        for name, status in [("other", 404), ("hello", 200)]:
            answer = await site.http.request(method, f"/v1/workflows/{name}/runs/{run['id']}{rest}")
            assert answer.status_code == status or (name, status, answer.status_code) == ("hello", 200, 409)
            if status == 404:
                refused(answer, 404, "not-found")
    for rest in ("/signals/go", ":rerun"):
        refused(await site.http.post(f"/v1/workflows/other/runs/{run['id']}{rest}"), 404, "not-found")


async def test_pages_stay_as_they_are_while_runs_arrive(site: Site) -> None:
    runs = [(await started(site, {"input": n}))["id"] for n in range(5)]
    first = (await site.http.get(RUNS, params={"limit": 2})).json()
    await started(site, {"input": "later"})
    second = (await site.http.get(RUNS, params={"limit": 3, "cursor": first["nextCursor"]})).json()
    assert [run["id"] for run in first["runs"] + second["runs"]] == runs[::-1]
    assert second["nextCursor"] is None


async def test_the_input_filter_reads_json_and_else_takes_a_text(site: Site) -> None:
    ids = {}
    for value in (42, "42", "forty", None, True):
        ids[value] = (await started(site, {"input": {"user": {"id": value}}}))["id"]
    for text, value in [("42", 42), ('"42"', "42"), ("forty", "forty"), ("null", None), ("true", True)]:
        for where in (RUNS, "/v1/runs"):
            found = (await site.http.get(where, params={"input.user.id": text})).json()
            assert [run["id"] for run in found["runs"]] == [ids[value]]


async def test_since_is_inclusive_and_until_exclusive_in_any_zone(site: Site) -> None:
    run = await started(site)
    at = run["startedAt"]
    forms = [at, at.removesuffix("Z"), at.replace("Z", "+00:00"), at.replace("Z", " 00:00")]
    for when in forms:  # the last one is a + that nobody escaped
        assert len((await site.http.get("/v1/runs", params={"since": when})).json()["runs"]) == 1
        assert len((await site.http.get("/v1/runs", params={"until": when})).json()["runs"]) == 0


async def test_steps_show_the_journal_and_what_is_pending(site: Site) -> None:
    await site.worker(hello, waits)
    run = await started(site, {"input": 1})
    await site.http.get(f"/v1/runs/{run['id']}?wait=10s")
    [step] = (await site.http.get(f"{RUNS}/{run['id']}/steps")).json()["steps"]
    assert {key: step[key] for key in ("name", "kind", "status", "attempt", "output", "error", "parent")} == {
        "name": "who", "kind": "run", "status": "completed", "attempt": 1, "output": "1", "error": None, "parent": None,
    }  # fmt: skip
    waiting = await site.client.start(waits)
    while not (steps := (await site.http.get(f"/v1/runs/{waiting.id}/steps")).json()["steps"]):
        await asyncio.sleep(0.01)
    assert (steps[0]["kind"], steps[0]["status"], steps[0]["completedAt"]) == ("wait", "waiting", None)


async def test_a_large_value_is_answered_as_its_pointer_and_the_pointer_gives_the_value(site: Site) -> None:
    await site.worker(letters)
    run = await started(site, {"input": 100_000}, "/v1/workflows/letters/runs")
    pointer = (await site.http.get(f"/v1/runs/{run['id']}?wait=10s")).json()["output"]["$payload"]
    query = {key: pointer[key] for key in ("sha256", "size", "contentType")}
    answer = await site.http.get(f"/v1/payloads/{pointer['key']}", params=query)
    assert answer.json() == "x" * 100_000
    for header, wrong, status, kind in [
        ("other", {}, 404, "not-found"),
        ("default", {"sha256": "0" * 64}, 409, "payload-corrupt"),
        ("default", {"size": 1}, 409, "payload-corrupt"),
    ]:
        answer = await site.http.get(
            f"/v1/payloads/{pointer['key']}", params={**query, **wrong}, headers={"Onward-Tenant": header}
        )
        refused(answer, status, kind)
    missing = pointer["key"].replace("output", "0utput")
    refused(await site.http.get(f"/v1/payloads/{missing}", params=query), 404, "payload-missing")
    for key in ("../../etc/passwd", "onward/tmp/probe.txt", "x"):
        refused(await site.http.get(f"/v1/payloads/{key.replace('.', '%2E')}", params=query), 404, "not-found")


# ---- steering ------------------------------------------------------------------------------------------------


async def test_a_signal_reaches_the_wait_whatever_its_event_is_called(site: Site) -> None:
    await site.worker(waits)
    run = await site.client.start(waits)
    while (await run.get()).state != "waiting":
        await asyncio.sleep(0.01)
    answer = await site.http.post(f"/v1/runs/{run.id}/signals/go%2Fnow", json={"n": 2**80})
    assert (answer.status_code, answer.json()) == (202, {"outcome": "resolved"})
    assert await run.result(timeout=10) == {"n": 2**80}
    refused(await site.http.post(f"/v1/runs/{run.id}/signals/go%2Fnow"), 409, "conflict")


async def test_an_empty_signal_arrives_as_true_and_an_unbuffered_one_is_dropped(site: Site) -> None:
    await site.worker(waits)
    run = await started(site, {"delay": "1h"}, "/v1/workflows/waits/runs")
    dropped = await site.http.post(f"/v1/runs/{run['id']}/signals/go%2Fnow?buffer=false", json=1)
    assert dropped.json() == {"outcome": "dropped"}
    assert (await site.http.post(f"/v1/runs/{run['id']}/signals/go%2Fnow")).json() == {"outcome": "buffered"}
    await site.sql("update onward.message set visible_at = onward.now()")
    await site.sql("select pg_notify('onward_work', '')")
    assert (await site.http.get(f"/v1/runs/{run['id']}?wait=10s")).json()["output"] is True


async def test_a_signal_that_is_sent_again_under_one_key_comes_once(site: Site) -> None:
    run = await started(site)
    for _ in range(2):
        answer = await site.http.post(f"/v1/runs/{run['id']}/signals/go", json=1, headers={"Idempotency-Key": "k"})
        assert answer.json() == {"outcome": "buffered"}
    other = await started(site)
    await site.http.post(f"/v1/runs/{other['id']}/signals/go", json=1, headers={"Idempotency-Key": "k"})
    assert len(await site.sql("select from onward.signal")) == 2


async def test_a_cancel_is_answered_with_the_run_also_when_it_had_ended(site: Site) -> None:
    await site.worker(hello)
    run = await started(site, {"input": 1})
    ended = (await site.http.get(f"/v1/runs/{run['id']}?wait=10s")).json()
    assert (await site.http.delete(f"{RUNS}/{run['id']}")).json() == ended
    other = await started(site, {}, "/v1/workflows/nobody/runs")
    for _ in range(2):
        answer = await site.http.delete(f"/v1/runs/{other['id']}")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


async def test_an_ended_run_cannot_be_paused_or_resumed_and_a_running_one_can(site: Site) -> None:
    run = await started(site)
    assert (await site.http.post(f"/v1/runs/{run['id']}:pause")).json()["state"] == "paused"
    assert (await site.http.post(f"{RUNS}/{run['id']}:resume")).json()["state"] == "stranded"
    await site.http.delete(f"/v1/runs/{run['id']}")
    for verb in ("pause", "resume"):
        assert "cancelled" in refused(await site.http.post(f"/v1/runs/{run['id']}:{verb}"), 409, "conflict")


async def test_a_rerun_is_a_new_run_and_under_one_id_it_is_one(site: Site) -> None:
    await site.worker(hello)
    run = await started(site, {"input": 1})
    await site.http.get(f"/v1/runs/{run['id']}?wait=10s")
    body = {"fromStep": "who", "id": str(uuid4())}
    answers = [await site.http.post(f"/v1/runs/{run['id']}:rerun", json=body) for _ in range(2)]
    assert [(a.status_code, a.json()["id"], a.json()["rerunOf"]) for a in answers] == [(201, body["id"], run["id"])] * 2
    taken = {**body, "id": run["id"]}
    refused(await site.http.post(f"/v1/runs/{run['id']}:rerun", json=taken), 409, "conflict")
    nowhere = {"fromStep": "nowhere"}
    assert "nowhere" in refused(await site.http.post(f"{RUNS}/{run['id']}:rerun", json=nowhere), 404, "not-found")
    assert (await site.http.post(f"{RUNS}/{run['id']}:rerun")).status_code == 201


async def test_workflows_are_counted(site: Site) -> None:
    await started(site)
    assert (await site.http.get("/v1/workflows")).json() == [
        {"name": "hello", "running": 1, "completed": 0, "failed": 0, "cancelled": 0}
    ]


@pytest.mark.parametrize("path", ["/v1/runs/x", "/v1/runs/%00", f"/v1/runs/{uuid4()}", "/v1/runs/x/steps"])
async def test_what_is_no_run_is_not_found(site: Site, path: str) -> None:
    refused(await site.http.get(path), 404, "not-found")
