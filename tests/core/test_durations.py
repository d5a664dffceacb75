from __future__ import annotations

import math
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.durations import LONGEST, seconds, show
from onward.errors import InvalidInput


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("3 hours", 10_800),
        ("1 day 2 hours", 93_600),
        ("1.5h", 5400),
        ("5m", 300),
        ("250ms", 0.25),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("1 week", 604_800),
        ("90", 90),
        ("0.5", 0.5),
        ("0s", 0),
        (" 10 Minutes ", 600),
        ("1 hr 2 mins 3 secs 4 milliseconds", 3723.004),
        (90, 90),
        (0, 0),
        (1.5, 1.5),
        (timedelta(days=7), 604_800),
    ],
)
def test_every_accepted_form_means_what_it_says(written: Any, expected: float) -> None:
    assert seconds(written) == pytest.approx(expected, abs=1e-12)
    assert type(seconds(written)) is float


@pytest.mark.parametrize(
    "nonsense",
    ["", " ", "s", "5 parsecs", "1h 1h", "1,5h", "5m!", "m5", "1e3", "-", "+5s", "٣s", "1.h", ".5h", "5 5",
     "5s 5", "P1D", "nan", "inf", None, True, False, [], b"5s", math.nan, object()],
)  # fmt: skip
def test_nonsense_is_refused_and_shown_with_the_accepted_forms(nonsense: Any) -> None:
    with pytest.raises(InvalidInput, match=r'^timeout: not a duration, got .*"1h30m".*timedelta'):
        seconds(nonsense, what="timeout")


@pytest.mark.parametrize("negative", [-1, -0.001, "-5s", "-1", timedelta(seconds=-1), -math.inf, -(10**400)], ids=type)
def test_a_negative_duration_is_refused(negative: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be negative"):
        seconds(negative)


@pytest.mark.parametrize(
    "huge",
    [math.inf, 10**400, 10**5000, "9" * 400 + "d", "1001 d 999999w", timedelta.max, LONGEST * 1.01],
    ids=type,
)
def test_what_no_calendar_holds_is_refused(huge: Any) -> None:
    with pytest.raises(InvalidInput, match="longer than a thousand years"):
        seconds(huge)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        assert 0 <= seconds(text) <= LONGEST


@given(st.integers(0, 10**6), st.sampled_from(["ms", "s", "m", "h", "d", "w"]), st.sampled_from(["", " "]))
def test_a_count_and_a_unit_multiply(count: int, unit: str, space: str) -> None:
    size = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[unit]
    if count * size <= LONGEST:
        assert seconds(f"{count}{space}{unit}") == pytest.approx(count * size)


@pytest.mark.parametrize(
    ("given_seconds", "shown"),
    [
        (5400, "1h 30m"),
        (40, "40s"),
        (0.25, "250ms"),
        (604_800, "7d"),
        (0, "0s"),
        (0.0001, "under 1ms"),
        (59.9999, "1m"),
        (65.5, "1m 5s"),
        (3600.2, "1h"),
        (90_061, "1d 1h"),
        (1.5, "1s 500ms"),
        (-40, "-40s"),
    ],
)
def test_people_see_the_two_largest_units(given_seconds: float, shown: str) -> None:
    assert show(given_seconds) == shown


@given(st.floats(0.001, 10**9))
def test_what_is_shown_can_be_read_and_is_close(value: float) -> None:
    assert seconds(show(value)) == pytest.approx(value, rel=0.05, abs=0.0006)
