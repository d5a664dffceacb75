"""Starting, listing, steering and comparing runs from the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

import postgres
from cli import sample_app
from cli.terminal import SAMPLE, Said, Terminal, reached, until
from onward import Client, Worker
from onward.cli import options

NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"
EVERY = (
    ["runs", "list"], ["start", "doubling"], ["why", NOBODY], ["workers"], ["doctor"], ["migrate"],
    ["dev", str(SAMPLE)], ["worker", str(SAMPLE)],
)  # fmt: skip


def one_line(said: Said) -> str:
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("onward: ")
    return said.err


def test_start_prints_the_id_of_the_run_and_nothing_else(terminal: Terminal) -> None:
    said = terminal.run("start", "doubling", "--input", "21")
    assert said.code == 0
    [run] = terminal.run("runs", "list", "--json").json["runs"]
    assert said.out == run["id"] + "\n"
    assert (run["workflow"], run["input"], run["status"], run["tenant"]) == ("doubling", 21, "running", "default")


async def test_start_with_wait_prints_the_output(terminal: Terminal) -> None:
    async with Worker(sample_app.doubling, terminal.url):
        said = await terminal.type("start", "doubling", "--input", "21", "--wait")
        assert (said.code, said.out) == (0, "42\n")


async def test_start_with_wait_exits_with_1_where_the_run_fails(terminal: Terminal) -> None:
    async with Worker(sample_app.doomed, terminal.url):
        said = await terminal.type("start", "doomed", "--wait")
    assert (said.code, said.out) == (1, "")
    assert "card declined" in one_line(said)
    assert "charge" in said.err


def test_start_waits_no_longer_than_told(terminal: Terminal) -> None:
    said = terminal.run(
        "start", "doubling", "--input", "1", "--wait", "--timeout", "50ms", "--tenant", "acme", "--json"
    )
    assert said.code == 1
    assert re.search("run (.*) has not ended .* goes on: onward why \\1 --tenant acme$", one_line(said))


async def test_start_says_that_no_live_worker_serves_the_run(terminal: Terminal) -> None:
    where = f"in {terminal.url}; the run waits for one\n"
    assert (await terminal.type("start", "doubling")).err == f"no live worker serves `doubling` {where}"
    waited = await terminal.type("start", "doubling", "--wait", "--timeout", "1ms")
    assert waited.err.startswith(f"no live worker serves `doubling` {where}onward: run ")
    assert (await terminal.type("start", "doubling", "--json")).err == ""
    async with Worker(sample_app.doubling, terminal.url):
        assert (await terminal.type("start", "doubling", "--input", "1")).err == ""
        other = await terminal.type("start", "doubling", "--version", "3")
        assert other.err == f"no live worker serves version 3 of `doubling` {where}"


async def test_a_wait_outlasts_what_a_command_does_not(
    terminal: Terminal, bundled_server: postgres.Server, connect: postgres.Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "PATIENCE", 0.2)
    name, server = urlsplit(terminal.url).path[1:], await connect(bundled_server.url)
    observer = await connect(terminal.url)

    async def waited_for() -> bool:
        return bool(await observer.fetchval("select count(*) from onward.awaited"))

    waiting = asyncio.create_task(terminal.type("start", "doubling", "--input", "21", "--wait", "--json"))
    await until(waited_for)
    await _rename(server, name, f"{name}_away")
    await asyncio.sleep(1)  # that long nobody finds it
    assert not waiting.done()
    await _rename(server, f"{name}_away", name)
    async with Worker(sample_app.doubling, terminal.url):
        said = await waiting
    assert (said.code, said.err, said.json["output"]) == (0, "", 42)


async def _rename(server: asyncpg.Connection, name: str, other: str) -> None:
    async def renamed() -> bool:
        await server.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
        with contextlib.suppress(asyncpg.ObjectInUseError):
            await server.execute(f"alter database {name} rename to {other}")
            return True
        return False

    await until(renamed)


def test_an_input_may_come_from_a_file(terminal: Terminal) -> None:
    Path("input.json").write_text('{"name": "ぼく", "big": 123456789012345678901234567890}')
    run = terminal.run("start", "doubling", "--input", "@input.json", "--json").json
    assert run["input"] == {"name": "ぼく", "big": 123456789012345678901234567890}


def test_an_input_may_come_from_stdin(terminal: Terminal) -> None:
    process = terminal.spawn("start", "doubling", "--input", "@-", "--json")
    out, _ = process.communicate('{"a": [1]}', timeout=20)
    assert json.loads(out)["input"] == {"a": [1]}


def test_the_same_key_gives_the_same_run_and_another_input_is_refused(terminal: Terminal) -> None:
    first = terminal.run("start", "doubling", "--input", "1", "--key", "k")
    assert terminal.run("start", "doubling", "--input", "1", "--key", "k").out == first.out
    other = terminal.run("start", "doubling", "--input", "2", "--key", "k")
    assert other.code == 1
    assert "another input" in one_line(other)


def test_wrong_use_exits_with_2_in_one_line(terminal: Terminal) -> None:
    for wrong in (
        ["start"],
        ["start", "doubling", "--nonsense"],
        ["start", "doubling", "--input", "{oops"],
        ["start", "doubling", "--input", "@missing.json"],
        ["frobnicate"],
        ["start", "doubling", "--version", "x"],
        ["start", "doubling", "--timeout", "1s"],
        ["runs", "list", "--input", "novalue"],
        ["runs", "list", "--status", "happy"],
        ["runs", "cancel"],
        ["start", "Not A Name"],
        ["start", "doubling", "--delay", "soon"],
        ["start", "doubling", "--version", "0"],
        ["start", "doubling", "--key", ""],
        ["runs", "list", "--since", "yesterday"],
        ["runs", "list", "--limit", "0"],
        ["runs", "list", "--cursor", "x"],
        ["runs", "list", "--workflow", "Not A Name"],
        ["runs", "list", "--url", "mysql://x"],
        *([*command, "--url", f"postgresql://{wrong}/d"] for wrong in ("h:x", "[::1") for command in EVERY),
        ["runs", "list", "--tenant", "not a tenant"],
        ["worker", str(SAMPLE), "--lease", "x"],
        ["worker", str(SAMPLE), "--lease", "0"],
        ["worker", str(SAMPLE), "--lease", "400ms"],
        ["worker", str(SAMPLE), "--concurrency", "0"],
        ["worker", str(SAMPLE), "--threads", "0"],
    ):
        said = terminal.run(*wrong)
        assert (said.code, said.out) == (2, ""), wrong
        one_line(said)


def test_a_wrong_patience_starts_nothing(terminal: Terminal) -> None:
    said = terminal.run("start", "doubling", "--wait", "--timeout", "soon")
    assert (said.code, said.out) == (2, "")
    assert terminal.run("runs", "list", "--json").json["runs"] == []


def test_a_text_without_quotes_is_met_with_the_right_spelling(terminal: Terminal) -> None:
    assert """'"World"'""" in terminal.run("start", "hello", "--input", "World").err


def test_what_cannot_be_done_exits_with_1_in_one_line(terminal: Terminal) -> None:
    for failing in (
        ["runs", "show", NOBODY],
        ["runs", "steps", NOBODY],
        ["runs", "show", "x"],
        ["runs", "cancel", NOBODY],
        ["runs", "signal", NOBODY, "e"],
        ["runs", "rerun", NOBODY],
        ["runs", "diff", NOBODY, NOBODY],
        ["why", NOBODY],
    ):
        said = terminal.run(*failing)
        assert (said.code, said.out) == (1, ""), failing
        one_line(said)


def test_a_database_that_is_away_is_told_in_one_line(terminal: Terminal) -> None:
    said = terminal.run("migrate", "--url", "postgresql://somebody:secret@127.0.0.1:1/x")
    assert said.code == 1
    assert "cannot reach the database postgresql://somebody@127.0.0.1:1/x" in one_line(said)


def test_the_url_that_is_typed_goes_before_the_environments(terminal: Terminal, monkeypatch: Any) -> None:
    monkeypatch.setenv("ONWARD_URL", "postgresql://127.0.0.1:1/x")
    assert terminal.run("runs", "list", "--url", terminal.url, "--json").json == {"runs": [], "nextCursor": None}


def test_tenants_do_not_see_each_others_runs(terminal: Terminal) -> None:
    run_id = terminal.run("start", "doubling", "--input", "1", "--tenant", "acme").out.strip()
    assert terminal.run("runs", "list", "--json").json["runs"] == []
    assert terminal.run("why", run_id).code == 1
    assert terminal.run("runs", "show", run_id, "--tenant", "acme", "--json").json["tenant"] == "acme"


def test_list_filters_by_workflow_status_time_and_input(terminal: Terminal) -> None:
    for number in (1, 2):
        terminal.run("start", "doubling", "--input", json.dumps({"user": {"id": number}, "name": "x"}))
    terminal.run("start", "nap")

    def inputs(*options: str) -> list[Any]:
        return [run["input"] for run in terminal.run("runs", "list", "--json", *options).json["runs"]]

    assert len(inputs()) == 3
    assert inputs("--workflow", "nap") == [None]
    assert inputs("--input", "user.id=2", "--input", "name=x") == [{"user": {"id": 2}, "name": "x"}]
    assert inputs("--input", 'user.id="2"') == []
    assert inputs("--status", "completed") == []
    assert len(inputs("--since", "1h")) == 3
    assert inputs("--until", "1h") == []


def test_list_goes_on_where_the_cursor_says(terminal: Terminal) -> None:
    for number in range(3):
        terminal.run("start", "doubling", "--input", str(number))
    first = terminal.run("runs", "list", "--limit", "2", "--json").json
    rest = terminal.run("runs", "list", "--cursor", first["nextCursor"], "--json").json
    assert [run["input"] for run in first["runs"] + rest["runs"]] == [2, 1, 0]
    assert rest["nextCursor"] is None
    assert first["nextCursor"] in terminal.run("runs", "list", "--limit", "2").err


async def test_signal_says_what_became_of_it(terminal: Terminal, client: Client) -> None:
    async with Worker(sample_app.gate, terminal.url), client:
        run = await client.start(sample_app.gate, {"userId": 42})
        await reached(run, "waiting")
        early = await terminal.type("runs", "signal", run.id, "other", "--no-buffer")
        assert early.out.startswith("dropped: no wait matches it now")
        near = await terminal.type("runs", "signal", run.id, "verify", '{"userId": 6}')
        assert near.out.startswith("buffered: no wait matches it now")
        assert f"`onward why {run.id}` says what differs" in near.out
        wrong = await terminal.type("runs", "signal", run.id, "verify", '{"userId": 7}', "--json")
        assert wrong.json == {"outcome": "buffered"}
        right = await terminal.type("runs", "signal", run.id, "verify", '{"userId": 42, "by": "mail"}')
        assert right.out.startswith("resolved")
        assert await run.result(timeout=10) == {"userId": 42, "by": "mail"}
        late = await terminal.type("runs", "signal", run.id, "verify")
        assert late.code == 1
        assert "has ended" in one_line(late)


async def test_pause_resume_and_cancel_steer_runs(terminal: Terminal, client: Client) -> None:
    async with client:
        runs = [(await client.start("nap")).id for _ in range(2)]
        assert (await terminal.type("runs", "pause", *runs)).out == "".join(f"{run} paused\n" for run in runs)
        assert (await client.get(runs[0])).state == "paused"
        await terminal.type("runs", "resume", *runs)
        assert (await client.get(runs[0])).state == "stranded"
        ended = await terminal.type("runs", "cancel", *runs, "--json")
        assert [run["status"] for run in ended.json["runs"]] == ["cancelled", "cancelled"]


def test_one_run_that_refuses_does_not_keep_the_others_from_being_steered(terminal: Terminal) -> None:
    done, open_ = (terminal.run("start", "nap").out.strip() for _ in range(2))
    terminal.run("runs", "cancel", done)
    said = terminal.run("runs", "pause", done, open_)
    assert (said.code, said.out) == (1, f"{open_} paused\n")
    assert done in one_line(said)


async def test_rerun_keeps_what_came_before_the_step_and_replaces_outputs(terminal: Terminal, client: Client) -> None:
    async with Worker(sample_app.doomed, terminal.url), client:
        run = await client.start(sample_app.doomed)
        await reached(run, "failed")
        said = await terminal.type("runs", "rerun", run.id, "--from-step", "charge", "--output", "prepare=7")
        again = client.handle(said.out.strip())
        await reached(again, "failed")
        assert [(s.name, s.output) for s in await again.steps()] == [("prepare", 7), ("charge", None)]
        assert (await again.get()).rerun_of == run.id


async def test_diff_names_the_first_step_that_differs(terminal: Terminal, client: Client) -> None:
    async with Worker([sample_app.doomed, sample_app.doubling], terminal.url), client:
        a = await client.start(sample_app.doomed)
        await reached(a, "failed")
        b = await client.rerun(a.id, from_step="charge", with_outputs={"prepare": 7})
        await reached(b, "failed")
        said = await terminal.type("runs", "diff", a.id, b.id)
        assert "step 1 differs in output" in said.out
        assert "prepare (run) completed: 2" in said.out
        assert "prepare (run) completed: 7" in said.out
        parting = (await terminal.type("runs", "diff", a.id, b.id, "--json")).json
        assert (parting["same"], parting["differ"], parting["b"]["output"]) == (0, ["output"], 7)
        assert "the journals are the same (2 steps)" in (await terminal.type("runs", "diff", a.id, a.id)).out


async def test_the_parent_of_an_inner_step_is_the_way_to_it_for_people(terminal: Terminal, client: Client) -> None:
    async with Worker(sample_app.deep, terminal.url), client:
        run = await client.start(sample_app.deep)
        await run.result(timeout=10)
        steps = (await terminal.type("runs", "steps", run.id, "--json")).json["steps"]
        assert [(s["parent"], s["name"]) for s in steps] == [("a / b", "c"), ("a", "b"), (None, "a")]
        assert [(s.parent, s.name) for s in await run.steps()] == [("a / b", "c"), ("a", "b"), (None, "a")]
        table = (await terminal.type("runs", "steps", run.id)).out
        assert [line.partition("  ")[0] for line in table.splitlines()[1:]] == ["a / b / c", "a / b", "a"]


async def test_steps_as_json_are_the_journal_and_what_is_pending(terminal: Terminal, client: Client) -> None:
    async with Worker(sample_app.gate, terminal.url), client:
        run = await client.start(sample_app.gate, {"userId": 42})
        await reached(run, "waiting")
        steps = (await terminal.type("runs", "steps", run.id, "--json")).json["steps"]
        assert [(s["name"], s["kind"], s["status"], s["completedAt"] is None) for s in steps] == [
            ("knock", "run", "completed", False),
            ("verify", "wait", "waiting", True),
        ]
        assert set(steps[0]) == {
            "name", "parent", "kind", "status", "attempt", "output", "error", "startedAt", "completedAt",
        }  # fmt: skip


def test_a_run_as_json_has_the_keys_of_the_rest_interface(terminal: Terminal) -> None:
    run = terminal.run("start", "doubling", "--input", "1", "--json").json
    assert list(run) == [
        "id", "workflow", "version", "tenant", "status", "state", "reason", "input", "output", "error", "metadata",
        "idempotencyKey", "rerunOf", "retention", "startedAt", "completedAt",
    ]  # fmt: skip


async def test_workers_are_listed_with_what_they_serve(terminal: Terminal) -> None:
    assert "no workers" in terminal_said(await terminal.type("workers"))
    async with Worker(sample_app.MANY, terminal.url):
        [worker] = (await terminal.type("workers", "--json")).json["workers"]
        assert (worker["alive"], worker["serves"], worker["owned"]) == (True, ["doubling@1", "nap@1"], 0)
        assert "doubling@1, nap@1" in (await terminal.type("workers")).out


def terminal_said(said: Said) -> str:
    return said.out + said.err
