"""`onward server` and `onward token` as people run them, and REST beside `onward dev`."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from typing import Any

import pytest

from cli.terminal import SAMPLE, Terminal, read_until
from onward.cli.dev import Dev
from onward.cli.options import Place
from onward.server.serving import listen

PLACE = re.compile(r"http://[0-9.]+:[0-9]+")


def ask(url: str, *, method: str = "GET", body: Any = None, token: str | None = "Basic x") -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", **({} if token is None else {"Authorization": token})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def address(said: str) -> str:
    found = PLACE.search(said)
    assert found, said
    return found[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_serves_until_it_is_told_to_stop(terminal: Terminal, number: int) -> None:
    server = terminal.spawn("server", "--port", "0")
    there = address(read_until(server, "serving REST"))
    assert ask(f"{there}/healthz", token=None) == (200, {"status": "ok"})
    assert ask(f"{there}/v1/runs", token=None)[0] == 401
    status, run = ask(f"{there}/v1/workflows/doubling/runs", method="POST", body={"input": 21})
    assert status == 201
    assert terminal.run("runs", "show", run["id"], "--json").json["input"] == 21
    server.send_signal(number)
    assert server.wait(10) == 0
    assert "stopped" in server.communicate()[0]


def test_a_second_server_on_a_port_is_told_in_one_line(terminal: Terminal) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        said = terminal.run("server", "--port", port)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert f"port {port} of 127.0.0.1 is taken" in said.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3"])
def test_without_auth_a_server_listens_on_loopback_only(terminal: Terminal, host: str) -> None:
    said = terminal.run("server", "--host", host, "--port", "0", "--auth", "none")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "127.0.0.1" in said.err


def test_a_server_of_a_database_that_cannot_be_is_wrong_use(terminal: Terminal) -> None:
    said = terminal.run("server", "--port", "0", "--url", "mysql://h/d")
    assert (said.code, said.err.count("\n")) == (2, 1)


def test_tokens_are_made_listed_used_and_revoked(terminal: Terminal) -> None:
    made = terminal.run("token", "create", "--tenant", "acme", "--scope", "write", "--expires", "90d", "--note", "shop")
    assert re.fullmatch(r"onw_[0-9a-f]{16}_[0-9a-f]{64}\n", made.out)
    assert "not shown again" in made.err
    token = made.out.strip()
    [listed] = terminal.run("token", "list", "--tenant", "acme", "--json").json["tokens"]
    assert {key: listed[key] for key in ("tenant", "scope", "note", "live", "revokedAt")} == {
        "tenant": "acme", "scope": "write", "note": "shop", "live": True, "revokedAt": None,
    }  # fmt: skip
    shown = terminal.run("token", "list", "--tenant", "acme").out
    assert listed["id"] in shown
    assert token.rpartition("_")[2] not in shown
    assert terminal.run("token", "list").out == ""

    server = terminal.spawn("server", "--port", "0", "--auth", "tokens")
    there = address(read_until(server, "serving REST"))
    status, run = ask(f"{there}/v1/workflows/w/runs", method="POST", body={}, token=f"Bearer {token}")
    assert (status, run["tenant"]) == (201, "acme")
    assert terminal.run("token", "revoke", listed["id"]).code == 1, "of another tenant"
    assert terminal.run("token", "revoke", token, "--tenant", "acme").code == 0
    assert ask(f"{there}/v1/runs", token=f"Bearer {token}")[0] == 401
    assert "revoked" in terminal.run("token", "list", "--tenant", "acme").out


def test_a_token_of_no_scope_or_time_is_wrong_use(terminal: Terminal) -> None:
    for wrong in (["--scope", "all"], ["--expires", "soon"], ["--tenant", "a b"]):
        said = terminal.run("token", "create", *wrong)
        assert (said.code, said.err.count("\n"), said.out) == (2, 1, "")


def test_a_command_that_needs_the_database_says_so_to_who_names_a_server(terminal: Terminal) -> None:
    said = terminal.run("runs", "list", "--url", "http://127.0.0.1:8787")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "postgresql://" in said.err


def test_dev_serves_rest_beside_its_worker(terminal: Terminal) -> None:
    dev = terminal.spawn("dev", str(SAMPLE), "--port", "0")
    said = read_until(dev, "serving")
    there = address(said)
    status, run = ask(f"{there}/v1/workflows/doubling/runs", method="POST", body={"input": 21}, token=None)
    assert status == 201
    assert ask(f"{there}/v1/runs/{run['id']}?wait=10s", token=None)[1]["output"] == 42
    dev.send_signal(signal.SIGINT)
    assert dev.wait(15) == 0


def test_dev_goes_on_without_rest_where_the_usual_port_is_taken_and_not_where_one_was_named(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        said = terminal.run("dev", str(SAMPLE), "--port", port)
        assert (said.code, said.err.count("\n")) == (1, 1)
        assert f"port {port} of 127.0.0.1 is taken" in said.err
        monkeypatch.setattr("onward.cli.dev.PORT", int(port))
        place = Place(terminal.url, "default")
        assert Dev(str(SAMPLE), place, None, "text")._rest(terminal.url) is None
    assert Dev(str(SAMPLE), place, None, "text")._rest(terminal.url) is not None
