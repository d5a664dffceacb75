from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from timeit import repeat
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core import names
from onward.errors import InvalidName

ALL = [names.workflow_name, names.step_name, names.event_name, names.tenant_name]


@pytest.mark.parametrize("name", ["a", "0", "onboard-user", "a_b", "9-", "x" * 43])
def test_workflow_names_that_the_contract_allows(name: str) -> None:
    assert names.workflow_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "_a", "A", "a.b", "a b", "x" * 44, "a\n", "ä", "a/b"])
def test_workflow_names_that_it_does_not(name: str) -> None:
    with pytest.raises(InvalidName, match="lower-case letters"):
        names.workflow_name(name)


@pytest.mark.parametrize("name", ["a", "Tenant.1", "0_-.", "x" * 63])
def test_tenant_names_that_the_contract_allows(name: str) -> None:
    assert names.tenant_name(name) == name


@pytest.mark.parametrize("name", ["", ".a", "-a", "a b", "x" * 64, "a\n", "ä", "a/../b"])
def test_tenant_names_that_it_does_not(name: str) -> None:
    with pytest.raises(InvalidName, match="at most 63"):
        names.tenant_name(name)


@pytest.mark.parametrize("check", [names.step_name, names.event_name])
@pytest.mark.parametrize(
    "name",
    ["a", " ", "charge card", "ä" * 128, "x" * 256, "#", "a#", "#a1", "a#1b", "a#١", "user/42", "🎉" * 64],
)
def test_step_and_event_names_are_free_text(check: Callable[[str], str], name: str) -> None:
    assert check(name) == name
    assert check(name) == name


@pytest.mark.parametrize("check", [names.step_name, names.event_name])
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "1 to 256 bytes"),
        ("x" * 257, "1 to 256 bytes"),
        ("ä" * 129, "1 to 256 bytes"),
        ("a\0", "control characters"),
        ("a\n", "control characters"),
        ("a\x1fb", "control characters"),
        ("\x7f", "control characters"),
        ("\x85", "control characters"),
        ("\ud800", "lone surrogates"),
        ("a#2", "`#` and digits"),
        ("#0", "`#` and digits"),
        (b"a", "must be a string"),
        (None, "must be a string"),
        ([], "must be a string"),
    ],
)
def test_a_refusal_says_the_rule_and_what_was_given(check: Callable[[Any], str], name: Any, rule: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidName, match=rule):
            check(name)


@pytest.mark.parametrize("check", ALL)
def test_a_refusal_shows_at_most_80_characters(check: Callable[[str], str]) -> None:
    with pytest.raises(InvalidName) as caught:
        check("ä" * 10_000)
    assert len(str(caught.value).split("got ")[1]) == 80


@given(st.text(max_size=300))
def test_a_step_name_is_allowed_exactly_by_the_rules(name: str) -> None:
    tail = name.rstrip("0123456789")
    allowed = (
        not any(category(char) in ("Cc", "Cs") for char in name)
        and 1 <= len(name.encode(errors="replace")) <= 256
        and not (tail != name and tail.endswith("#"))
    )
    if allowed:
        assert names.step_name(name) == name
    else:
        with pytest.raises(InvalidName):
            names.step_name(name)


def test_a_member_of_a_str_enum_is_its_value() -> None:
    class Step(StrEnum):
        CHARGE = "charge"

    assert type(names.step_name(Step.CHARGE)) is str
    assert names.step_name(Step.CHARGE) == "charge"


def test_a_repeated_name_is_cheap() -> None:
    best = min(repeat(lambda: names.step_name("charge-card"), number=10_000, repeat=20)) / 10_000
    assert best < 1e-6  # measured 0.08 us; the room is for a busy machine


step_names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)


@given(st.lists(step_names, min_size=1, max_size=8))
def test_a_path_splits_into_what_it_was_joined_from(steps: list[str]) -> None:
    path = ""
    for step in steps:
        path, parent = names.join(path, step), path
        assert names.split(path) == (parent, step)
    assert path.split(names.SEPARATOR) == steps


def test_steps_nested_too_deep_are_refused_by_name() -> None:
    path = names.join("x" * 1000, "y" * 999)
    assert len(path) == names.LONGEST_PATH
    with pytest.raises(InvalidName, match="nested too deep"):
        names.join("x" * 1000, "y" * 1000)
    with pytest.raises(InvalidName, match="nested too deep"):
        names.join("ä" * 500, "ä" * 500)


@given(step_names, st.integers(1, 10**6))
def test_a_numbered_name_is_no_name_that_a_user_may_write(name: str, count: int) -> None:
    if count == 1:
        assert names.numbered(name, count) == name
        return
    assert names.numbered(name, count) == f"{name}#{count}"
    with pytest.raises(InvalidName):
        names.step_name(names.numbered(name, count))
