"""Laws of the replay machine: pure, so every one is checked without a loop, a database or a clock."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.replay import Call, IllegalTransition, Replay, Row, State

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def row(path: str, kind: str = "run") -> Row:
    return Row(path, kind, b"1", None, 1, NOW)


def asked(replay: Replay, name: str, parent: str = "") -> Call:
    call = replay.make(parent, name, "run")
    replay.open(call)
    return call


def given_paths(replay: Replay) -> list[str]:
    out = []
    while (found := replay.next_row()) is not None:
        out.append(found[1].path)
    return out


def test_a_repeated_name_counts_up() -> None:
    replay = Replay()
    assert [replay.make("", "a", "run").path for _ in range(3)] == ["a", "a#2", "a#3"]


def test_counts_are_per_parent_and_restart_with_each_attempt() -> None:
    replay = Replay()
    replay.begin_attempt("outer")
    assert [replay.make("outer", "a", "run").path for _ in range(2)] == ["outer\x1fa", "outer\x1fa#2"]
    assert replay.make("", "a", "run").path == "a"
    replay.begin_attempt("outer")
    assert replay.make("outer", "a", "run").path == "outer\x1fa"
    assert replay.make("", "a", "run").path == "a#2"


@given(st.permutations(["a", "b", "c", "d"]), st.permutations(["a", "b", "c", "d"]))
def test_results_come_in_the_order_of_the_journal_whatever_the_order_of_asking(
    journal: list[str], asking: list[str]
) -> None:
    replay = Replay([row(name) for name in journal])
    for name in asking:
        asked(replay, name)
    assert given_paths(replay) == journal


@given(st.lists(st.sampled_from(["add", "ask", "next"]), max_size=30))
def test_the_first_time_and_a_replay_give_the_same_results_in_the_same_order(moves: list[str]) -> None:
    """Rows that come one after the other between questions, against rows that are all there at once."""
    hot, made, journal, order = Replay(), 0, [], []
    for move in moves:
        if move == "ask":
            asked(hot, f"s{made}")
            made += 1
        elif move == "add" and len(journal) < made:
            journal.append(row(f"s{len(journal)}"))
            hot.add(journal[-1])
        elif move == "next" and (found := hot.next_row()):
            order.append(found[1].path)
    order += given_paths(hot)
    again = Replay(journal)
    for n in range(made):
        asked(again, f"s{n}")
    assert given_paths(again) == order == [r.path for r in journal]


def test_a_row_of_a_withdrawn_call_is_passed_over() -> None:
    replay = Replay([row("a"), row("b")])
    first = asked(replay, "a")
    asked(replay, "b")
    replay.withdraw(first)
    assert given_paths(replay) == ["b"]
    assert replay.divergence() is None


def test_no_step_starts_while_the_journal_holds_results() -> None:
    replay = Replay([row("a")])
    new = asked(replay, "new")
    assert not replay.may_start(new)
    asked(replay, "a")
    assert given_paths(replay) == ["a"]
    assert replay.may_start(new)


def test_a_recorded_step_that_was_never_asked_for_is_a_divergence() -> None:
    replay = Replay([row("old")])
    asked(replay, "new")
    assert replay.next_row() is None
    found = replay.divergence()
    assert found is not None
    assert (found[0].path, found[1]) == ("old", ["new"])


def test_a_step_that_was_another_kind_is_a_mismatch() -> None:
    replay = Replay([row("a", "sleep")])
    asked(replay, "a")
    found = replay.next_row()
    assert found is not None
    assert replay.mismatch(*found)


def test_what_is_inside_a_step_is_neither_expected_nor_in_the_way() -> None:
    replay = Replay([row("outer\x1finner"), row("a")])
    assert asked(replay, "a")
    assert given_paths(replay) == ["a"]
    assert replay.divergence() is None
    assert replay.may_start(asked(replay, "outer"))


def test_a_nested_step_is_answered_again_in_the_next_attempt_of_the_step_around_it() -> None:
    replay = Replay([row("outer\x1fx")])
    for _ in range(2):
        replay.begin_attempt("outer")
        call = asked(replay, "x", "outer")
        assert not replay.may_start(call)
        assert given_paths(replay) == ["outer\x1fx"]


def test_a_race_inside_a_step_is_answered_in_the_order_of_the_journal() -> None:
    replay = Replay([row("outer\x1fb"), row("outer\x1fa")])
    replay.begin_attempt("outer")
    asked(replay, "a", "outer")
    asked(replay, "b", "outer")
    assert given_paths(replay) == ["outer\x1fb", "outer\x1fa"]


def test_a_call_that_is_made_but_not_awaited_is_told_once() -> None:
    replay = Replay()
    replay.make("", "lost", "run")
    asked(replay, "kept")
    assert replay.not_awaited() == ["lost"]
    assert replay.not_awaited() == []


LEGAL = {
    (State.MADE, State.OPEN),
    (State.MADE, State.HELD),
    (State.MADE, State.WITHDRAWN),
    (State.HELD, State.OPEN),
    (State.HELD, State.WITHDRAWN),
    (State.OPEN, State.STARTED),
    (State.OPEN, State.ANSWERED),
    (State.OPEN, State.WITHDRAWN),
    (State.STARTED, State.ANSWERED),
    (State.STARTED, State.WITHDRAWN),
}


@pytest.mark.parametrize("here", State)
@pytest.mark.parametrize("there", State)
def test_an_illegal_transition_raises_and_changes_nothing(here: State, there: State) -> None:
    call = Call("", "a", "run")
    call.state = here
    if (here, there) in LEGAL:
        call.to(there)
        assert call.state is there
    else:
        with pytest.raises(IllegalTransition):
            call.to(there)
        assert call.state is here


def test_a_race_is_not_answered_while_its_branches_run() -> None:
    replay = Replay([row("a"), row("who", "race"), row("c")])
    who, a, c = replay.make("", "who", "race"), replay.make("", "a", "run"), replay.make("", "c", "run")
    replay.hold(who)
    replay.open(a)
    assert given_paths(replay) == ["a"]
    assert not replay.may_start(c), "what comes after the race is known"
    assert replay.divergence() is not None, "nobody has asked for c yet"
    replay.open(who)
    replay.open(c)
    assert given_paths(replay) == ["who", "c"]


def test_a_step_that_is_executed_again_is_given_what_it_asks_for_before_it_starts_anything() -> None:
    replay = Replay([row("outer\x1ffast")])
    outer = replay.make("", "outer", "run")
    replay.open(outer)
    replay.start(outer)
    replay.begin_attempt("outer")
    fast, slow = replay.make("outer", "fast", "run"), replay.make("outer", "slow", "run")
    replay.open(slow)
    assert replay.waits_for_rest(slow)
    replay.open(fast)
    assert not replay.may_start(slow)
    assert given_paths(replay) == ["outer\x1ffast"]
    assert replay.may_start(slow), "at rest, with nothing left to give"
