"""Traces: one a run, whoever executes it; each span once, under its parent, wherever the two were emitted."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from cli.terminal import Terminal, read_until
from observability.collector import Collector
from onward import Context, GiveUp, RunHandle, workflow
from onward.errors import RunFailed
from rest import both, serving

ANYWHERE = {"Authorization": "whoever"}


def span(name: str) -> Any:
    """One of the user's own."""
    return trace.get_tracer("the user's").start_as_current_span(name)


async def double(i: int) -> int:
    return 2 * i


async def quadruple(ctx: Context, i: int) -> int:
    return await ctx.step.run("again", double, await ctx.step.run("double", double, i))


@workflow
async def onboarding(ctx: Context, i: int) -> int:
    await asyncio.gather(*(ctx.step.run("side", double, i) for _ in range(2)))
    await ctx.step.run("nested", quadruple, ctx, i)
    await ctx.step.sleep("nap", "50ms")
    await ctx.step.wait_for_event("go")
    await ctx.step.wait_for_event("never", timeout="50ms")
    await ctx.step.run("last", double, i)
    return i


OF_ONBOARDING = {
    "run onboarding": "",
    "step side": "run onboarding",
    "step side#2": "run onboarding",
    "step nested": "run onboarding",
    "step double": "step nested",
    "step again": "step nested",
    "step nap": "run onboarding",
    "step go": "run onboarding",
    "signal go": "run onboarding",
    "step never": "run onboarding",
    "step last": "run onboarding",
}


def waits(world: Any) -> Any:
    return lambda: world.value("select exists (select 1 from onward.pending where kind = 'wait')")


async def ended(run: RunHandle[Any], collector: Collector) -> Any:
    """Its result. Whoever waits for that may be told before the worker is, which only then emits the run's span."""
    try:
        return await run.result(timeout=20)
    finally:
        async with asyncio.timeout(10):
            while not any(s.name == "workflow.run" and s.attributes["run_id"] == run.id for s in collector.spans()):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["stop", "crash"])
async def test_a_run_is_one_trace_across_workers_and_a_restart(
    world: Any, until: Any, collector: Collector, how: str
) -> None:
    first = await world.worker(onboarding)
    run = await world.client.start(onboarding, 1)
    await until(waits(world))
    await (first.stop() if how == "stop" else world.crash(first))
    await world.client.signal(run.id, "go")
    await world.worker(onboarding)
    assert await ended(run, collector) == 1
    assert collector.tree() == OF_ONBOARDING
    assert {span.trace for span in collector.spans()} == {run.id.replace("-", "")}


async def test_spans_say_what_the_contract_names_and_when_it_was(world: Any, collector: Collector) -> None:
    await world.worker(onboarding)
    run = await world.client.start(onboarding, 1)
    await world.client.signal(run.id, "go")
    await ended(run, collector)
    of_run = {"workflow.name": "onboarding", "workflow.version": 1, "run_id": run.id}
    assert collector.one("run onboarding").attributes == {**of_run, "status": "completed"}
    assert collector.one("signal go").attributes == {**of_run, "event": "go"}
    kinds = {"step side#2": "run", "step nap": "sleep", "step go": "wait"}
    for what, kind in kinds.items():
        step = {"step.name": what.removeprefix("step "), "step.kind": kind, "step.attempt": 1, "status": "completed"}
        assert collector.one(what).attributes == {**of_run, **step}
    journal = {f"step {step.name}": step for step in await run.steps()}
    for span in collector.spans():
        if span.what in journal:
            step = journal[span.what]
            assert (span.ended - step.completed_at.timestamp() * 1e9) < 2000
            assert abs(span.began - step.started_at.timestamp() * 1e9) < 2_000_000
    whole, nap = collector.one("run onboarding"), collector.one("step nap")
    assert nap.ended - nap.began >= 50_000_000
    assert all(whole.began <= span.began and span.ended <= whole.ended for span in collector.spans()[1:])


@workflow
async def replayed(ctx: Context) -> int:
    total = 0
    for i in range(20):
        total += await ctx.step.run("add", double, i)
    await ctx.step.wait_for_event("go")
    await ctx.step.sleep("nap", "10ms")
    return total


async def test_a_replay_emits_nothing(world: Any, until: Any, collector: Collector) -> None:
    first = await world.worker(replayed)
    run = await world.client.start(replayed)
    await until(waits(world))
    before = len(collector.spans())
    await first.stop()
    for _ in range(3):
        worker = await world.worker(replayed)
        await world.client.pause(run.id)
        await world.client.resume(run.id)  # which hands it out, and replays it
        await until(lambda: world.value("select owner is null and visible_at = 'infinity' from onward.message"))
        await worker.stop()
    assert len(collector.spans()) == before == 20
    again = await world.copy(run, 15)  # the rest of this one is executed
    await world.worker(replayed)
    for one in (run, again):
        await one.signal("go")
        assert await ended(one, collector) == 380
    tree = collector.tree()
    assert len([span for span in collector.spans() if span.attributes["run_id"] == again.id]) == 5 + 2 + 1 + 1
    assert tree["step add#20"] == "run replayed"


async def test_a_batch_that_is_sent_again_emits_its_spans_once(
    world: Any, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await world.worker(replayed)
    commit, answered = worker._store.commit, []

    async def without_an_answer(*batch: Any) -> Any:
        answers = await commit(*batch)
        answered.append(batch)
        if len(answered) % 2:
            raise asyncpg.InterfaceError("the connection broke after the commit")
        return answers

    monkeypatch.setattr(worker._store, "commit", without_an_answer)
    run = await world.client.start(replayed)
    await run.signal("go")
    assert await ended(run, collector) == 380
    await worker.stop()
    assert len(answered) > 20
    expected = {f"step add#{i}" for i in range(2, 21)} | {"step add", "step go", "step nap", "signal go"}
    tree = collector.tree()
    assert set(tree) == {*expected, "run replayed"}
    assert {tree[what] for what in expected} == {"run replayed"}


# ---- context ------------------------------------------------------------------------------------------------


def in_a_thread(i: int) -> int:
    with span("of a thread"):
        return i


async def in_the_loop(i: int) -> int:
    with span("of the loop"):
        return await asyncio.to_thread(in_a_thread, i)


@workflow
async def child(ctx: Context, i: int) -> int:
    return await ctx.step.run("in the child", double, i)


@workflow
async def parent(ctx: Context, i: int) -> int:
    await ctx.step.run("in a thread", in_a_thread, i)
    await ctx.step.invoke("invoked", child, i)
    await ctx.step.start("started", "child-of-started", i)
    return i


@workflow
async def child_of_started(ctx: Context, i: int) -> int:
    await ctx.step.run("in the loop", in_the_loop, i)
    return i


@both
async def test_a_start_within_a_span_carries_its_trace_to_all_that_follows(world: Any, collector: Collector) -> None:
    await world.worker(parent, child, child_of_started)
    with span("the request") as request:
        run = await world.client.start(parent, 1)
    await ended(run, collector)
    [started] = (await world.client.runs(child_of_started)).runs
    await ended(world.client.handle(started.id), collector)
    tree = collector.tree()
    del tree["of a thread"]  # there are two, looked at below
    assert tree == {
        "the request": "",
        "run parent": "the request",
        "step in a thread": "run parent",
        "step invoked": "run parent",
        "step started": "run parent",
        "run child": "step invoked",
        "step in the child": "run child",
        "run child-of-started": "step started",
        "step in the loop": "run child-of-started",
        "of the loop": "step in the loop",
    }
    above = {span.parent for span in collector.spans() if span.what == "of a thread"}
    assert above == {collector.one("step in a thread").id, collector.one("of the loop").id}
    assert {span.trace for span in collector.spans()} == {f"{request.get_span_context().trace_id:032x}"}


@both
async def test_a_signal_belongs_to_its_run_and_is_linked_to_its_sender(world: Any, collector: Collector) -> None:
    await world.worker(replayed)
    run = await world.client.start(replayed)
    with span("the click") as click:
        await run.signal("go")
    await ended(run, collector)
    context, sent = click.get_span_context(), collector.one("signal go")
    assert sent.links == [(f"{context.trace_id:032x}", f"{context.span_id:016x}")]
    assert (sent.trace, sent.parent) == (run.id.replace("-", ""), collector.one("run replayed").id)


async def test_a_signal_that_is_sent_again_is_one_span(world: Any, collector: Collector) -> None:
    async with serving(world.url) as server, httpx.AsyncClient(base_url=server.url, headers=ANYWHERE) as http:
        run = await world.client.start("nobody-serves-this", 1, version=1)
        for _ in range(3):
            answer = await http.post(f"/v1/runs/{run.id}/signals/go", json=1, headers={"Idempotency-Key": "a"})
            assert answer.status_code == 202
        await http.post(f"/v1/runs/{run.id}/signals/dropped?buffer=false", json=1)
    assert [span.what for span in collector.spans()] == ["signal go"]


async def test_a_traceparent_is_carried_by_servers_that_do_not_trace(world: Any) -> None:
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    bad = ["", "x", "00-" + "0" * 32 + "-b7ad6b7169203331-01", good[:-1], good.upper(), good.replace("00-", "zz-")]
    async with serving(world.url) as server, httpx.AsyncClient(base_url=server.url, headers=ANYWHERE) as http:
        for number, given in enumerate([good, *bad]):
            where, headers = f"/v1/workflows/w{number}/runs", {"traceparent": given}
            assert (await http.post(where, json={"input": 1}, headers=headers)).status_code == 201
            told = (await http.post(f"{where}:batch", json={"runs": [{"input": 1}] * 2}, headers=headers)).json()
            rerun = f"/v1/runs/{told['runs'][0]['id']}:rerun"
            assert (await http.post(rerun, headers=headers)).status_code == 201
    rows = await world.sql("select workflow, trace, count(*) as n from onward.run group by 1, 2 order by 1")
    assert [(r["trace"], r["n"]) for r in rows] == [(good, 4)] + [(None, 4)] * len(bad)


# ---- ends and sampling --------------------------------------------------------------------------------------


def secret_failure() -> None:
    raise GiveUp("the secret of the user")


@workflow
async def fails(ctx: Context) -> None:
    await ctx.step.run("hopeless", secret_failure)


@workflow
async def invoking(ctx: Context) -> None:
    await ctx.step.invoke("waiting", replayed)


async def test_a_failure_is_told_by_its_type_alone(world: Any, collector: Collector) -> None:
    await world.worker(fails)
    run = await world.client.start(fails)
    with pytest.raises(RunFailed):
        await ended(run, collector)
    assert {span.what: (span.failed, span.attributes["status"]) for span in collector.spans()} == {
        "run fails": (True, "failed"),
        "step hopeless": (True, "failed"),
    }
    assert all(b"secret" not in request.SerializeToString() for request in collector.requests)


async def test_a_cancelled_run_and_those_it_had_invoked_end_their_spans_once(
    world: Any, until: Any, collector: Collector
) -> None:
    worker = await world.worker(invoking, replayed)
    run = await world.client.start(invoking)
    await until(waits(world))
    await asyncio.gather(*(world.client.cancel(run.id) for _ in range(3)))
    await worker.stop()
    ends = [(s.what, s.attributes["status"]) for s in collector.spans() if s.name == "workflow.run"]
    assert sorted(ends) == [("run invoking", "cancelled"), ("run replayed", "cancelled")]


async def test_sampling_follows_the_starter_and_else_the_sampler(world: Any, collector: Collector) -> None:
    worker = await world.worker(parent, child, child_of_started, replayed)
    unsampled = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(0))
    with trace.use_span(trace.NonRecordingSpan(unsampled)):
        run = await world.client.start(parent, 1)
        waiting = await world.client.start(replayed)
    await run.result(timeout=10)
    with span("the click"):
        await waiting.signal("go")
    await waiting.result(timeout=10)
    await worker.stop()
    assert [span.what for span in collector.spans()] == ["the click"]


async def test_a_sampler_that_takes_no_run_takes_none_of_its_steps(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    emitted: list[Any] = []

    class Processor:
        def on_end(self, span: Any) -> None:
            emitted.append(span)

        on_start = _on_ending = lambda *_, **__: None

    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(Processor())  # type: ignore[arg-type]
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    worker = await world.worker(parent, child, child_of_started)
    run = await world.client.start(parent, 1)
    await run.result(timeout=10)
    await worker.stop()
    assert emitted == []
    [row] = await world.sql("select trace from onward.run where workflow = 'child'")
    assert row["trace"].endswith("-00")


async def test_a_processor_that_fails_fails_no_run(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def on_start(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("broken")

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Failing())  # type: ignore[arg-type]
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    await world.worker(child)
    run = await world.client.start(child, 1)
    assert await run.result(timeout=10) == 2


# ---- processes ------------------------------------------------------------------------------------------------

APP = """
from opentelemetry import trace
from onward import Context, workflow

def work() -> None:
    with trace.get_tracer("mine").start_as_current_span("of the user"):
        pass

@workflow
async def long(ctx: Context) -> None:
    await ctx.step.run("first", work)
    await ctx.step.wait_for_event("go")
    await ctx.step.run("second", work)
"""


def test_processes_that_come_and_go_make_one_trace_of_a_run(terminal: Terminal, outside: Collector) -> None:
    Path("app.py").write_text(APP)
    run_id = terminal.run("start", "long", "--version", "1").out.strip()
    for waits_for in ("go", None):
        process = terminal.spawn("worker", "app.py")
        read_until(process, "serving")
        if waits_for is None:
            assert terminal.run("runs", "signal", run_id, "go").code == 0
            assert terminal.run("runs", "show", run_id).code == 0
        _wait_for(terminal, run_id, "waiting" if waits_for else "completed")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    spans = outside.spans()
    assert sorted(span.what for span in spans) == sorted(
        ["run long", "step first", "step go", "step second", "of the user", "of the user"]
    )
    assert {span.trace for span in spans} == {run_id.replace("-", "")}
    assert {span.service for span in spans} == {"onward"}
    steps = {outside.one("step first").id, outside.one("step second").id}
    assert {span.parent for span in spans if span.what == "of the user"} == steps


def _wait_for(terminal: Terminal, run_id: str, state: str) -> None:
    for _ in range(400):
        if terminal.run("runs", "show", run_id, "--json").json["state"] == state:
            return
    raise AssertionError(f"the run never was {state}")


PLAIN = """
import asyncio, sys
from onward import Client, Context, Worker, workflow

@workflow
async def plain(ctx: Context) -> int:
    return await ctx.step.run("one", int)

async def main():
    async with Worker(plain), Client() as client:
        run = await client.start(plain)
        await run.result(timeout=10)
    print([name for name in sys.modules if name.startswith("opentelemetry")])

asyncio.run(main())
"""


def test_nothing_of_opentelemetry_is_imported_where_nobody_uses_it(terminal: Terminal) -> None:
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
