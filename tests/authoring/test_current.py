"""The idempotency key of a step: one for all its attempts, another for every other step, fit for a header."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.authoring.current import CurrentStep
from onward.core import ids, names

RUN = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
step_names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
paths = st.lists(step_names, min_size=1, max_size=4).map(names.SEPARATOR.join)


def key(path: str, attempt: int = 1, run: str = RUN) -> str:
    return CurrentStep(run, path, attempt).idempotency_key


@given(paths, paths)
def test_two_steps_never_share_a_key(one: str, other: str) -> None:
    assert (key(one) == key(other)) == (one == other)


def test_a_slash_in_a_name_is_not_a_step_inside_a_step() -> None:
    assert key("a/b") != key("a\x1fb")


def test_two_runs_never_share_a_key() -> None:
    assert key("pay") != key("pay", run="017f22e2-79b0-7cc3-98c4-dc0c0c073990")


@given(paths)
def test_every_attempt_has_the_same_key(path: str) -> None:
    assert key(path, 1) == key(path, 2)


@pytest.mark.parametrize("path", ["pay", "支払い", "\x1f".join(["x" * 256] * 7)])
def test_a_key_fits_into_a_header(path: str) -> None:
    assert str(UUID(key(path))) == key(path)


def test_a_key_is_no_childs_id() -> None:
    assert key("pay") != str(ids.derive(UUID(RUN), "pay"))


def test_a_key_never_changes_between_releases() -> None:
    assert key("pay") == "017f22e2-79b0-7447-9ae0-101ede4be8ee"
