from __future__ import annotations

from typing import Any
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core import ids
from onward.errors import NotFound

moments = st.integers(0, 2**48 - 1)
entropies = st.binary(min_size=10, max_size=10)
runs = st.builds(ids.uuid7, moments, entropies)
paths = st.text(st.characters(exclude_categories=["Cs"]))


@given(moments, entropies)
def test_an_id_is_a_uuid_of_version_7_with_its_time_in_front(moment: int, entropy: bytes) -> None:
    made = ids.uuid7(moment, entropy)
    assert (made.version, made.variant) == (7, RFC_4122)
    assert made.int >> 80 == moment


def test_the_example_of_rfc_9562() -> None:
    entropy = (0xCC3 << 62 | 0x18C4DC0C0C07398F).to_bytes(10, "big")
    assert str(ids.uuid7(0x017F22E279B0, entropy)) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@given(moments, moments, entropies, entropies)
def test_ids_sort_by_time(one: int, two: int, first: bytes, second: bytes) -> None:
    if one != two:
        assert (one < two) == (ids.uuid7(one, first) < ids.uuid7(two, second))


@given(moments, entropies, entropies)
def test_74_bits_of_entropy_count(moment: int, one: bytes, two: bytes) -> None:
    used = (1 << 74) - 1
    same = int.from_bytes(one, "big") & used == int.from_bytes(two, "big") & used
    assert (ids.uuid7(moment, one) == ids.uuid7(moment, two)) == same


@pytest.mark.parametrize(("moment", "entropy"), [(-1, bytes(10)), (2**48, bytes(10)), (0, bytes(9)), (0, b"")])
def test_what_does_not_fit_is_refused(moment: int, entropy: bytes) -> None:
    with pytest.raises(ValueError):
        ids.uuid7(moment, entropy)


@given(runs, paths, paths)
def test_a_derived_id_is_the_same_again_and_keeps_the_time(run: UUID, path: str, salt: str) -> None:
    child = ids.derive(run, path, salt)
    assert child == ids.derive(run, path, salt)
    assert child.version == 7
    assert child.int >> 80 == run.int >> 80


@given(runs, runs, st.tuples(paths, paths), st.tuples(paths, paths))
def test_another_run_step_or_salt_derives_another_id(a: UUID, b: UUID, x: Any, y: Any) -> None:
    assert (ids.derive(a, *x) == ids.derive(b, *y)) == ((a, x) == (b, y))


def test_salt_and_path_do_not_run_into_each_other() -> None:
    run = ids.uuid7(1, bytes(10))
    assert ids.derive(run, "bc", "a") != ids.derive(run, "c", "ab")


def test_a_derived_id_never_changes_between_releases() -> None:
    run = UUID("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
    assert str(ids.derive(run, "start-child", "start")) == "017f22e2-79b0-7e02-9526-4d1264c3dfe0"


@given(st.uuids())
def test_an_id_is_read_as_it_was_written(run: UUID) -> None:
    assert ids.parse(run) is run
    assert ids.parse(str(run)) == ids.parse(str(run).upper()) == ids.parse(run.hex) == run


@pytest.mark.parametrize(
    "text",
    ["", "42", "not-a-run", "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", "0-17f22e279b07cc398c4dc0c0c07398f",
     "017f22e2-79b0-7cc3-98c4-dc0c0c07398f\n", "x" * 10_000, None, 42, bytes(16)],
)  # fmt: skip
def test_what_is_no_uuid_names_no_run(text: Any) -> None:
    with pytest.raises(NotFound, match=r"^no run .*: a run id is a UUID") as caught:
        ids.parse(text)
    assert len(str(caught.value)) < 200
