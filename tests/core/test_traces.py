"""Places in a trace: the same wherever they are derived, and no two alike."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.traces import Place, Trace, parse

places = st.builds(Place, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))


@given(places)
def test_a_place_that_is_written_is_read_again(place: Place) -> None:
    assert parse(place.written()) == place


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319٣-b7ad6b7169203331-01",
    ],
)
def test_what_names_no_span_is_none(given: str | None) -> None:
    assert parse(given) is None


@given(st.uuids(), st.lists(st.text(max_size=9), min_size=1, unique=True), st.none() | places)
def test_spans_of_a_run_are_derived_alike_and_differ(run_id: UUID, paths: list[str], parent: Place | None) -> None:
    here, there = Trace(run_id, parent), Trace(run_id, parent)
    spans = [here.run, here.signal(run_id), *(here.step(path) for path in paths if path)]
    assert spans == [there.run, there.signal(run_id), *(there.step(path) for path in paths if path)]
    assert len({span.span for span in spans}) == len(spans)
    assert {span.trace for span in spans} == {parent.trace if parent else run_id.int or 1}
    assert here.step("") == here.run


@given(st.uuids(), places)
def test_a_run_takes_its_starters_sampling(run_id: UUID, parent: Place) -> None:
    assert Trace(run_id, parent, flags=parent.flags ^ 1).step("a").flags == parent.flags
    assert Trace(run_id, None, flags=0).step("a").flags == 0
