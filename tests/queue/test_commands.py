"""Queues and topics from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.terminal import Terminal


@pytest.fixture
def terminal(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("ONWARD_URL", url)
    for name in ("ONWARD_TENANT", "ONWARD_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    terminal = Terminal(url, tmp_path)
    yield terminal
    terminal.close()


def test_a_message_from_sending_to_deleting(terminal: Terminal) -> None:
    sent = terminal.run("queue", "send", "emails", '{"to": 1}', "--group", "g", "--header", "trace=abc")
    assert sent.code == 0
    [message] = terminal.run("queue", "receive", "emails", "--json").json["messages"]
    assert message["id"] == sent.out.strip()
    assert (message["body"], message["group"], message["headers"]) == ({"to": 1}, "g", {"trace": "abc"})
    assert set(message) == {
        "id", "body", "headers", "group", "readCount", "enqueuedAt", "visibleAt", "receipt",
    }  # fmt: skip
    stats = terminal.run("queue", "stats", "emails", "--json").json
    assert (stats["queue"], stats["ready"], stats["inFlight"]) == ("emails", 0, 1)
    wrong = terminal.run("queue", "delete", "emails", message["id"], "--receipt", "7")
    assert (wrong.code, wrong.err.count("\n")) == (1, 1)
    assert "handed on" in wrong.err
    assert terminal.run("queue", "delete", "emails", message["id"], "--receipt", "1").code == 0
    assert "no message" in terminal.run("queue", "delete", "emails", message["id"], "--receipt", "1").err


def test_messages_for_people(terminal: Terminal) -> None:
    assert terminal.run("queue", "list").err == "no messages\n"
    terminal.run("queue", "send", "emails", '"hello"', "--group", "g")
    assert "emails" in terminal.run("queue", "list").out
    said = terminal.run("queue", "receive", "emails", "--delete", "--max", "3")
    assert 'group g\n  "hello"\n' in said.out
    assert terminal.run("queue", "receive", "emails", "--wait", "10ms").err == "no messages\n"


def test_a_match_is_json(terminal: Terminal) -> None:
    terminal.run("queue", "send", "q", '{"a": 1}')
    assert terminal.run("queue", "receive", "q", "--match", '{"a": 2}', "--json").json == {"messages": []}
    assert len(terminal.run("queue", "receive", "q", "--match", '{"a": 1}', "--json").json["messages"]) == 1


def test_a_purge_asks_first(terminal: Terminal) -> None:
    terminal.run("queue", "send", "q", "1")
    asked = terminal.run("queue", "purge", "q")
    assert (asked.code, "--yes" in asked.err) == (2, True)
    assert terminal.run("queue", "purge", "q", "--yes").out == "1\n"
    assert terminal.run("queue", "purge", "__wf_w", "--yes").code == 2


def test_dead_letters_are_shown_and_sent_again(terminal: Terminal) -> None:
    terminal.run("queue", "send", "q.dead", "1")
    assert terminal.run("queue", "dead", "q", "--json").json["messages"][0]["body"] == 1
    assert terminal.run("queue", "dead", "q", "--resend").out == "0\n"  # it never was in q


def test_a_subscription_from_beginning_to_end(terminal: Terminal) -> None:
    made = terminal.run("topic", "subscribe", "user.*", "--queue", "q")
    hook = terminal.run("topic", "subscribe", "user.#", "--http", "https://example.com/hook")
    run = terminal.run("topic", "subscribe", "user.#", "--workflow", "w", "--json").json
    assert run["target"] == {"type": "workflow", "name": "w"}
    assert "whsec_" in hook.err
    assert terminal.run("topic", "publish", "user.left", "{}", "--key", "k").out == "3\n"
    assert terminal.run("topic", "publish", "user.left", "{}", "--key", "k", "--json").json == {"delivered": 3}
    listed = terminal.run("topic", "list", "--json").json["subscriptions"]
    assert {s["id"] for s in listed} == {made.out.strip(), hook.out.strip(), run["id"]}
    assert "whsec_" not in terminal.run("topic", "list", "--json").out
    assert "https://example.com/hook" in terminal.run("topic", "list").out
    assert len(terminal.run("topic", "list", "user.*", "--json").json["subscriptions"]) == 1
    assert terminal.run("topic", "unsubscribe", made.out.strip()).code == 0
    again = terminal.run("topic", "unsubscribe", made.out.strip())
    assert (again.code, again.err.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "subscribe", "a"],
        ["topic", "subscribe", "a", "--queue", "q", "--workflow", "w"],
        ["topic", "subscribe", "a", "--queue", "q", "--secret", "x"],
        ["topic", "subscribe", "a..b", "--queue", "q"],
        ["topic", "publish", "a", "not json"],
        ["queue", "send", "Q", "1"],
        ["queue", "send", "q", "nonsense"],
        ["queue", "receive", "q", "--max", "0"],
        ["queue", "receive", "q", "--visibility", "soon"],
        ["queue", "delete", "q", "x"],
    ],
)
def test_wrong_use_is_one_line_and_2(terminal: Terminal, arguments: list[str]) -> None:
    said = terminal.run(*arguments)
    assert (said.code, said.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("command", ["queue", "topic"])
def test_every_command_has_help(terminal: Terminal, command: str) -> None:
    said = terminal.run(command, "--help")
    assert said.code == 0
    names = [line.split()[0] for line in said.out.partition("Commands:")[2].strip().splitlines()]
    assert len(names) > 3
    for name in names:
        assert "--url" in terminal.run(command, name, "--help").out
