"""Large values through the engine: what leaves the journal, what comes back, what a broken store may do to a run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from onward import Client, Context, Ref, Worker, current_step, workflow
from onward.client.payloads import Payloads
from onward.errors import InvalidInput, PayloadTooLarge, RunFailed
from onward.payloads.objects import Objects
from onward.payloads.settings import Settings
from onward.payloads.trouble import StoreUnavailable
from rest import both

calls: list[Any] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def objects(folder: Path) -> dict[str, bytes]:
    """What lies there, but for what is being written."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".part"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# ---- what goes out, and where --------------------------------------------------------------------------------


def text(length: int) -> str:
    """A string whose JSON is so many bytes long."""
    calls.append(("text", length))
    return "x" * (length - 2)


def blob() -> bytes:
    calls.append("blob")
    return b"\x00\xffbinary"


@dataclass
class Tree:
    leaves: list[int]
    when: str = "now"


def tree() -> Tree:
    calls.append("tree")
    return Tree(list(range(30_000)))


@workflow
async def returns(ctx: Context, length: int) -> int:
    return len(await ctx.step.run("text", text, length))


@pytest.mark.parametrize(("length", "outside"), [(64_000, False), (65_536, False), (65_537, True), (66_000, True)])
@both
async def test_a_value_over_the_threshold_leaves_the_journal(
    world: Any, folder: Path, length: int, outside: bool
) -> None:
    await world.worker(returns)
    run = await world.client.start(returns, length)
    assert await run.result(timeout=10) == length - 2
    (step,) = await run.steps()
    assert isinstance(step.output, Ref) == outside
    assert len(objects(folder) if folder.exists() else {}) == outside


@workflow
async def all_kinds(ctx: Context) -> list[Any]:
    first = await ctx.step.run("long text/ü", text, 70_000)
    second = await ctx.step.run("blob", blob)
    third = await ctx.step.run("tree", tree)
    again = await ctx.step.run("blob", blob)
    assert isinstance(third, Tree)
    event = await ctx.step.wait_for_event("go")
    return [len(first), second.hex(), sum(third.leaves), again.hex(), event]


async def test_each_kind_of_value_has_its_key_and_comes_back_on_replay(world: Any, folder: Path, until: Any) -> None:
    worker = await world.worker(all_kinds)
    run = await world.client.start(all_kinds)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    below = f"onward/workflow-payloads/default/all-kinds/{run.id}/"
    found = objects(folder)
    assert set(found) == {
        below + name for name in ("long%20text%2F%C3%BC.txt", "blob.bin", "tree.json", "blob%232.bin")
    }
    assert found[below + "blob.bin"] == b"\x00\xffbinary"
    assert found[below + "long%20text%2F%C3%BC.txt"] == b"x" * 69_998
    pointer = json.loads(await world.value("select convert_from(output, 'utf8') from onward.step where name = 'blob'"))
    assert pointer == {
        "$payload": {
            "key": below + "blob.bin",
            "sha256": hashlib.sha256(b"\x00\xffbinary").hexdigest(),
            "size": 8,
            "contentType": "application/octet-stream",
        }
    }
    made = list(calls)
    await worker.stop()
    await world.worker(all_kinds)
    await run.signal("go", 5)
    expected = [69_998, "00ff62696e617279", sum(range(30_000)), "00ff62696e617279", 5]
    assert await run.result(timeout=10) == expected
    assert calls == made


LOOKS_LIKE_ONE = {"$payload": {"key": "x", "sha256": "0" * 64, "size": 1, "contentType": "application/json"}}


def innocent() -> dict[str, Any]:
    return LOOKS_LIKE_ONE


@workflow
async def echoes(ctx: Context, value: Any) -> Any:
    await ctx.step.run("innocent", innocent)
    event = await ctx.step.wait_for_event("go")
    return [value, await ctx.step.run("innocent", innocent), event]


@both
async def test_a_users_value_that_looks_like_a_pointer_is_a_value(world: Any, until: Any) -> None:
    worker = await world.worker(echoes)
    run = await world.client.start(echoes, LOOKS_LIKE_ONE)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    await worker.stop()
    await world.worker(echoes)
    await run.signal("go", LOOKS_LIKE_ONE)
    assert await run.result(timeout=10) == [LOOKS_LIKE_ONE] * 3
    assert (await run.get()).input == LOOKS_LIKE_ONE


@workflow
async def mirror(ctx: Context, value: str) -> str:
    return value + (await ctx.step.wait_for_event("go"))


@both
async def test_inputs_outputs_and_signals_go_out_too(world: Any, folder: Path) -> None:
    await world.worker(mirror)
    run = await world.client.start(mirror, "i" * 70_000)
    await run.signal("go", "s" * 70_000)
    assert await run.result(timeout=10) == "i" * 70_000 + "s" * 70_000
    names = sorted(key.removeprefix(f"onward/executions/default/mirror/{run.id}/") for key in objects(folder))
    assert names[0] == "input.json"
    assert names[1] == "output.json"
    assert names[2].startswith("signals/")
    seen = await run.get()
    assert isinstance(seen.input, Ref)
    assert isinstance(seen.output, Ref)
    assert len(await seen.output.load()) == 140_000


async def test_no_row_is_over_70_kilobytes_whatever_a_run_handles(world: Any, folder: Path) -> None:
    await world.worker(mirror, all_kinds, fails_loudly)
    mirrored = await world.client.start(mirror, "i" * 500_000)
    await mirrored.signal("go", "s" * 500_000)
    kinds = await world.client.start(all_kinds)
    await kinds.signal("go", list(range(50_000)))
    failed = await world.client.start(fails_loudly)
    await mirrored.result(timeout=10)
    await kinds.result(timeout=10)
    with pytest.raises(RunFailed):
        await failed.result(timeout=10)
    for table in ("step", "run", "run_input", "run_result", "signal", "pending", "message"):
        largest = await world.value(f"select coalesce(max(length(t::text)), 0) from onward.{table} t")
        assert largest <= 2 * 70_000, table  # bytea shows as hexadecimal, two digits a byte


def loud() -> None:
    raise ValueError("\N{COLLISION SYMBOL}" * 200_000)


@workflow
async def fails_loudly(ctx: Context) -> None:
    await ctx.step.run("loud", loud)


# ---- references ----------------------------------------------------------------------------------------------


def part(i: int) -> str:
    calls.append(i)
    return f"{i}" + "x" * 1_000_000


def annotated() -> Ref[list[int]]:
    return [1, 2, 3]  # type: ignore[return-value]  # a function may say Ref[T] and return a T


@workflow
async def holds(ctx: Context) -> Any:
    refs = [await ctx.step.run("part", part, i, ref=True) for i in range(50)]
    assert all(isinstance(ref, Ref) and ref.size == 1_000_001 + (i > 9) for i, ref in enumerate(refs))
    await ctx.step.wait_for_event("go")
    return [ref.key for ref in refs[:2]]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of all objects that are read."""
    read, keys = Objects.read, []

    async def counted(self: Objects, pointer: Any) -> bytes:
        keys.append(pointer.key)
        return await read(self, pointer)

    monkeypatch.setattr(Objects, "read", counted)
    return keys


async def test_replaying_references_reads_none_of_them(world: Any, folder: Path, until: Any, reads: list[str]) -> None:
    worker = await world.worker(holds)
    run = await world.client.start(holds)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    await worker.stop()
    await world.worker(holds)
    await run.signal("go")
    below = f"onward/workflow-payloads/default/holds/{run.id}/part"
    assert await run.result(timeout=10) == [below + ".txt", below + "%232.txt"]
    assert reads == []
    assert len(calls) == 50


@workflow
async def loads(ctx: Context) -> Any:
    small = await ctx.step.run("small", annotated)
    event = await ctx.step.wait_for_event("go")
    inside = await ctx.step.run("uses it", use, small)
    return [small.size, await small.load(), inside, event]


async def use(ref: Ref[list[int]]) -> int:
    return sum(await ref.load())


async def test_a_reference_is_loaded_in_the_body_and_in_steps(world: Any, until: Any) -> None:
    worker = await world.worker(loads)
    run = await world.client.start(loads)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    await worker.stop()
    await world.worker(loads)
    await run.signal("go")
    assert await run.result(timeout=10) == [7, [1, 2, 3], 6, True]


@workflow
async def gives_a_ref(ctx: Context) -> Ref[list[int]]:
    return await ctx.step.run("small", annotated)


@both
async def test_a_run_that_returns_a_reference_copies_nothing(world: Any, folder: Path) -> None:
    await world.worker(gives_a_ref)
    run = await world.client.start(gives_a_ref)
    ref = await run.result(timeout=10)
    assert await ref.load() == [1, 2, 3]
    assert list(objects(folder)) == [ref.key]


# ---- replay --------------------------------------------------------------------------------------------------


@workflow
async def one_by_one(ctx: Context) -> int:
    length = 0
    for _ in range(12):
        length += len(await ctx.step.run("text", text, 80_000))
    await ctx.step.wait_for_event("go")
    return length


async def test_values_are_read_once_and_side_by_side_on_replay(
    world: Any, until: Any, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await world.worker(one_by_one)
    run = await world.client.start(one_by_one)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    await worker.stop()
    at_once, most, read = 0, 0, Objects.read

    async def slow(self: Objects, pointer: Any) -> bytes:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.05)
        at_once -= 1
        return await read(self, pointer)

    monkeypatch.setattr(Objects, "read", slow)
    await world.worker(one_by_one)
    await run.signal("go")
    assert await run.result(timeout=10) == 12 * 79_998
    assert len(reads) == len(set(reads)) == 12
    assert most > 4


async def racing(i: int) -> str:
    calls.append(i)
    await asyncio.sleep(0.02 * (5 - i))
    return f"{i}" + "x" * 70_000


@workflow
async def races(ctx: Context) -> list[str]:
    tasks = [asyncio.create_task(ctx.step.run(f"racing-{i}", racing, i)) for i in range(5)]
    seen, left = [], set(tasks)
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        seen.append("".join(sorted(task.result()[0] for task in done)))
    after = await ctx.step.run("after", text, 70_000)
    await ctx.step.wait_for_event("go")
    return [*seen, after[0]]


async def test_large_results_reach_the_body_one_at_a_time_and_in_order_on_replay(
    world: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await world.worker(races)
    run = await world.client.start(races)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    order = [s.name[-1] for s in await run.steps() if s.name.startswith("racing")]
    made = list(calls)
    await worker.stop()
    read, times = Objects.read, iter(range(100))

    async def uneven(self: Objects, pointer: Any) -> bytes:
        await asyncio.sleep(0.05 * (3 - next(times) % 4))  # the later ones sooner
        return await read(self, pointer)

    monkeypatch.setattr(Objects, "read", uneven)
    await world.worker(races)
    await run.signal("go")
    assert await run.result(timeout=10) == [*order, "x"]
    assert calls == made


# ---- damage --------------------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a flipped bit": (flip, "PayloadCorrupt"),
    "a truncated object": (truncate, "PayloadCorrupt"),
    "a removed object": (Path.unlink, "PayloadMissing"),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_parks_the_run_until_the_object_is_back_and_runs_no_step_again(
    world: Any, folder: Path, until: Any, damage: str
) -> None:
    harm, error = DAMAGE[damage]
    worker = await world.worker(all_kinds)
    run = await world.client.start(all_kinds)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    await worker.stop()
    made = list(calls)
    path = folder / f"onward/workflow-payloads/default/all-kinds/{run.id}/tree.json"
    whole = path.read_bytes()
    harm(path)
    await world.worker(all_kinds)
    await run.signal("go")

    async def parked() -> bool:
        return (await run.get()).state == "parked"

    await until(parked)
    reason = (await run.get()).reason
    assert reason is not None
    assert error in reason
    assert path.name in reason
    assert f"step 'tree' of run {run.id}" in reason
    path.write_bytes(whole)
    await world.client.resume(run.id)
    await run.result(timeout=10)
    assert calls == made


async def test_an_input_that_is_missing_parks_the_run_and_fails_nothing(world: Any, folder: Path, until: Any) -> None:
    run = await world.client.start(mirror, "i" * 70_000)
    (key,) = objects(folder)
    data = (folder / key).read_bytes()
    (folder / key).unlink()
    await world.worker(mirror)

    async def parked() -> bool:
        return (await run.get()).state == "parked"

    await until(parked)
    (folder / key).write_bytes(data)
    await run.signal("go", "!")
    await world.client.resume(run.id)
    assert await run.result(timeout=10) == "i" * 70_000 + "!"


async def test_a_stale_worker_cannot_change_what_a_pointer_resolves_to(world: Any, folder: Path, until: Any) -> None:
    worker = await world.worker(all_kinds)
    run = await world.client.start(all_kinds)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    key = f"onward/workflow-payloads/default/all-kinds/{run.id}/tree.json"
    before = objects(folder)
    place = await worker.payloads.required("the test")
    late = await place.objects.create(key, b'{"leaves":[0],"when":"late"}', "application/json")
    assert late.key != key
    after = objects(folder)
    assert {name: data for name, data in after.items() if name != late.key} == before
    await worker.stop()
    await world.worker(all_kinds)
    await run.signal("go")
    assert (await run.result(timeout=10))[2] == sum(range(30_000))


def random_text() -> str:
    calls.append("random")
    return uuid.uuid4().hex * 3000


@workflow
async def draws(ctx: Context) -> str:
    return await ctx.step.run("draw", random_text)


async def test_a_crash_between_object_and_journal_leaves_an_object_and_nothing_else(
    world: Any, folder: Path, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await world.worker(draws)
    monkeypatch.setattr(worker.committer, "result", lambda *_: None)  # it dies before the journal's commit
    run = await world.client.start(draws)
    await until(lambda: asyncio.sleep(0, folder.exists() and len(objects(folder)) == 1))
    orphan = next(iter(objects(folder)))
    await world.crash(worker)
    await world.worker(draws)
    value = await run.result(timeout=10)
    (step,) = await run.steps()
    assert isinstance(step.output, Ref)
    assert step.output.key != orphan
    assert step.output.key.startswith(orphan.removesuffix(".txt") + "~")
    assert objects(folder)[step.output.key].decode() == value
    assert calls == ["random", "random"]


# ---- a store that is away ------------------------------------------------------------------------------------


async def test_a_store_that_is_away_delays_the_step_and_runs_it_once(world: Any, folder: Path, until: Any) -> None:
    await world.worker(returns)
    folder.write_text("no folder")
    run = await world.client.start(returns, 70_000)
    trouble = await until(lambda: world.value("select trouble from onward.message"))
    assert "text" in trouble
    assert (await run.get()).state == "executing"
    folder.unlink()
    assert await run.result(timeout=15) == 69_998
    assert calls == [("text", 70_000)]


async def test_a_store_that_is_away_on_replay_delays_the_body(world: Any, folder: Path, until: Any) -> None:
    worker = await world.worker(all_kinds)
    run = await world.client.start(all_kinds)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    await worker.stop()
    made = list(calls)
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("no folder")
    await world.worker(all_kinds)
    await run.signal("go")
    await until(lambda: world.value("select trouble from onward.message"))
    folder.unlink()
    folder.with_name("elsewhere").rename(folder)
    await run.result(timeout=15)
    assert calls == made


async def test_a_client_gives_up_on_a_store_that_stays_away(
    world: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.client.payloads.PATIENCE", 0.2)
    folder.write_text("no folder")
    with pytest.raises(StoreUnavailable):
        await world.client.start(mirror, "i" * 70_000)
    assert (await world.client.runs()).runs == []


# ---- limits and settings -------------------------------------------------------------------------------------


async def test_a_value_over_the_maximum_fails_that_step_at_once(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONWARD_PAYLOAD_MAX", "100000")
    await world.worker(returns)
    run = await world.client.start(returns, 200_000)
    with pytest.raises(RunFailed, match="ONWARD_PAYLOAD_MAX") as failure:
        await run.result(timeout=10)
    assert failure.value.error["type"] == "PayloadTooLarge"
    assert len(calls) == 1


@pytest.mark.usefixtures("no_store")
async def test_without_a_store_the_error_says_what_to_set(world: Any) -> None:
    await world.worker(returns, loads)
    run = await world.client.start(returns, 900_000)
    assert await run.result(timeout=10) == 899_998
    with pytest.raises(PayloadTooLarge, match="ONWARD_PAYLOAD_URL"):
        await world.client.start(mirror, "x" * 2_000_000)
    refers = await world.client.start(loads)
    with pytest.raises(RunFailed, match="ONWARD_PAYLOAD_URL") as failure:
        await refers.result(timeout=10)
    assert failure.value.error["type"] == "PayloadStoreNotConfigured"


@pytest.mark.usefixtures("no_store")
async def test_the_first_store_is_recorded_and_counts_for_everybody(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (tmp_path / "first").as_uri(), (tmp_path / "second").as_uri()
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", first)
    await world.worker(returns)
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", second)
    with pytest.raises(InvalidInput, match="first"):
        await Worker([returns], world.url).__aenter__()
    async with Client(world.url) as other:  # a client takes what is recorded
        run = await other.start(mirror, "i" * 70_000)
    assert len(objects(tmp_path / "first")) == 1
    assert not (tmp_path / "second").exists()
    monkeypatch.delenv("ONWARD_PAYLOAD_URL")
    await world.worker(mirror)

    handle = world.client.handle(run.id)
    await handle.signal("go", "!")
    assert await handle.result(timeout=10) == "i" * 70_000 + "!"


async def test_the_folder_beside_an_embedded_database_is_recorded_when_it_is_first_written(
    world: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.worker(returns)
    run = await world.client.start(returns, 100)
    await run.result(timeout=10)
    assert await world.value("select value from onward.setting where name = 'payload_url'") is None
    await (await world.client.start(returns, 70_000)).result(timeout=10)
    assert await world.value("select value from onward.setting where name = 'payload_url'") == "embedded"
    monkeypatch.setenv("ONWARD_PAYLOAD_URL", (tmp_path / "other").as_uri())
    with pytest.raises(InvalidInput, match="the folder beside it"):
        await Worker([returns], world.url).__aenter__()


async def test_persist_all_writes_small_inputs_and_outputs_beside_their_rows(
    world: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONWARD_PAYLOAD_PERSIST", "all")
    client = Client(world.url)
    try:
        await world.worker(returns)
        run = await client.start(returns, 100)
        assert await run.result(timeout=10) == 98
        below = f"onward/executions/default/returns/{run.id}/"
        assert objects(folder) == {below + "input.json": b"100", below + "output.json": b"98"}
        assert [found.id async for found in client.runs(input={})] == []
        assert (await run.get()).input == 100
    finally:
        await client.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"ONWARD_PAYLOAD_URL": "ftp://x"},
        {"ONWARD_PAYLOAD_THRESHOLD": "64k"},
        {"ONWARD_PAYLOAD_THRESHOLD": "2000000"},
        {"ONWARD_PAYLOAD_MAX": "10"},
        {"ONWARD_PAYLOAD_PERSIST": "some"},
    ],
)
def test_a_setting_that_makes_no_sense_is_named(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Settings.from_environment(wrong)


# ---- validation ----------------------------------------------------------------------------------------------


@dataclass
class Order:
    number: int
    note: str = ""


@workflow
async def takes_an_order(ctx: Context, order: Order) -> int:
    calls.append(order.number)
    return order.number


async def test_a_start_is_checked_where_the_type_is_known_and_kept_for_the_debugger(world: Any, folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"number.*tmp/invalid/default/") as refused:
        await world.client.start(takes_an_order, {"number": "seven"})
    key = str(refused.value).rpartition(" ")[2]
    assert json.loads(objects(folder)[key]) == {"number": "seven"}
    assert (await world.client.runs()).runs == []


async def test_an_input_that_only_the_worker_can_check_fails_the_run_before_anything_ran(
    world: Any, folder: Path
) -> None:
    await world.worker(takes_an_order)
    run = await world.client.start("takes-an-order", {"number": "seven"})
    with pytest.raises(RunFailed, match=r"number.*tmp/invalid/default/") as failure:
        await run.result(timeout=10)
    assert failure.value.error["type"] == "InvalidInput"
    assert [key for key in objects(folder) if "/tmp/invalid/default/" in key]
    assert calls == []


# ---- artifacts -----------------------------------------------------------------------------------------------


@workflow
async def keeps(ctx: Context) -> list[str]:
    held = await ctx.step.run("part", part, 1, ref=True)
    one = await ctx.artifacts.keep("small", "reports", {"a": 1})
    two = await ctx.artifacts.keep("large", "reports", held)
    await ctx.step.wait_for_event("go")
    return [one.key, two.key]


async def test_an_artifact_is_a_copy_of_its_own_and_made_once(world: Any, folder: Path, until: Any) -> None:
    worker = await world.worker(keeps)
    run = await world.client.start(keeps)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    before = objects(folder)
    await worker.stop()
    await world.worker(keeps)
    await run.signal("go")
    one, two = await run.result(timeout=10)
    assert objects(folder) == before
    assert one.startswith("onward/artifacts/default/reports/")
    assert json.loads(before[one]) == {"a": 1}
    assert before[two].startswith(b"1xxx")


# ---- signals that the database cannot search -------------------------------------------------------------------


@workflow
async def matches(ctx: Context) -> list[str]:
    first = await ctx.step.wait_for_event("doc", match={"kind": {"is": "a"}})
    second = await ctx.step.wait_for_event("doc", match={"kind": {"is": "b"}}, name="second")
    return [first["name"], second["name"]]


def document(kind: str, name: str, size: int = 70_000) -> dict[str, Any]:
    return {"kind": {"is": kind, "more": 1}, "name": name, "pad": "p" * size}


@both
async def test_a_large_signal_is_matched_like_a_small_one(world: Any, until: Any) -> None:
    await world.worker(matches)
    run = await world.client.start(matches)
    early = await run.signal("doc", document("b", "early"))
    assert early.buffered
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    assert (await run.signal("doc", document("c", "never"))).buffered
    assert (await run.signal("doc", document("c", "thrown away"), buffer=False)).dropped
    await run.signal("doc", document("b", "later", 10))
    assert (await run.signal("doc", document("a", "right"))).resolved
    assert await run.result(timeout=10) == ["right", "early"]


# ---- a worker's own reading of refs in threads and steps ---------------------------------------------------------


async def test_a_payloads_object_is_told_from_the_step_that_made_it(world: Any, folder: Path) -> None:
    """The idempotency key and the payload's key name the same step, so that a debugger finds one from the other."""
    await world.worker(names_itself)
    run = await world.client.start(names_itself)
    name = await run.result(timeout=10)
    assert any(f"/{run.id}/{name}.txt" in key for key in objects(folder))


def own_name() -> str:
    return current_step().name.ljust(70_000)


@workflow
async def names_itself(ctx: Context) -> str:
    return (await ctx.step.run("me", own_name)).strip()


def test_payloads_take_their_settings_from_the_environment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONWARD_PAYLOAD_THRESHOLD", "1000")
    payloads = Payloads(None)  # type: ignore[arg-type]  # no database is asked
    monkeypatch.setenv("ONWARD_PAYLOAD_THRESHOLD", "2000")
    assert payloads.is_small(b"x" * 1000)
    assert not payloads.is_small(b"x" * 1001)


# ---- children ------------------------------------------------------------------------------------------------


@workflow
async def large_child(ctx: Context) -> str:
    return "c" * 70_000


@workflow
async def child_by_reference(ctx: Context) -> Ref[list[int]]:
    return await ctx.step.run("small", annotated)


@workflow
async def parent(ctx: Context) -> Any:
    whole = await ctx.step.invoke("whole", large_child)
    ref = await ctx.step.invoke("by reference", child_by_reference)
    await ctx.step.wait_for_event("go")
    return [len(whole), await ref.load()]


async def test_what_a_child_gives_is_remembered_as_borrowed_from_it(world: Any, until: Any) -> None:
    worker = await world.worker(large_child, child_by_reference, parent)
    run = await world.client.start(parent)
    await until(lambda: world.value("select exists (select 1 from onward.pending where kind = 'wait')"))
    await worker.stop()
    await world.worker(large_child, child_by_reference, parent)
    await run.signal("go")
    assert await run.result(timeout=10) == [70_000, [1, 2, 3]]
    borrowed = await world.sql(
        "select borrower::text, r.workflow from onward.borrowed join onward.run r on run_id = owner"
    )
    assert {tuple(row) for row in borrowed} == {(run.id, "large-child"), (run.id, "child-by-reference")}


# ---- while a value is on its way -----------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[Worker], None]:
    """Reads are slow, and all the while the worker finds reasons to look at its runs: news, timers, answers."""
    read = Objects.read

    def make(worker: Worker) -> None:
        async def slow(self: Objects, pointer: Any) -> bytes:
            for _ in range(20):
                await asyncio.sleep(0.005)
                for run in list(worker._hot.values()):
                    run.look()
            return await read(self, pointer)

        monkeypatch.setattr(Objects, "read", slow)

    return make


async def test_no_other_result_is_given_while_a_value_is_on_its_way(
    world: Any, until: Any, impatient: Callable[[Worker], None]
) -> None:
    worker = await world.worker(races)
    run = await world.client.start(races)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    order = [s.name[-1] for s in await run.steps() if s.name.startswith("racing")]
    await worker.stop()
    impatient(await world.worker(races))
    await run.signal("go")
    assert await run.result(timeout=10) == [*order, "x"]


async def small() -> int:
    return 1


async def slowly() -> str:
    await asyncio.sleep(0.1)
    return "a" * 70_000


async def cut_off() -> None:
    calls.append("cut off")
    await asyncio.sleep(60)


@workflow
async def cancels(ctx: Context, pause: float) -> int:
    async def second() -> None:
        await ctx.step.run("small", small)
        if pause:
            await asyncio.sleep(pause)
        await ctx.step.run("cut off", cut_off)

    task = asyncio.create_task(second())
    length = len(await ctx.step.run("slowly", slowly))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return length


@pytest.mark.parametrize("pause", [0, 0.02])
async def test_no_step_begins_while_a_value_is_on_its_way_that_will_cancel_it(
    world: Any, impatient: Callable[[Worker], None], pause: float
) -> None:
    impatient(await world.worker(cancels))
    run = await world.client.start(cancels, pause)
    assert await run.result(timeout=10) == 70_000
    assert calls == ["cut off"]
    again = await world.copy(run, 2)
    assert await again.result(timeout=10) == 70_000
    assert calls == ["cut off"]


@workflow
async def mixes(ctx: Context) -> list[Any]:
    whole = await ctx.step.run("whole", text, 70_000)
    refs = [await ctx.step.run("part", part, i, ref=True) for i in range(3)]
    last = await ctx.step.run("last", text, 80_000)
    await ctx.step.wait_for_event("go")
    return [len(whole), len(refs), len(last)]


async def test_of_a_run_that_holds_references_only_the_values_are_read(
    world: Any, until: Any, reads: list[str]
) -> None:
    worker = await world.worker(mixes)
    run = await world.client.start(mixes)
    await until(lambda: world.value("select exists (select 1 from onward.pending)"))
    await worker.stop()
    await world.worker(mixes)
    await run.signal("go")
    assert await run.result(timeout=10) == [69_998, 3, 79_998]
    assert sorted(key.rpartition("/")[2] for key in reads) == ["last.txt", "whole.txt"]


async def of_another_run(url: str, run_id: str) -> Any:
    async with Client(url) as client:
        return (await client.get(run_id)).output


@workflow
async def takes_over(ctx: Context, where: list[str]) -> Any:
    url, run_id = where
    ref = await ctx.step.run("held", of_another_run, url, run_id, ref=True)
    whole = await ctx.step.run("whole", of_another_run, url, run_id)
    return [ref.key, len(await ref.load()), len(whole)]


async def test_what_another_run_gave_is_copied_since_it_goes_with_that_run(world: Any, folder: Path) -> None:
    await world.worker(large_child, takes_over)
    other = await world.client.start(large_child)
    await other.result(timeout=10)
    run = await world.client.start(takes_over, [world.url, other.id])
    key, *lengths = await run.result(timeout=10)
    assert lengths == [70_000, 70_000]
    assert key == f"onward/workflow-payloads/default/takes-over/{run.id}/held.json"
    assert {key.rpartition("/")[2] for key in objects(folder)} == {"output.json", "held.json", "whole.json"}
