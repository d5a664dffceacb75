from __future__ import annotations

import dataclasses
import math
import random
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.durations import LONGEST
from onward.core.retry import Backoff, GiveUp, Retry, RetryAfter
from onward.errors import InvalidInput, InvalidName, OnwardError, PayloadTooLarge

chance = random.Random(7)
often = 10**6


def delays(backoff: Backoff, count: int = 5) -> list[float | None]:
    retry = Retry(attempts=often, backoff=backoff)
    return [retry.delay(attempt, ValueError(), chance) for attempt in range(1, count + 1)]


def test_the_defaults_are_those_of_the_contract() -> None:
    assert Retry() == Retry(attempts=3, backoff=Backoff.exponential("1s", max="60s", jitter=0.2), give_up_on=())


def test_fixed_is_the_same_every_time() -> None:
    assert delays(Backoff.fixed("5s")) == [5, 5, 5, 5, 5]


def test_linear_grows_by_its_base_up_to_its_max() -> None:
    assert delays(Backoff.linear("2s")) == [2, 4, 6, 8, 10]
    assert delays(Backoff.linear("2s", max=7)) == [2, 4, 6, 7, 7]


def test_exponential_doubles_up_to_its_max() -> None:
    assert delays(Backoff.exponential("1s")) == [1, 2, 4, 8, 16]
    assert delays(Backoff.exponential("1s", max="5s")) == [1, 2, 4, 5, 5]


@given(st.integers(1, 10**9), st.floats(0.001, 10**6), st.floats(0, 1))
def test_no_number_of_attempts_overflows(attempt: int, base: float, jitter: float) -> None:
    for backoff in (Backoff.linear(base), Backoff.exponential(base, jitter=jitter)):
        delay = Retry(attempts=10**10, backoff=backoff).delay(attempt, ValueError(), chance)
        assert delay is not None
        assert 0 <= delay <= LONGEST


@given(st.integers(1, 20), st.floats(0, 1), st.integers())
def test_jitter_stays_within_its_share_and_under_the_max(attempt: int, jitter: float, seed: int) -> None:
    backoff = Backoff.exponential("1s", max="1h", jitter=jitter)
    delay = backoff.delay(attempt, random.Random(seed))
    plain = 2.0 ** (attempt - 1)
    assert min(plain * (1 - jitter), 3600) - 1e-6 <= delay <= min(plain * (1 + jitter), 3600) + 1e-6
    assert delay == backoff.delay(attempt, random.Random(seed))


def test_jitter_spreads_evenly_to_both_sides() -> None:
    backoff = Backoff.exponential("10s", jitter=0.2)
    found = sorted(backoff.delay(1, chance) for _ in range(2000))
    assert 8 <= found[0] < 8.1
    assert 11.9 < found[-1] <= 12
    assert math.fsum(found) / len(found) == pytest.approx(10, rel=0.02)


@given(st.integers(1, 50), st.integers(1, 60))
def test_the_attempts_include_the_first(attempts: int, attempt: int) -> None:
    for error in (ValueError(), RetryAfter("5s")):
        ended = Retry(attempts=attempts).delay(attempt, error, chance) is None
        assert ended == (attempt >= attempts)


def test_retry_after_sets_the_next_delay() -> None:
    assert Retry().delay(1, RetryAfter("2h", "rate limit"), chance) == 7200


def test_give_up_ends_retries_at_once() -> None:
    assert Retry(attempts=often).delay(1, GiveUp("no such user"), chance) is None


@pytest.mark.parametrize("error", [InvalidInput("x"), InvalidName("x"), PayloadTooLarge("x")])
def test_what_will_never_be_storable_is_not_tried_again(error: OnwardError) -> None:
    assert Retry(attempts=often).delay(1, error, chance) is None


def test_give_up_on_covers_subclasses_and_nothing_else() -> None:
    retry = Retry(attempts=often, give_up_on=(LookupError,))
    assert retry.delay(1, KeyError(), chance) is None
    assert retry.delay(1, ValueError(), chance) is not None


def test_a_single_class_to_give_up_on_is_enough() -> None:
    assert Retry(give_up_on=KeyError).give_up_on == (KeyError,)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: Retry(attempts=0), "whole number from 1 on"),
        (lambda: Retry(attempts=True), "whole number from 1 on"),
        (lambda: Retry(attempts=2.0), "whole number from 1 on"),  # type: ignore[arg-type]
        (lambda: Retry(attempts="3"), "whole number from 1 on"),  # type: ignore[arg-type]
        (lambda: Retry(backoff="5s"), r"Backoff\.fixed"),  # type: ignore[arg-type]
        (lambda: Retry(give_up_on=("ValueError",)), r"such as \(ValueError,\)"),  # type: ignore[arg-type]
        (lambda: Retry(give_up_on=(int,)), "exception classes"),  # type: ignore[arg-type]
        (lambda: Retry(give_up_on=None), "exception classes"),  # type: ignore[arg-type]
        (lambda: Backoff.exponential("1s", jitter=1.1), "from 0 to 1"),
        (lambda: Backoff.exponential("1s", jitter=-0.1), "from 0 to 1"),
        (lambda: Backoff.exponential("1s", jitter=math.nan), "from 0 to 1"),
        (lambda: Backoff.exponential("1s", jitter="20%"), "from 0 to 1"),  # type: ignore[arg-type]
        (lambda: Backoff("random", 1.0), r"Backoff\.fixed"),
        (lambda: Backoff.fixed(-1), r"Backoff\.fixed"),
        (lambda: Backoff.linear("1s", max="soon"), r"max of Backoff\.linear"),
        (lambda: RetryAfter("soon"), "RetryAfter"),
    ],
)
def test_a_wrong_policy_is_refused_when_it_is_made(make: Any, hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint):
        make()


@pytest.mark.parametrize("attempts", [2**31, sys.maxsize, 10**30])
def test_more_attempts_than_the_database_can_count_are_for_ever(attempts: int) -> None:
    assert Retry(attempts=attempts) == Retry(attempts=2**31 - 1)
    assert type(Retry(attempts=attempts).attempts) is int


def test_a_policy_cannot_be_changed_and_can_be_a_key() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Retry().attempts = 5  # type: ignore[misc]
    assert {Retry(): 1}[Retry()] == 1


def test_the_exceptions_say_what_they_were_told() -> None:
    assert str(GiveUp("no such user")) == "no such user"
    assert str(RetryAfter("90s", "rate limit")) == "rate limit"
    assert str(RetryAfter("90s")) == "to be tried again in 90 seconds"
    assert RetryAfter("90s").seconds == 90
