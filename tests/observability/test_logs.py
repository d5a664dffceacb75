"""Logs: each record says what it is about, and none holds what runs work with."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from cli.terminal import Terminal, read_until
from onward import Backoff, Context, GiveUp, Retry, workflow
from onward.cli.logs import Json
from onward.errors import RunFailed

MARK = "s3cr3t-v4lue"
NO_RETRY = Retry(attempts=1)


async def echo(value: Any) -> Any:
    return value


async def talking(ctx: Context) -> None:
    ctx.log.info("within")
    await ctx.step.run("inner", talking_inside, ctx)


async def talking_inside(ctx: Context) -> None:
    ctx.log.info("deep within", extra={"order": 5})


@workflow
async def talks(ctx: Context) -> None:
    ctx.log.info("in the body")
    await ctx.step.run("outer", talking, ctx)


async def test_records_of_a_run_say_which_and_in_which_step(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onward")
    await world.worker(talks)
    run = await world.client.start(talks)
    await run.result(timeout=10)
    records = [record for record in caplog.records if record.name == "onward.workflow"]
    assert [(r.run_id, r.workflow, getattr(r, "step", None)) for r in records] == [  # type: ignore[attr-defined]
        (run.id, "talks", None),
        (run.id, "talks", "outer"),
        (run.id, "talks", "outer / inner"),
    ]
    told = json.loads(Json().format(records[2]))
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "info",
        "logger": "onward.workflow",
        "message": "deep within",
        "run_id": run.id,
        "workflow": "talks",
        "step": "outer / inner",
        "order": 5,
    }


class Colour(Enum):
    RED = "red"


class Model(BaseModel):
    number: int


@dataclass
class Wrong:
    number: int


async def wrong() -> Wrong:
    return Wrong(MARK)  # type: ignore[arg-type]


def complains(value: Any) -> None:
    raise ValueError("a text of the user's own, without what it was given")


@workflow
async def careful(ctx: Context, value: Any) -> Any:
    await ctx.step.run("echo", echo, value)
    for step, work in (("wrong", wrong), ("complains", lambda: complains(value)), ("unfit", lambda: {MARK})):
        try:
            await ctx.step.run(step, work, retry=Retry(attempts=2, backoff=Backoff.fixed("1ms")))
        except Exception as error:
            ctx.log.info("caught %s", type(error).__name__)
    ctx.log.info("waits")
    got = await ctx.step.wait_for_event("go", match={"to": MARK})
    try:
        await ctx.step.wait_for_event("typed", type=Model)
    except Exception as error:
        ctx.log.info("caught %s", type(error).__name__)
    await ctx.step.race("race", a=ctx.step.run("a", echo, value), b=ctx.step.run("b", echo, value))
    leaves_running = asyncio.create_task(ctx.step.sleep("left running", "1h"))  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    assert not leaves_running.done()
    return [got, value]


@workflow
async def wants_a_number(ctx: Context, value: Model) -> None: ...


@workflow
async def hopeless(ctx: Context, value: Any) -> Any:
    raise GiveUp("the user's own text")


def deployed(declared: Any) -> Any:
    """The same workflow as it was and as it is: what it journalled does not fit what it declares now."""

    @workflow(name="redeployed")
    async def redeployed(ctx: Context) -> Any:
        await ctx.step.run("typed", echo, MARK, type=declared, retry=NO_RETRY)
        return await ctx.step.wait_for_event("go")

    return redeployed


async def test_no_record_holds_what_runs_work_with(
    world: Any, until: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("asyncio", "httpcore", "httpx"):
        caplog.set_level(logging.INFO, name)
    first = await world.worker(careful, wants_a_number, hopeless, deployed(str))
    value = {"key": MARK, "list": [MARK] * 3}
    run = await world.client.start(careful, value, idempotency_key="one")
    old = [await world.client.start("redeployed") for _ in range(3)]
    waiting = "select count(*) = 4 from onward.pending where kind = 'wait'"
    await until(lambda: world.value(waiting))
    await first.stop()
    for parked, declared in zip(old, (Colour, Model, int), strict=True):
        worker = await world.worker(careful, deployed(declared))
        await parked.signal("go", MARK)
        stands = "select reason is not null from onward.message where msg_id = $1"
        await until(functools.partial(world.value, stands, parked.id))
        reason = (await parked.get()).reason
        assert (MARK in reason) == (declared is not int), "people may see it, who may see the run"
        await worker.stop()
    worker = await world.worker(careful, wants_a_number, hopeless)
    commit, broken = worker._store.commit, []

    async def now_and_then(*batch: Any) -> Any:
        if len(broken) < 3:
            broken.append(batch)
            raise ConnectionError("away")
        return await commit(*batch)

    monkeypatch.setattr(worker._store, "commit", now_and_then)
    await run.signal("go", {"to": MARK})
    await run.signal("typed", {"number": MARK})
    assert (await run.result(timeout=10))[1] == value
    for workflow_, given in ((wants_a_number, {"number": MARK}), (hopeless, MARK)):
        failing = await world.client.start(workflow_.name, given)
        with pytest.raises(RunFailed):
            await failing.result(timeout=10)
    await (await world.client.start("nobody", MARK)).cancel()
    await worker.stop()
    texts = [Json().format(record) + str(vars(record)) for record in caplog.records]
    assert len([text for text in texts if "is parked" in text]) >= 3
    assert len([text for text in texts if "sent again" in text]) == 3
    assert any("cancelled" in text for text in texts)
    assert [text for text in texts if MARK in text] == []


async def test_a_parked_run_is_told_of_with_its_id(world: Any, until: Any, caplog: pytest.LogCaptureFixture) -> None:
    worker = await world.worker(deployed(str))
    run = await world.client.start("redeployed")
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    await worker.stop()
    await world.worker(deployed(int))
    await run.signal("go")
    await until(lambda: world.value("select reason is not null from onward.message"))
    [record] = [record for record in caplog.records if "is parked" in record.getMessage()]
    assert (record.run_id, record.workflow) == (run.id, "redeployed")  # type: ignore[attr-defined]


def test_a_record_in_json_is_one_line_with_its_exception() -> None:
    logger = logging.getLogger("of.a.test")
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        caught = (type(error), error, error.__traceback__)
    strange = {"number": 1, "object": Path("x"), "text": "ü\u2028"}
    record = logger.makeRecord("of.a.test", logging.ERROR, __file__, 1, "a %s", ("b\nc",), caught, extra=strange)
    line = Json().format(record)
    told = json.loads(line)
    assert "\n" not in line
    assert (told["level"], told["message"], told["number"], told["object"]) == ("error", "a b\nc", 1, "x")
    assert told["exception"].endswith("ValueError: two\nlines")


APP = """
from onward import Context, workflow

@workflow
async def hello(ctx: Context) -> None:
    ctx.log.info("hello")
"""


@pytest.mark.parametrize("command", [["worker", "app.py"], ["dev", "app.py", "--port", "0"]])
def test_a_process_logs_json_where_it_is_told_to(terminal: Terminal, command: list[str]) -> None:
    Path("app.py").write_text(APP)
    process = terminal.spawn(*command, "--log-format", "json")
    said = read_until(process, '"message": "serving')
    run_id = terminal.run("start", "hello").out.strip()
    said = read_until(process, "hello").splitlines()[-1]
    told = json.loads(said)
    assert (told["level"], told["message"], told["run_id"], told["workflow"]) == ("info", "hello", run_id, "hello")


def test_text_stays_as_it_is(terminal: Terminal) -> None:
    Path("app.py").write_text(APP)
    process = terminal.spawn("worker", "app.py")
    line = read_until(process, "serving").splitlines()[-1]
    assert line.split(" ", 2)[2].startswith("INFO serving hello@1 on postgresql://")


def test_a_server_logs_json_where_it_is_told_to(terminal: Terminal) -> None:
    process = terminal.spawn("server", "--port", "0", "--log-format", "json")
    told = json.loads(read_until(process, "serving REST").splitlines()[-1])
    assert told["message"].startswith("serving REST on http://127.0.0.1:")
