"""Workers, `dev` and the rest as people run them: processes, signals, changed files, a demo."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import postgres
from cli.terminal import EXAMPLES, SAMPLE, Terminal, read_until
from onward import embedded
from onward.store import schema

APP = """
from onward import Context, workflow

@workflow
async def first(ctx: Context, text: str) -> str:
    return text
"""


# ---- finding the app --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("app", "told"),
    [
        ("missing.py", "there is no file missing.py"),
        ("missing", "there is no module 'missing'"),
        ("json", "there is no workflow in json"),
        ("json:dumps", "neither a workflow nor a list of them"),
        ("json:nothing", "json has no 'nothing'"),
        ("broken.py", "broken.py, line 1: "),
        ("raising.py", "raising.py raised NameError: name 'y' is not defined"),
        ("importing", "importing raised ModuleNotFoundError: No module named 'not_there'"),
        ("app.py:", "name an object after the colon, or leave it out for every workflow in app.py"),
        ("null.py", "null.py: source code string cannot contain null bytes"),
    ],
)
def test_an_app_that_cannot_be_served_is_told_in_one_line(terminal: Terminal, app: str, told: str) -> None:
    Path("null.py").write_text("x = 1\0\n")
    Path("broken.py").write_text("def x(:\n")
    Path("raising.py").write_text("y\n")
    Path("importing.py").write_text("import not_there\n")
    Path("app.py").write_text(APP)
    try:
        said = terminal.run("worker", app)
    finally:
        sys.path[:] = [entry for entry in sys.path if entry != str(terminal.folder)]
        for name in ("raising", "importing", "app"):
            sys.modules.pop(name, None)
    assert (said.code, said.err.count("\n")) == (1, 1), said
    assert told in said.err


@pytest.mark.parametrize(
    "app", ["app.py", "app", "app:first", "app:LIST", "app.py:LIST", "package.inner", "package/inner.py"]
)
def test_an_app_is_a_file_a_module_or_an_object(terminal: Terminal, app: str) -> None:
    Path("app.py").write_text(APP + "\nLIST = [first]\n")
    Path("package").mkdir()
    Path("package/__init__.py").touch()
    Path("package/near.py").write_text(APP)
    Path("package/inner.py").write_text("from .near import first\n")
    process = terminal.spawn("worker", app)
    assert "serving first@1 on postgresql://" in read_until(process, "serving")


# ---- workers ----------------------------------------------------------------------------------------------


def test_a_worker_that_is_told_to_stop_lets_steps_finish_and_exits_with_0(terminal: Terminal) -> None:
    Path("app.py").write_text(
        "import time, pathlib\n"
        + APP
        + """
def slow():
    pathlib.Path("begun").touch()
    time.sleep(1)
    return "finished"

@workflow
async def second(ctx: Context) -> str:
    return await ctx.step.run("slow", slow)
"""
    )
    process = terminal.spawn("worker", "app.py", "--threads", "1", "--lease", "5s", "--concurrency", "2")
    read_until(process, "serving")
    run_id = terminal.run("start", "second").out.strip()
    while not Path("begun").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert "stopped" in read_until(process, "stopped")
    assert process.wait(10) == 0
    assert terminal.run("runs", "steps", run_id, "--json").json["steps"][0]["output"] == "finished"
    assert terminal.run("workers", "--json").json["workers"] == []


def test_a_worker_waits_for_a_database_that_is_away_and_says_so(terminal: Terminal) -> None:
    process = terminal.spawn("worker", str(SAMPLE), ONWARD_URL="postgresql://u:secret@127.0.0.1:1/x")
    said = read_until(process, "trying")
    assert "cannot reach the database postgresql://u@127.0.0.1:1/x" in said
    assert "secret" not in said


def test_ctrl_c_ends_a_wait_with_130_and_the_run_that_goes_on(terminal: Terminal) -> None:
    process = terminal.spawn("start", "doubling", "--wait")
    assert "no live worker" in read_until(process, "no live worker")
    [run] = terminal.run("runs", "list", "--json").json["runs"]
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=10)
    assert (process.returncode, said.strip()) == (130, f"run {run['id']} goes on: onward why {run['id']}")


def test_a_reader_that_goes_away_is_no_error(terminal: Terminal) -> None:
    command = f"{sys.executable} -m onward.cli runs list --help | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_closed_stream_is_no_error(terminal: Terminal, closed: str) -> None:
    Path("app.py").write_text(APP)
    for arguments in ("runs list", "--help", "worker app.py"):
        process = subprocess.Popen(
            f"exec {sys.executable} -m onward.cli {arguments} {closed}",
            shell=True, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        if arguments.startswith("worker"):
            while not terminal.run("workers", "--json").json["workers"]:
                assert process.poll() is None
            process.terminate()
        out, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
        assert "rror" not in out + err


@pytest.mark.usefixtures("terminal")
def test_an_output_that_cannot_be_written_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    command = f"{sys.executable} -m onward.cli doctor > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "onward: cannot write: No space left on device\n")


def test_ctrl_c_while_the_script_still_imports_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "asyncpg.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)\nraise KeyError\n")
    [script] = metadata.entry_points(group="console_scripts", name="onward")
    done = subprocess.run(
        [sys.executable, "-c", f"from {script.module} import {script.attr}; {script.attr}()"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_debugging_shows_where_an_error_comes_from(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in terminal.run("runs", "show", "x").err
    monkeypatch.setenv("ONWARD_DEBUG", "1")
    assert "Traceback" in terminal.run("runs", "show", "x").err


def test_help_is_there_without_a_database_or_what_draws(terminal: Terminal) -> None:
    code = "import sys; from onward.cli import run; run(['--help']); print([m for m in sys.modules if m in %r])"
    heavy = ["rich.console", "watchfiles", "uvloop"]
    done = subprocess.run([sys.executable, "-c", code % heavy], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")
    for name in ("dev", "worker", "migrate", "start", "runs", "workers", "doctor", "why"):
        assert re.search(rf"^  {name} ", done.stdout, re.MULTILINE)


def test_the_list_of_commands_is_not_cut(terminal: Terminal) -> None:
    for group in ([], ["runs"]):
        assert "..." not in terminal.run(*group, "--help").out.partition("Commands:")[2]


def test_every_command_takes_url_and_tenant_and_those_that_print_json(terminal: Terminal) -> None:
    steering = ("list", "show", "steps", "signal", "cancel", "pause", "resume", "rerun", "diff")
    printing = [["runs", name] for name in steering] + [["start"], ["workers"], ["why"], ["doctor"], ["migrate"]]
    for command in [*printing, ["worker"], ["dev"]]:
        shown = terminal.run(*command, "--help").out
        assert "--url" in shown
        for_one_tenant = command[0] in ("runs", "start", "why")
        assert ("--tenant" in shown) == for_one_tenant, command
        assert terminal.run(*command, "--tenant", "acme", "--help").code == 0
        assert ("--json" in shown) == (command in printing), command


# ---- the database -----------------------------------------------------------------------------------------


def test_migrate_creates_the_schema_once_and_says_so(bundled_server: postgres.Server, terminal: Terminal) -> None:
    url, newest = bundled_server.create(template=None), schema.newest()
    try:
        assert terminal.run("doctor", "--url", url).code == 0
        assert f"(schema 0 to {newest})" in terminal.run("migrate", "--dry-run", "--url", url).out
        assert terminal.run("migrate", "--url", url).out.startswith("applied migration")
        assert terminal.run("migrate", "--url", url, "--json").json["applied"] is False
        assert terminal.run("migrate", "--url", url).out == f"already up to date (schema {newest})\n"
    finally:
        bundled_server.drop(url)


def test_doctor_exits_with_1_where_something_is_broken(terminal: Terminal) -> None:
    said = terminal.run("doctor", "--url", "postgresql://127.0.0.1:1/x")
    assert (said.code, said.err) == (1, "")
    assert said.out.startswith("FAIL database  cannot reach the database")


async def test_doctor_fails_on_a_schema_of_another_release(terminal: Terminal, connect: postgres.Connect) -> None:
    connection = await connect(terminal.url)
    for number, told in ((99, "upgrade here"), (0, "onward migrate")):
        await connection.execute("update onward.setting set value = $1 where name = 'schema'", str(number))
        said = await terminal.type("doctor")
        assert told in said.out
        assert said.code == (1 if number else 0)


def test_doctor_names_runs_that_stand_still_and_what_to_do(terminal: Terminal) -> None:
    lost = terminal.run("start", "doubling", "--version", "3", "--tenant", "acme").out.strip()
    paused = terminal.run("start", "nap").out.strip()
    terminal.run("runs", "pause", paused)
    said = terminal.run("doctor")
    assert said.code == 0
    assert "stranded  1 run of doubling@3: due, and no live worker serves it" in said.out
    assert f"onward why {lost} --tenant acme" in said.out
    assert f"onward runs resume {paused}" in said.out
    levels = {f["what"]: f["level"] for f in terminal.run("doctor", "--json").json["findings"]}
    assert levels.pop("database") == "warn"  # the tests' server has fsync off
    assert levels == {
        "sessions": "ok", "notify": "ok", "schema": "ok", "threads": "ok", "payloads": "ok", "workers": "warn",
        "paused": "ok", "stranded": "warn",
    }  # fmt: skip


# ---- dev --------------------------------------------------------------------------------------------------


def test_dev_brings_a_database_reloads_survives_a_syntax_error_and_leaves_nothing(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)
    env = {name: value for name, value in os.environ.items() if name != "ONWARD_URL"}
    command = [sys.executable, "-u", "-m", "onward.cli", "dev", "app.py"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said = read_until(process, "serving")
        assert "created " in said
        assert "database  postgresql://" in said
        assert "onward start first --input '\"text\"'" in said
        assert "serving first@1" in said
        app.write_text(APP + "def x(:\n")
        said = read_until(process, "starts again when")
        assert "INFO stopped" in said.partition("SyntaxError")[0]  # the old worker is gone before the new one comes
        app.write_text(APP.replace("first", "second"))
        assert "serving second@1" in read_until(process, "serving")
        process.send_signal(signal.SIGINT)
        said = read_until(process, "bye")
        assert "INFO stopped" in said.partition("bye")[0]
        assert said.endswith("bye: the worker and its database are stopped\n")
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.communicate()
        embedded.remove(tmp_path / ".onward")  # refused while a server or a worker still uses it


def test_dev_where_nothing_can_be_written_says_what_to_do(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    (terminal.folder / "app.py").write_text(APP)
    monkeypatch.setenv("ONWARD_URL", "")
    monkeypatch.chdir("/sys")  # not even root may
    said = terminal.run("dev", str(terminal.folder / "app.py"))
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith("onward: cannot write in /sys (")
    assert "set ONWARD_URL" in said.err


def test_dev_that_others_survive_does_not_say_that_it_stopped_the_database(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    env = {name: value for name, value in os.environ.items() if name != "ONWARD_URL"}
    command = [sys.executable, "-u", "-m", "onward.cli", "dev", "app.py"]
    try:
        with embedded.acquire(tmp_path / ".onward"):
            process = subprocess.Popen(
                command, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            read_until(process, "serving")
            process.send_signal(signal.SIGINT)
            assert read_until(process, "bye").endswith("bye: the worker is stopped; others still use its database\n")
            process.communicate(timeout=15)
    finally:
        embedded.remove(tmp_path / ".onward")


def test_a_program_that_serves_says_what_and_where(terminal: Terminal) -> None:
    Path("program.py").write_text(APP + "first.serve()\n")
    env = {**os.environ, "ONWARD_URL": f"{terminal.url}{'&' if '?' in terminal.url else '?'}password=secret"}
    process = subprocess.Popen(
        [sys.executable, "program.py"], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said = read_until(process, "serving")
    finally:
        process.kill()
        process.communicate()
    assert "serving first@1 on postgresql://" in said
    assert "secret" not in said


def test_dev_and_worker_keep_the_password_to_themselves(terminal: Terminal) -> None:
    Path("app.py").write_text(APP)
    url = f"{terminal.url}{'&' if '?' in terminal.url else '?'}password=secret"
    said = read_until(terminal.spawn("dev", "app.py", "--url", url), "serving")
    assert "  database  postgresql://" in said
    assert "secret" not in said


def test_the_worker_of_a_dev_that_was_killed_stops_by_itself(terminal: Terminal) -> None:
    Path("app.py").write_text(APP)
    process = terminal.spawn("dev", "app.py")
    read_until(process, "serving")
    assert len(terminal.run("workers", "--json").json["workers"]) == 1
    process.kill()
    read_until(process, "stopped")
    assert terminal.run("workers", "--json").json["workers"] == []


# ---- the examples -----------------------------------------------------------------------------------------


def test_the_demo_tells_how_a_run_survives_its_worker(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "ONWARD_URL": "postgresql://127.0.0.1:1/not-this-one"}
    command = [sys.executable, str(EXAMPLES / "demo.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    for told in ("most likely dead", "`userId` was 7, not 42", "create-user", "■ completed", "is on board"):
        assert told in done.stdout
    assert done.stdout.count("created user 42") == 1
    assert done.stdout.count("sending the welcome mail") == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", ["onboarding.py"])
def test_an_example_runs_by_itself(terminal: Terminal, example: str) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / example)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "ada@example.com is on board" in done.stdout
