"""`onward payload …`, and how a value that lies outside is shown by the other commands."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import s3 as servers
from cli.terminal import Said, Terminal
from onward import Client, Context, RunHandle, Worker, workflow

TEXT = "ä" * 50_000
BYTES = bytes(range(256)) * 4
ROWS = [{"n": number} for number in range(10_000)]


@workflow
async def report(ctx: Context, rows: list[Any]) -> list[Any]:
    await ctx.step.run("text", lambda: TEXT)
    await ctx.step.run("bytes", lambda: BYTES, type=bytes)
    await ctx.step.run("small", lambda: "a word")

    async def outer() -> int:
        return len(await ctx.step.run("inner", lambda: TEXT))

    await ctx.step.run("outer", outer)
    return rows


@workflow
async def broken(ctx: Context) -> None:
    await ctx.step.run("charge", open, "/nowhere")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "payloads"
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", folder.as_uri())
    return folder


@pytest.fixture
async def run(terminal: Terminal, folder: Path) -> RunHandle[Any]:
    """A run with values inside and outside of the database, which has ended."""
    return await ended(terminal, report, ROWS)


async def ended(terminal: Terminal, how: Any, *args: Any) -> RunHandle[Any]:
    async with Client(terminal.url) as client, Worker([report, broken], terminal.url):
        handle: RunHandle[Any] = await client.start(how, *args)
        while (await handle.get()).status == "running":
            await asyncio.sleep(0.01)
        return handle


def objects(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def object_of(folder: Path, name: str) -> Path:
    return folder / next(key for key in objects(folder) if key.endswith(name))


def one_line(said: Said) -> str:
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1), said
    return said.err


# ---- reading back -------------------------------------------------------------------------------------------


async def test_a_value_is_printed_wherever_it_lies(terminal: Terminal, run: RunHandle[Any]) -> None:
    assert (await terminal.type("payload", "get-input", run.id)).json == ROWS
    assert (await terminal.type("payload", "get-output", run.id)).json == ROWS
    assert (await terminal.type("payload", "get", run.id, "text")).json == TEXT
    assert (await terminal.type("payload", "get", run.id, "outer / inner", "--json")).json == TEXT
    assert (await terminal.type("payload", "get", run.id, "small")).out == '"a word"\n'


async def test_raw_is_the_object_itself(terminal: Terminal, run: RunHandle[Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    for step, content in (("text", TEXT.encode()), ("bytes", BYTES), ("small", b"a word"), ("outer", b"50000")):
        said = await terminal.type("payload", "get", run.id, step, "--raw", "--out", str(out))
        assert (said.code, said.out, out.read_bytes()) == (0, "", content)


def test_raw_bytes_reach_stdout_unchanged(terminal: Terminal, folder: Path) -> None:
    run = asyncio.run(ended(terminal, report, []))
    command = [sys.executable, "-m", "onward.cli", "payload", "get", run.id]
    assert subprocess.run([*command, "bytes", "--raw"], capture_output=True, check=True).stdout == BYTES
    assert subprocess.run([*command, "text", "--raw"], capture_output=True, check=True).stdout == TEXT.encode()


async def test_a_pointer_says_where_the_value_lies(terminal: Terminal, run: RunHandle[Any], folder: Path) -> None:
    said = (await terminal.type("payload", "get", run.id, "text", "--pointer")).json["$payload"]
    assert (folder / said["key"]).read_text("utf-8") == TEXT
    assert (said["size"], said["contentType"]) == (100_000, "text/plain; charset=utf-8")
    for wanted in ("--pointer", "--url"):
        assert "lies in the database itself" in one_line(await terminal.type("payload", "get", run.id, "small", wanted))


async def test_what_a_run_does_not_have_is_told_in_one_line(
    terminal: Terminal, run: RunHandle[Any], folder: Path
) -> None:
    assert "has no step 'x': `onward runs steps" in one_line(await terminal.type("payload", "get", run.id, "x"))
    failed = await ended(terminal, broken)
    assert "it failed: FileNotFoundError: " in one_line(await terminal.type("payload", "get", failed.id, "charge"))
    assert "has no output: it failed" in one_line(await terminal.type("payload", "get-output", failed.id))
    assert "no run" in one_line(await terminal.type("payload", "get-input", run.id, "--tenant", "other"))
    said = await terminal.type("payload", "get-input", run.id, "--raw", "--pointer")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "cannot write" in one_line(await terminal.type("payload", "get-input", run.id, "--out", "no/such/folder"))


async def test_a_damaged_and_a_missing_object_are_never_printed(
    terminal: Terminal, run: RunHandle[Any], folder: Path
) -> None:
    object_of(folder, "/text.txt").write_text("b" * 100_000)
    object_of(folder, "bytes.bin").unlink()
    for form in ("--json", "--raw"):
        assert "was damaged" in one_line(await terminal.type("payload", "get", run.id, "text", form))
        assert "is not in" in one_line(await terminal.type("payload", "get", run.id, "bytes", form))


async def test_a_folder_gives_no_addresses(terminal: Terminal, run: RunHandle[Any]) -> None:
    assert "which gives no addresses" in one_line(await terminal.type("payload", "get", run.id, "text", "--url"))


async def test_url_with_an_address_names_the_database_and_alone_asks_for_one(
    terminal: Terminal, run: RunHandle[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONWARD_URL")
    said = await terminal.type("payload", "get", "--url", terminal.url, run.id, "small")
    assert said.out == '"a word"\n'
    for order in (["--url", terminal.url, "--url", run.id], [run.id, f"--url={terminal.url}", "--url"]):
        assert "gives no addresses" in one_line(await terminal.type("payload", "get-input", *order))


# ---- keep ---------------------------------------------------------------------------------------------------


async def test_keep_copies_a_value_to_where_retention_never_reaches(
    terminal: Terminal, run: RunHandle[Any], folder: Path
) -> None:
    for step, content in (
        ("text", TEXT.encode()),
        ("bytes", BYTES),
        ("small", b"a word"),
        ("outer / inner", TEXT.encode()),
    ):
        key = (await terminal.type("payload", "keep", run.id, step, "reports")).out.strip()
        assert key.startswith("onward/artifacts/default/reports/")
        assert (folder / key).read_bytes() == content
        assert (await terminal.type("payload", "keep", run.id, step, "reports", "--json")).json == {"key": key}
    async with Client(terminal.url) as client:
        await (await client.database()).fetch("update onward.run_result set expires_at = '-infinity'")
    await terminal.type("payload", "sweep", "--older-than", "0s")
    assert [key.split("/")[1] for key in objects(folder)] == ["artifacts"] * 4


# ---- verify -------------------------------------------------------------------------------------------------


async def test_verify_exits_with_1_where_anything_is_damaged(
    terminal: Terminal, run: RunHandle[Any], folder: Path
) -> None:
    said = await terminal.type("payload", "verify")
    assert (said.code, said.out.splitlines()[-1]) == (0, "5 pointers (419 kB) checked, 0 damaged or missing")
    damaged = object_of(folder, "/text.txt")
    damaged.write_text("b" * 100_000)
    for where in ([], ["--run", run.id], ["--sample", "100"], ["--all-tenants"]):
        said = await terminal.type("payload", "verify", *where)
        assert (said.code, said.err) == (1, "")
        [line, total] = said.out.splitlines()
        assert line.startswith(f"run {run.id}, step 'text': the payload {damaged.relative_to(folder)} in ")
        assert total.endswith("checked, 1 damaged or missing")
    said = await terminal.type("payload", "verify", "--json")
    [found] = said.json["damaged"]
    assert (said.code, found["run"], found["where"]) == (1, run.id, "step 'text'")
    assert (await terminal.type("payload", "verify", "--tenant", "other")).code == 0
    assert "no run" in one_line(await terminal.type("payload", "verify", "--run", run.id, "--tenant", "other"))


# ---- sweep --------------------------------------------------------------------------------------------------


async def test_sweep_says_what_it_would_delete_and_deletes_it(
    terminal: Terminal, run: RunHandle[Any], folder: Path
) -> None:
    before = objects(folder)
    orphan = object_of(folder, "/text.txt").with_name("left.txt")
    orphan.write_text("b" * 1500)
    assert "0 orphans (0 B)" in (await terminal.type("payload", "sweep")).out
    moment = time.time() - 2 * 86_400
    os.utime(orphan, (moment, moment))
    said = await terminal.type("payload", "sweep", "--dry-run")
    assert said.code == 0
    assert f"1.50 kB  {orphan.relative_to(folder)}\n" in said.out
    assert "1 orphan (1.50 kB) would be deleted" in said.out
    assert orphan.exists()
    said = await terminal.type("payload", "sweep", "--json")
    assert [one["key"] for one in said.json["orphans"]] == [str(orphan.relative_to(folder))]
    assert objects(folder) == before


async def test_sweep_removes_runs_whose_retention_has_passed(
    terminal: Terminal, run: RunHandle[Any], folder: Path
) -> None:
    async with Client(terminal.url) as client:
        await (await client.database()).fetch("update onward.run_result set expires_at = '-infinity'")
    assert "1 run past retention would be removed" in (await terminal.type("payload", "sweep", "--dry-run")).out
    said = await terminal.type("payload", "sweep")
    assert "1 run past retention removed, with 5 objects (419 kB)" in said.out
    assert objects(folder) == []
    assert (await terminal.type("runs", "list", "--json")).json["runs"] == []


async def test_sweep_finishes_what_another_one_had_begun(terminal: Terminal, run: RunHandle[Any], folder: Path) -> None:
    async with Client(terminal.url) as client:
        database = await client.database()
        await database.fetch("update onward.run_result set expires_at = '-infinity'")
        await database.fetch("select onward.remove_expired(10)")
    assert "of 1 run only objects are left to delete" in (await terminal.type("payload", "sweep", "--dry-run")).out
    assert "0 runs past retention removed, with 5 objects" in (await terminal.type("payload", "sweep")).out


# ---- lifecycle ----------------------------------------------------------------------------------------------


@pytest.fixture
def bucket(reached: servers.Server, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> str:
    bucket = reached.bucket()
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", f"s3://{bucket}")
    return bucket


async def test_lifecycle_prints_the_rules_and_sets_them_once(
    terminal: Terminal, bucket: str, s3: servers.Server
) -> None:
    said = (await terminal.type("payload", "lifecycle")).json
    assert said["versioning"] == {"Status": "Enabled"}
    assert [rule["ID"] for rule in said["rules"]] == ["onward-onward-tmp", "onward-onward-rest"]
    assert s3.client.get_bucket_versioning(Bucket=bucket).get("Status") is None
    assert (await terminal.type("payload", "lifecycle", "--apply")).out.startswith("versioning is on\nrule onward-")
    assert s3.client.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert (await terminal.type("payload", "lifecycle", "--apply")).out == "all is set already\n"
    assert (await terminal.type("payload", "lifecycle", "--apply", "--json")).json == {"changed": []}


async def test_a_presigned_address_gives_the_object_to_anybody(terminal: Terminal, bucket: str) -> None:
    run = await ended(terminal, report, [])
    said = await terminal.type("payload", "get", run.id, "text", "--url", "--expires", "5m")
    assert (await asyncio.to_thread(lambda: urllib.request.urlopen(said.out.strip()).read())).decode() == TEXT


def test_a_folder_has_no_rules(terminal: Terminal, folder: Path) -> None:
    said = terminal.run("payload", "lifecycle")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "onward payload sweep" in said.err


@pytest.mark.usefixtures("no_store")
def test_without_a_store_each_command_says_so_or_finds_nothing(terminal: Terminal) -> None:
    assert "0 orphans" in terminal.run("payload", "sweep").out
    assert "0 pointers" in terminal.run("payload", "verify").out
    assert "ONWARD_PAYLOAD_URL" in one_line(terminal.run("payload", "lifecycle"))


# ---- the other commands ---------------------------------------------------------------------------------------


async def test_a_value_that_lies_outside_is_shown_as_its_pointer(terminal: Terminal, run: RunHandle[Any]) -> None:
    shown = (await terminal.type("runs", "show", run.id, "--json")).json
    steps = (await terminal.type("runs", "steps", run.id, "--json")).json["steps"]
    [listed] = (await terminal.type("runs", "list", "--json")).json["runs"]
    assert shown["steps"] == steps
    assert listed["input"] == shown["input"]
    outputs = {step["name"]: step["output"] for step in steps}
    assert (outputs["small"], outputs["outer"]) == ("a word", 50_000)
    for value in (shown["input"], shown["output"], outputs["text"], outputs["bytes"], outputs["inner"]):
        assert list(value) == ["$payload"]
        assert list(value["$payload"]) == ["key", "sha256", "size", "contentType"]
    key = (await terminal.type("payload", "get", run.id, "text", "--pointer")).json
    assert outputs["text"] == key


async def test_people_are_shown_how_large_it_is_and_where(
    terminal: Terminal, run: RunHandle[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    drawn = (await terminal.type("runs", "show", run.id)).out
    assert f"input → 109 kB onward/executions/default/report/{run.id}/input.json\n" in drawn
    assert f"→ 100 kB onward/workflow-payloads/default/report/{run.id}/text.txt\n" in drawn
    assert "→ 1.02 kB onward/" in (await terminal.type("runs", "steps", run.id)).out
    assert "→ 109 kB onward/" in (await terminal.type("runs", "list")).out


def finding(said: Said) -> dict[str, Any]:
    [found] = [one for one in json.loads(said.out)["findings"] if one["what"] == "payloads"]
    return dict(found)


def test_doctor_says_where_payloads_are_kept_without_deciding_it(
    terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = finding(terminal.run("doctor", "--json"))
    assert (found["level"], found["said"]) == ("ok", f"{folder.as_uri()} can be read and written; not used yet")
    monkeypatch.delenv("ONWARD_PAYLOAD_URL")
    found = finding(terminal.run("doctor", "--json"))
    assert found["level"] == "ok"
    assert folder.as_uri() not in found["said"]


async def test_doctor_fails_where_payloads_cannot_be_kept_or_lie_elsewhere(
    terminal: Terminal, run: RunHandle[Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert finding(await terminal.type("doctor", "--json"))["said"] == f"{folder.as_uri()} can be read and written"
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", "file:///somewhere/else")
    said = await terminal.type("doctor", "--json")
    assert (said.code, finding(said)["level"]) == (1, "FAIL")
    assert "the payloads of this database lie in" in finding(said)["said"]
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", "nonsense")
    assert finding(await terminal.type("doctor", "--json"))["level"] == "FAIL"


@pytest.mark.usefixtures("no_store")
def test_doctor_says_what_to_set_where_there_is_no_store(terminal: Terminal) -> None:
    said = terminal.run("doctor", "--json")
    found = finding(said)
    assert (said.code, found["level"]) == (0, "warn")
    assert "ONWARD_PAYLOAD_URL" in found["advice"]
