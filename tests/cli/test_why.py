"""`onward why`: for every way in which a run can stand still, what holds it up and what helps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from cli import sample_app
from cli.terminal import SAMPLE, Terminal, reached, read_until
from onward import Client, Context, Worker, workflow
from onward.client.why import Facts, differing, explain
from onward.store.runs import RunRecord, SignalRecord, Standing, StepRecord, WorkerRecord

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
RUN = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def facts(state: str, *steps: StepRecord, workers: Any = None, signals: Any = (), **known: Any) -> Facts:
    fields: dict[str, Any] = {
        "run_id": RUN,
        "workflow": "onboard-user",
        "version": 1,
        "tenant": "default",
        "status": "running",
        "state": state,
        "reason": None,
        "input": b"null",
        "output": None,
        "error": None,
        "idempotency_key": None,
        "rerun_of": None,
        "retention": None,
        "started_at": NOW - timedelta(hours=3),
        "completed_at": None,
    }
    standing: dict[str, Any] = {"asked_at": NOW, "due_at": None, "owner": None, "deaths": 0, "open_version": False}
    standing |= {key: known.pop(key) for key in list(known) if key in standing}
    workers = [worker()] if workers is None else workers
    return Facts(RunRecord(**{**fields, **known}), steps, workers, signals, Standing(**standing))


def worker(number: int = 1, *serves: str, silent: float = 0.1, alive: bool = True) -> WorkerRecord:
    return WorkerRecord(number, f"host:{number}", alive, list(serves or ["onboard-user@1"]), 1, NOW, silent)


def pending(path: str, kind: str, status: str, **known: Any) -> StepRecord:
    fields: dict[str, Any] = dict.fromkeys(StepRecord._fields) | {"path": path, "kind": kind, "status": status}
    return StepRecord(**{**fields, "attempt": 1, "seq": 9, "started_at": NOW - timedelta(hours=2), **known})


def wait(match: str | None, deadline: datetime | None = None) -> StepRecord:
    return pending("verify", "wait", "waiting", event="verify", match=match, deadline=deadline)


def signal(payload: bytes, event: str = "verify") -> SignalRecord:
    return SignalRecord(event, payload, NOW - timedelta(minutes=5))


# ---- the sentences, one law each ---------------------------------------------------------------------------------


def test_a_wait_is_told_with_its_match_its_age_and_its_end() -> None:
    told = explain(facts("waiting", wait('{"userId": 42}', NOW + timedelta(days=6))))
    assert "It waits for signal `verify` where `userId` is 42, since 2h, until " in told.text
    assert "(in 6d)" in told.text
    assert told.commands == (f"""onward runs signal {RUN} verify '{{"userId":42}}'""",)


def test_a_signal_that_differed_is_told_with_the_key_and_both_values() -> None:
    told = explain(facts("waiting", wait('{"managerId": 42}'), signals=[signal(b'{"managerId": "42"}')]))
    assert 'A signal came 5m ago, but `managerId` was "42", not 42.' in told.text


def test_a_signal_for_another_event_is_told() -> None:
    told = explain(facts("waiting", wait(None), signals=[signal(b"true", "verfy")]))
    assert "A signal `verfy` came 5m ago; nothing waits for that one." in told.text


@pytest.mark.parametrize(
    ("wanted", "got", "told"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["`a` was true, not 1"]),
        ({"a": 1}, {}, ["`a` was missing"]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["`a.b` was 2, not 1"]),
        ({"a": 1, "b": 2}, {"a": 3, "b": 4}, ["`a` was 3, not 1", "`b` was 4, not 2"]),
        ({"a": 1}, 7, ["the payload was 7, not an object with `a`"]),
        ({"tags": ["x"]}, {"tags": ["y", "x"]}, []),
        ({"tags": ["x"]}, {"tags": ["y"]}, ['`tags` had no "x"']),
        ("yes", "no", ['the payload was "no", not "yes"']),
    ],
)
def test_what_differs_is_found_as_the_database_compares(wanted: Any, got: Any, told: list[str]) -> None:
    assert differing(wanted, got) == told


def test_a_retry_is_told_with_its_attempt_its_time_and_its_error() -> None:
    step = pending(
        "call-stripe", "run", "retrying", attempt=2, attempts=5, deadline=NOW + timedelta(seconds=40),
        error=b'{"type": "ConnectionError", "message": "no route"}',
    )  # fmt: skip
    told = explain(facts("retrying", step))
    assert "retries `call-stripe`, attempt 3 of 5, in 40s; the last error was ConnectionError: no route." in told.text


def test_a_version_that_nobody_serves_is_told_with_those_that_are_served() -> None:
    told = explain(facts("stranded", workers=[worker(7, "onboard-user@2")], version=3))
    assert "no live worker knows version 3 of `onboard-user`: version 2 is served by host:7." in told.text
    assert "onward worker APP" in told.commands


def test_a_sleep_that_nobody_will_wake_is_told() -> None:
    step = pending("rest", "sleep", "sleeping", deadline=NOW + timedelta(hours=1))
    assert "no worker is alive" not in explain(facts("sleeping", step)).text
    assert "no worker is alive" in explain(facts("sleeping", step, workers=[])).text


def test_a_run_that_is_held_by_a_silent_worker_is_told_to_be_held_by_the_dead() -> None:
    dead = worker(3, silent=40)
    told = explain(facts("executing", owner=3, workers=[dead]))
    assert "held by worker 3 (host:3), silent for 40s" in told.text
    assert "onward worker APP" in told.commands
    told = explain(facts("executing", owner=3, workers=[dead, worker(4)]))
    assert "free it: soon if its process has ended, else when its lease ends." in told.text


def test_what_fell_due_while_paused_is_told() -> None:
    step = pending("rest", "sleep", "sleeping", deadline=NOW - timedelta(hours=1))
    told = explain(facts("paused", step))
    assert "`rest` fell due; it happens at the resume" in told.text
    assert told.commands == (f"onward runs resume {RUN}",)


def test_the_commands_carry_the_tenant_of_the_run() -> None:
    assert explain(facts("paused", tenant="acme")).commands == (f"onward runs resume {RUN} --tenant acme",)


def test_a_failure_in_a_nested_step_is_rerun_from_the_step_of_the_body_around_it() -> None:
    error = b'{"type": "ValueError", "message": "no", "step": "inner", "attempt": 2}'
    failed = pending("outer\x1finner", "run", "failed", completed_at=NOW)
    told = explain(facts("failed", failed, status="failed", error=error, completed_at=NOW - timedelta(minutes=1)))
    assert "It failed in step `inner`, attempt 2, 1m ago, 2h 59m after its start: ValueError: no." in told.text
    assert told.commands[-1] == f"onward runs rerun {RUN} --from-step outer"


def test_a_failure_right_at_the_start_is_told_as_such() -> None:
    told = explain(facts("failed", status="failed", completed_at=NOW, started_at=NOW))
    assert told.text == "It failed just now, right after its start: not recorded."


def test_a_paused_wait_whose_signal_has_come_is_told() -> None:
    steps = wait('{"userId": 42}'), pending("other", "wait", "waiting", event="other", match=None)
    told = explain(facts("paused", *steps, signals=[signal(b'{"userId": 42}'), signal(b'{"userId": 7}')]))
    assert "`verify` has its signal; it goes on at the resume." in told.text
    assert "`other` has" not in told.text


def test_what_a_person_can_act_on_is_told_first() -> None:
    later = NOW + timedelta(hours=1)
    sleeps = [pending(f"s{n}", "sleep", "sleeping", deadline=later) for n in range(9)]
    child = pending("child", "invoke", "waiting", child=UUID(int=1))
    retry = pending("call", "run", "retrying", deadline=later)
    told = explain(facts("waiting", *sleeps, child, retry, wait(None)))
    places = [told.text.index(text) for text in ("signal `verify`", "retries `call`", "`child` invoked", "And 9 more")]
    assert places == sorted(places)


def test_a_wait_for_a_child_comes_with_the_commands_that_help_the_deepest_one() -> None:
    child, deepest = UUID(int=1), UUID(int=2)
    low = facts("waiting", wait(None), run_id=deepest, tenant="acme")
    middle = facts("waiting", pending("b", "invoke", "waiting", child=deepest), run_id=child, tenant="acme")
    top = facts("waiting", pending("a", "invoke", "waiting", child=child), tenant="acme")
    told = explain(replace(top, children={child: replace(middle, children={deepest: low})}))
    assert told.commands == (
        f"onward runs signal {deepest} verify true --tenant acme",
        f"onward why {deepest} --tenant acme",
        f"onward why {child} --tenant acme",
    )


def test_one_worker_serves_and_a_run_has_an_age() -> None:
    assert "1 worker serves other workflows" in explain(facts("stranded", workers=[worker(1, "x@1")])).text
    told = explain(facts("executing", owner=1, started_at=NOW - timedelta(seconds=11)))
    assert "it has journalled nothing in the 11s since its start." in told.text


def test_many_things_at_once_are_cut_short() -> None:
    steps = [pending(f"s{n}", "sleep", "sleeping", deadline=NOW + timedelta(hours=1)) for n in range(9)]
    assert explain(facts("sleeping", *steps)).text.endswith("And 6 more.")


# ---- the engine's own states -------------------------------------------------------------------------------------


async def asked(terminal: Terminal, run_id: str) -> str:
    said = await terminal.type("why", run_id)
    assert (said.code, said.err) == (0, "")
    return said.out


async def test_why_tells_of_waits_children_sleeps_and_retries(terminal: Terminal, client: Client) -> None:
    app = sample_app
    async with Worker([app.gate, app.parent, app.nap, app.flaky], terminal.url), client:
        parent, nap, flaky = [await client.start(w) for w in (app.parent, app.nap, app.flaky)]
        gate = await client.start(app.gate, {"userId": 42})
        for run, state in ((gate, "waiting"), (parent, "waiting"), (nap, "sleeping"), (flaky, "retrying")):
            await reached(run, state)
        await gate.signal("verify", {"userId": 7})
        assert "`userId` was 7, not 42" in await asked(terminal, gate.id)
        assert "sleeps in `a long night` until " in await asked(terminal, nap.id)
        assert "attempt 2 of 5, in " in await asked(terminal, flaky.id)
        text = await asked(terminal, parent.id)
        assert "of `gate`, which `ask the gate` invoked" in text
        assert "There: It waits for signal `verify` where `userId` is 42" in text
        await parent.cancel()


async def test_why_tells_of_ends(terminal: Terminal, client: Client) -> None:
    async with Worker([sample_app.doubling, sample_app.doomed], terminal.url), client:
        done, failed = await client.start(sample_app.doubling, 1), await client.start(sample_app.doomed)
        cancelled = await client.start("nap")
        await cancelled.cancel()
        await reached(done, "completed")
        await reached(failed, "failed")
        assert "It completed " in await asked(terminal, done.id)
        assert "after its start: ConnectionError: card declined." in await asked(terminal, failed.id)
        assert "--from-step charge" in await asked(terminal, failed.id)
        assert "It was cancelled " in await asked(terminal, cancelled.id)


async def test_why_tells_of_runs_that_nobody_takes(terminal: Terminal, client: Client) -> None:
    async with Worker(sample_app.doubling, terminal.url), client:
        stranded = await client.start("doubling", 1, version=3)
        delayed = await client.start("doubling", 1, delay="1h")
        paused = await client.start("doubling", 1, delay="1h")
        await client.pause(paused.id)
        text = await asked(terminal, stranded.id)
        assert "no live worker knows version 3 of `doubling`: version 1 is served by" in text
        assert "It starts in 1h" in await asked(terminal, delayed.id)
        assert "It is paused" in await asked(terminal, paused.id)
        unknown = await terminal.type("why", str(RUN))
        assert unknown.err == f"onward: no run {RUN} of tenant default\n"
        assert f"onward runs resume {paused.id}" in await asked(terminal, paused.id)


async def test_why_tells_of_a_journal_that_the_code_does_not_fit(terminal: Terminal, client: Client) -> None:
    async with Worker(sample_app.gate, terminal.url), client:
        run = await client.start(sample_app.gate, {"userId": 42})
        await reached(run, "waiting")

    @workflow(name="gate")
    async def changed(ctx: Context) -> Any:
        return await ctx.step.run("ring", sample_app.double, 1)

    async with Worker(changed, terminal.url), client:
        await client.signal(run.id, "verify", {"userId": 42})
        await reached(run, "parked")
        text = await asked(terminal, run.id)
        assert "It is parked: NonDeterminism: " in text
        assert "'knock'" in text
        assert "It is tried again in " in text
        assert f"onward runs resume {run.id}" in text
        assert "'knock'" in (await terminal.type("doctor")).out


async def test_why_tells_who_executes_a_run_and_who_died_with_it(terminal: Terminal, client: Client) -> None:
    process = terminal.spawn("worker", str(SAMPLE))
    await asyncio.to_thread(read_until, process, "serving")
    async with client:
        run = await client.start(sample_app.busy)
        async with asyncio.timeout(15):
            while not await run.steps():
                await asyncio.sleep(0.02)
        text = await asked(terminal, run.id)
        assert f":{process.pid})" in text
        assert "its newest result is that of `begin`" in text
        process.kill()
        async with asyncio.timeout(15):
            while "silent for" not in (text := await asked(terminal, run.id)):
                await asyncio.sleep(0.1)
        assert "most likely dead" in text
        assert "not heard of" in (await terminal.type("doctor")).out
