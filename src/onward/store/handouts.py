"""What a worker asks of the database: to register, to be handed runs, to commit, to be told of changes.

Batches travel as arrays, one element an item. asyncpg encodes an array element by element, with several calls for
each, which took a fifth of a worker's time. So the arrays of the hot path, those of results, go as one value each:
numbers and ids as an array literal, names joined by a character that no name may hold, values end to end with where
each begins and how long it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from onward.core.replay import Row
from onward.store.database import Database

DEAD = "OW001"


class WorkerDead(Exception):
    """This incarnation of the worker was declared dead: drop everything, register anew."""


class Served(NamedTuple):
    workflow: str
    version: int
    retention: float


class BackOff(NamedTuple):
    """A step that failed `attempt` times and is tried again once it is `due`."""

    path: str
    attempt: int
    due: bool


class HandOut(NamedTuple):
    """A run that was handed to this worker. `rows` is what it lacks where `partial`, else the whole journal. `trace`:
    what its starter was doing (core/traces.py)."""

    run_id: UUID
    tenant: str
    workflow: str
    version: int
    receipt: int
    parent: UUID | None
    started_at: datetime
    input: bytes
    deaths: int
    partial: bool
    rows: list[Row]
    back_offs: list[BackOff]
    trace: str | None = None


class Result(NamedTuple):
    """A step's result on its way into the journal."""

    run_id: str
    receipt: int
    path: str
    kind: str
    output: bytes | None
    error: bytes | None
    attempt: int
    seconds: float


class Want(NamedTuple):
    """Something that a run is blocked on."""

    path: str
    kind: str
    attempt: int = 1
    seconds: float | None = None
    until: datetime | None = None
    event: str | None = None
    match: str | None = None
    child: UUID | None = None
    attempts: int | None = None
    error: bytes | None = None


class Ask(NamedTuple):
    """`register`, `suspend`, `release`, `park` or `mark`."""

    run_id: UUID
    receipt: int
    op: str
    rows: int = 0  # of the journal, that the worker knew when it asked
    note: str | None = None
    wants: tuple[Want, ...] = ()


class End(NamedTuple):
    run_id: UUID
    receipt: int
    rows: int
    status: str
    output: bytes | None
    error: bytes | None
    parent: UUID | None


@dataclass(slots=True)
class Batch:
    asks: list[Ask] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.asks) + len(self.results) + len(self.ends)


class Waiting(NamedTuple):
    """A pending as it stands: its deadline is so many seconds away, None: it has none."""

    path: str
    kind: str
    attempt: int
    seconds: float | None


class Undecided(NamedTuple):
    """A signal that lies outside the database, and what a wait matches: somebody has to read it."""

    signal_id: UUID
    payload: bytes
    match: str


class Verdict(NamedTuple):
    """What was read there."""

    signal_id: UUID
    match: str
    fits: bool


class Answer(NamedTuple):
    """To an ask. `rows` are the wants that the journal answers, `waits` what is left, `undecided` what must be read
    before anything is settled."""

    word: str
    rows: list[Row]
    waits: list[Waiting]
    undecided: Sequence[Undecided] = ()


class Answers(NamedTuple):
    """To a batch, item by item. `results` and `ends` are None where every one is ok; `times` is when a result was
    journalled, None where all were `at` one time. `told`: who waits for the ended runs has been told."""

    at: datetime
    asks: list[Answer]
    results: list[str] | None
    times: list[datetime] | None
    ends: list[str] | None
    told: bool = False


class News(NamedTuple):
    run_id: UUID
    receipt: int
    word: str


class _AskAnswer(msgspec.Struct):
    answer: str
    rows: list[tuple[str, str, bytes | None, bytes | None, int, datetime, datetime]] = []
    waits: list[tuple[str, str, int, float | None]] = []
    undecided: list[tuple[UUID, bytes, str]] = []


_ask_answers = msgspec.json.Decoder(list[_AskAnswer])

_CLAIM = "select * from onward.claim($1, $2)"
_COMMIT_STEP = "select onward.commit_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
_COMMIT_END = "select onward.commit_end($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
_COMMIT = """
    select * from onward.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
                                $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33,
                                $34, $35, $36, $37, $38)
"""


class HandOuts:
    """The calls of one worker. Knows the database, not what a worker is."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._commits, self._claims = database.line(), database.line()

    async def open(self) -> None:
        """Makes the lines ready that the latency of a run is made of."""
        await asyncio.gather(self._claims.prepare(_CLAIM), self._commits.prepare(_COMMIT_STEP, _COMMIT_END, _COMMIT))

    def close(self) -> None:
        self._commits.close()
        self._claims.close()

    async def register(self, name: str, lease: float, serves: Sequence[Served]) -> int:
        worker: int = await self.database.fetchval(
            "select onward.register_worker($1, $2, $3, $4, $5)",
            name,
            lease,
            [s.workflow for s in serves],
            [s.version for s in serves],
            [s.retention for s in serves],
        )
        return worker

    async def claim(self, worker: int, limit: int) -> list[HandOut]:
        """Raises one of BROKEN where the outcome is unknown: `attend` finds what this worker owns."""
        try:
            records = await self._claims.fetch(_CLAIM, worker, limit)
        except asyncpg.PostgresError as error:
            if error.sqlstate == DEAD:
                raise WorkerDead from error
            raise
        return [_hand_out(record) for record in records]

    async def journal(self, run_id: UUID) -> list[Row]:
        return [Row(*record) for record in await self.database.fetch("select * from onward.journal($1)", run_id)]

    async def commit(self, worker: int, lane: int, number: int, batch: Batch) -> Answers:
        """Sends a batch once. Raises one of BROKEN where the outcome is unknown."""
        if len(batch) == 1 and not batch.asks:
            at = await self._commit_alone(worker, lane, 2 * number, batch)
            if at is not None:
                return Answers(at, [], None, None, None, told=True)
        (answer,) = await self._commits.fetch(
            _COMMIT,
            worker,
            lane,
            2 * number + 1,
            _locks(batch) or None,
            *_ask_columns(batch.asks),
            *_result_columns(batch.results),
            *_end_columns(batch.ends),
        )
        if not answer["alive"]:
            raise WorkerDead
        asks = [
            Answer(
                a.answer,
                [Row(*row) for row in a.rows],
                [Waiting(*wait) for wait in a.waits],
                [Undecided(*one) for one in a.undecided],
            )
            for a in (_ask_answers.decode(answer["asks"]) if answer["asks"] else ())
        ]
        return Answers(answer["at"], asks, answer["steps"], answer["times"], answer["ends"])

    async def _commit_alone(self, worker: int, lane: int, number: int, batch: Batch) -> datetime | None:
        """A single step or end, without the arrays: what the latency of a lone run is made of. None: there is more to
        say than that it is done."""
        sql, items = (_COMMIT_STEP, batch.results) if batch.results else (_COMMIT_END, batch.ends)
        ((at,),) = await self._commits.fetch(sql, worker, lane, number, *items[0])
        done: datetime | None = at
        return done

    async def announce(self, runs: Iterable[UUID], work: bool) -> None:
        await self.database.fetch(
            "select onward.announce($1, $2), set_config('synchronous_commit', 'off', true)", list(runs), work
        )

    async def attend(self, worker: int, held: Sequence[tuple[UUID, int]], *, everything: bool) -> list[News]:
        records = await self.database.fetch(
            "select * from onward.attend($1, $2, $3, $4)",
            worker,
            [run for run, _ in held],
            [receipt for _, receipt in held],
            everything,
        )
        return [News(*record) for record in records]

    async def heartbeat(self, worker: int) -> bool:
        alive: bool = await self.database.fetchval(
            "select onward.heartbeat($1), set_config('synchronous_commit', 'off', true)", worker
        )
        return alive

    async def reap(self) -> int:
        freed: int = await self.database.fetchval("select onward.reap()")
        return freed

    async def wake_parents(self) -> None:
        await self.database.fetch("select onward.wake_parents()")

    async def poke(self, run_id: UUID) -> None:
        await self.database.fetch("select onward.poke($1)", run_id)

    async def note_trouble(self, worker: int, run_id: UUID, receipt: int, trouble: str | None) -> None:
        await self.database.fetch("select onward.note_trouble($1, $2, $3, $4)", worker, run_id, receipt, trouble)

    async def judge(self, run_id: UUID, verdicts: Sequence[Verdict]) -> None:
        signals, matches, fits = zip(*verdicts, strict=True)
        await self.database.fetch("select onward.judge($1, $2, $3, $4)", run_id, signals, matches, fits)

    async def next_due(self, worker: int) -> float | None:
        seconds: float | None = await self.database.fetchval("select onward.next_due($1)", worker)
        return seconds

    async def retire(self, worker: int) -> None:
        await self.database.fetch("select onward.retire($1)", worker)


async def hold_session(connection: asyncpg.Connection, worker: int) -> bool:
    """Takes the lock that tells this worker's death, on a connection that lives as long as it does."""
    held: bool = await connection.fetchval("select onward.hold_session($1)", worker)
    return held


def _hand_out(record: asyncpg.Record) -> HandOut:
    head: Any = tuple(record)
    names, kinds, outputs, errors, attempts, times, begun, retries, failures, due, trace = head[10:]
    rows = list(map(Row, names, kinds, outputs, errors, attempts, times, begun)) if names else []
    back_offs = list(map(BackOff, retries, failures, due)) if retries else []
    return HandOut._make((*head[:10], rows, back_offs, trace))


def _locks(batch: Batch) -> list[UUID]:
    """Everything but steps, and the parents of what ends: the function locks them by id."""
    runs = {ask.run_id for ask in batch.asks} | {end.run_id for end in batch.ends}
    return list(runs | {end.parent for end in batch.ends if end.parent is not None})


def _literal(values: Iterable[Any]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _unless_empty(column: Sequence[bytes | None]) -> Sequence[bytes | None] | None:
    """A column without values need not be sent: `unnest` fills it up."""
    return column if any(value is not None for value in column) else None


def _ask_columns(asks: Sequence[Ask]) -> tuple[Any, ...]:
    if not asks:
        return (None,) * 16
    wants = [(ask.run_id, want) for ask in asks for want in ask.wants]
    return (
        [a.run_id for a in asks],
        [a.receipt for a in asks],
        [a.op for a in asks],
        [a.note for a in asks],
        [a.rows for a in asks],
        [run for run, _ in wants],
        [w.path for _, w in wants],
        [w.kind for _, w in wants],
        [w.event for _, w in wants],
        [w.match for _, w in wants],
        [w.child for _, w in wants],
        [w.attempt for _, w in wants],
        [w.attempts for _, w in wants],
        [w.error for _, w in wants],
        [w.seconds for _, w in wants],
        [w.until for _, w in wants],
    )


def _result_columns(results: Sequence[Result]) -> tuple[Any, ...]:
    if not results:
        return (None,) * 11
    runs, receipts, paths, kinds, outputs, errors, attempts, seconds = zip(*results, strict=True)
    held = set(zip(runs, receipts, strict=True))
    values = [error if output is None else output for output, error in zip(outputs, errors, strict=True)]
    sizes = [-len(value) if output is None else len(value) for output, value in zip(outputs, values, strict=True)]
    return (
        _literal([run for run, _ in held]),
        sum([receipt for _, receipt in held]),
        _literal(runs),
        _literal(receipts),
        "\x1e".join(paths),
        None if kinds.count("run") == len(kinds) else _literal(kinds),
        b"".join(values),
        _literal(accumulate(map(abs, sizes[:-1]), initial=1)),
        _literal(sizes),
        None if attempts.count(1) == len(attempts) else _literal(attempts),
        _literal([int(s * 1_000_000) for s in seconds]),
    )


def _end_columns(ends: Sequence[End]) -> tuple[Any, ...]:
    if not ends:
        return (None,) * 7
    return (
        [e.run_id for e in ends],
        [e.receipt for e in ends],
        [e.rows for e in ends],
        [e.status for e in ends],
        _unless_empty([e.output for e in ends]),
        _unless_empty([e.error for e in ends]),
        [e.parent for e in ends if e.parent is not None] or None,
    )
