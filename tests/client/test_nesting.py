"""Law: what is decoded is what was encoded, however deep a value goes."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from onward.client import nesting
from onward.client.wire import NewRun, NewRuns, Rerun

STRANGE = b'["\\"[{", {"]": "}\\\\"}, %s, "%s"]'


@pytest.mark.parametrize("depth", [0, 1, 3, 900, 1000, 5000])
def test_values_come_through_however_deep_they_are(depth: int) -> None:
    value = Raw(STRANGE % (b'[{"a":' * (depth // 2) + b"1" + b"}]" * (depth // 2), b"[" * depth))
    runs = NewRuns([NewRun(input=value), NewRun(input=Raw(b"1")), NewRun(input=value, version=2)])
    assert nesting.decode(msgspec.json.encode(runs), NewRuns) == runs
    rerun = Rerun(from_step="x", with_outputs={"a": value, "b": Raw(b'"c"')})
    assert nesting.decode(msgspec.json.encode(rerun), Rerun) == rerun


def test_what_is_no_value_may_not_be_deep() -> None:
    for data in (b"[" * 100_000, b'{"id": ' + b"[" * 5000 + b"]" * 5000 + b"}"):
        with pytest.raises((msgspec.DecodeError, RecursionError)):
            nesting.decode(data, NewRun)
