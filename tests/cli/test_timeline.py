"""The picture of a run: what stands where, and that it stays in its columns."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from rich.cells import cell_len

from cli import sample_app
from cli.terminal import Terminal, reached
from onward import Client, Worker
from onward.cli.paper import Paper, cut, fit
from onward.cli.timeline import draw
from onward.cli.times import span
from onward.store.runs import RunRecord, StepRecord

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
RUN = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def run(**known: Any) -> RunRecord:
    fields: dict[str, Any] = dict.fromkeys(RunRecord._fields) | {
        "run_id": RUN, "workflow": "onboard-user", "version": 1, "tenant": "default", "status": "completed",
        "state": "completed", "input": b"null", "output": b"42", "started_at": START, "completed_at": at(10),
    }  # fmt: skip
    return RunRecord(**{**fields, **known})


def step(path: str, began: float, ended: float | None, kind: str = "run", **known: Any) -> StepRecord:
    fields: dict[str, Any] = dict.fromkeys(StepRecord._fields) | {
        "path": path, "kind": kind, "status": "completed", "attempt": 1, "output": b"1", "started_at": at(began),
        "completed_at": None if ended is None else at(ended), "seq": int(began * 1000),
    }  # fmt: skip
    return StepRecord(**{**fields, **known})


def lines(record: RunRecord, *steps: StepRecord, width: int = 100, unicode: bool = True) -> list[str]:
    return ["".join(text for text, _ in line) for line in draw(record, steps, at(10), width, unicode)]


def line_of(drawn: list[str], name: str) -> str:
    return next(line for line in drawn if name in line)


def test_steps_stand_in_the_order_in_which_they_began_and_inner_ones_below_theirs() -> None:
    # the journal's order is that of their ends
    drawn = lines(run(), step("outer\x1finner", 1, 2), step("second", 3, 4), step("outer", 0, 5), step("last", 6, 10))
    shown = [line for line in drawn if "●" in line]
    assert [line.split("●")[1].split()[0] for line in shown] == ["outer", "inner", "second", "last"]
    assert shown[1].index("●") == shown[0].index("●") + 2


def test_an_inner_step_is_shown_while_the_one_around_it_still_executes() -> None:
    assert "inner" in "\n".join(lines(run(status="running", state="executing"), step("outer\x1finner", 1, 2)))


def test_bars_are_where_the_time_was() -> None:
    drawn = lines(run(), step("first", 0, 5), step("second", 5, 10), width=120)
    first, second = line_of(drawn, "first"), line_of(drawn, "second")
    assert first.count("━") == second.count("━") == 14
    assert first.rindex("━") + 1 == second.index("━")


def test_time_in_which_nothing_was_journalled_is_a_line_of_its_own() -> None:
    drawn = lines(run(), step("before", 0, 1), step("after", 7, 10))
    gap = line_of(drawn, "nothing journalled")
    assert drawn.index(line_of(drawn, "before")) + 1 == drawn.index(gap)
    assert "6.00s" in gap


def test_what_is_pending_says_what_it_waits_for() -> None:
    wait = step("verify", 1, None, "wait", status="waiting", output=None, event="verify", match='{"userId": 42}',
                deadline=at(3610))  # fmt: skip
    retry = step("pay", 2, None, status="retrying", output=None, attempts=5, deadline=at(50),
                 error=b'{"type": "E", "message": "no"}')  # fmt: skip
    drawn = lines(run(status="running", state="waiting", completed_at=None, output=None), wait, retry, width=160)
    assert 'waits for verify, 1h to go, with {"userId": 42}' in line_of(drawn, "verify")
    assert "attempt 2 of 5, 40.0s to go: E: no" in line_of(drawn, "pay")
    assert f"onward why {RUN}" in drawn[-2]


@pytest.mark.parametrize("width", [40, 80, 100, 120, 200])
def test_columns_stay_aligned_in_any_script_and_at_any_width(width: int) -> None:
    drawn = lines(
        run(output=b'"' + b"x" * 500 + b'"'),
        step("create-user", 0, 1),
        step("ユーザーを作成する", 1, 2),
        step("emoji 🎉🎉", 2, 3, output='"🎖"'.encode() * 80),
        step("n" * 250, 3, 10),
        width=width,
    )
    rows = [line for line in drawn if "●" in line]
    ends = {cell_len(row[: row.rindex("s  ")]) for row in rows}
    assert len(ends) == 1, rows
    if width >= 80:
        assert all(cell_len(line) <= width for line in drawn), drawn


def test_without_unicode_the_picture_is_plain_ascii() -> None:
    steps = [
        step("a", 0, 1),
        step("b", 1, 2, "sleep"),
        step("c", 2, 3, "wait"),
        step("d", 9, 10, output=b'"%b"' % (b"x" * 300)),
    ]
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    paper = Paper(stream)
    assert not paper.unicode
    paper.put(draw(run(), steps, at(10), 80, paper.unicode))
    stream.seek(0)
    assert stream.read().isascii()


def test_nothing_that_a_value_holds_can_steer_the_terminal() -> None:
    evil = step(
        "a", 0, 1, output=None, status="failed", error=b'{"type": "E", "message": "\\u001b[2J\\u009b1m\\r\\nx"}'
    )
    assert not {"\x1b", "\x9b", "\r", "\n"} & set("".join(lines(run(), evil)))


def test_times_have_about_three_digits() -> None:
    times = [0, 0.0081, 0.9996, 1.239, 9.996, 59.96, 125, 90_000]
    assert [span(t) for t in times] == ["0ms", "8ms", "1.00s", "1.24s", "10.0s", "1m", "2m 5s", "1d 1h"]


def test_cutting_counts_cells() -> None:
    assert cut("ユーザー", 5) == "ユー…"
    assert fit("ab", 4) == "ab  "
    assert cell_len(fit("ユーザー", 4)) == 4


async def test_show_draws_a_real_run(terminal: Terminal, client: Client) -> None:
    async with Worker([sample_app.nested, sample_app.doomed], terminal.url), client:
        good, bad = await client.start(sample_app.nested), await client.start(sample_app.doomed)
        await reached(good, "completed")
        await reached(bad, "failed")
        out = (await terminal.type("runs", "show", good.id)).out
        assert f"nested@1  completed  {good.id}" in out
        assert out.index("● 外側") < out.index("  ● 内側") < out.index("■ completed")
        assert "\x1b" not in out
        assert "✗ failed" in (out := (await terminal.type("runs", "show", bad.id)).out)
        assert "ConnectionError: card declined" in out
        shown = (await terminal.type("runs", "show", good.id, "--json")).json
        assert (shown["output"], [s["parent"] for s in shown["steps"]]) == (4, ["外側", None])
