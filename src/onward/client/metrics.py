"""The fleet's metrics as Prometheus reads them. Every endpoint tells the whole fleet: scrape one of them.

They come from the database, where what happens is counted with what happens: so they are right across workers and their
restarts, and a counter never goes back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from onward.store.database import Database
from onward.store.tallies import Counted, Tallies

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

FOLDED_AT_ONCE = 5000


async def text(database: Database, tenant: str | None = None) -> bytes:
    """The metrics, now; of one tenant, for those who may see no other."""
    from prometheus_client import generate_latest  # only who serves metrics needs it

    tallies = Tallies(database)
    while await tallies.fold(FOLDED_AT_ONCE) >= FOLDED_AT_ONCE:  # which also bounds how many names there are
        pass
    families = list(_families(await tallies.all(tenant), await tallies.buckets()))
    return generate_latest(_Given(families))


class _Given:
    """A registry of what is there already."""

    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> list[Any]:
        return self._families


def _families(counted: Sequence[Counted], bounds: Sequence[float]) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    def counter(name: str, help_: str, labels: list[str], values: Iterable[tuple[list[str], int]]) -> Any:
        family = CounterMetricFamily(name, help_, labels=labels)
        for label, value in values:
            family.add_metric(label, value)
        return family

    def histogram(name: str, help_: str, labels: list[str], values: Iterable[tuple[list[str], Counted]]) -> Any:
        family = HistogramMetricFamily(name, help_, labels=labels)
        for label, one in values:
            family.add_metric(label, _cumulated(one, bounds), one.seconds)
        return family

    of = {metric: [c for c in counted if c.metric == metric] for metric in {c.metric for c in counted}}
    started, ended, removed = of.get("started", []), of.get("ended", []), of.get("removed", [])
    steps, retries, signals = of.get("step", []), of.get("retry", []), of.get("signal", [])
    both = ["workflow", "step"]
    yield counter("workflow_runs_started", "Runs started.", ["workflow"], (([c.workflow], c.number) for c in started))
    yield counter(
        "workflow_runs_completed",
        "Runs that have ended, by how.",
        ["workflow", "status"],
        (([c.workflow, c.label], c.number) for c in ended),
    )
    gauge = GaugeMetricFamily("workflow_runs_in_flight", "Runs that have not ended.", labels=["workflow"])
    for workflow, count in _in_flight(started, ended):
        gauge.add_metric([workflow], count)
    yield gauge
    yield histogram(
        "workflow_run_duration_seconds",
        "From a run's start to its end.",
        ["workflow"],
        (([c.workflow], c) for c in _summed(ended)),
    )
    yield histogram(
        "workflow_step_duration_seconds",
        "The attempt of a step that was journalled.",
        both,
        (([c.workflow, c.label], c) for c in steps),
    )
    yield counter(
        "workflow_step_retries",
        "Attempts that failed and were followed by another.",
        both,
        (([c.workflow, c.label], c.number) for c in retries),
    )
    yield counter(
        "workflow_signals",
        "Signals received.",
        ["workflow", "event"],
        (([c.workflow, c.label], c.number) for c in signals),
    )
    swept = CounterMetricFamily("workflow_retention_swept", "Runs removed by retention.")
    swept.add_metric([], sum(c.number for c in removed))
    yield swept


def _cumulated(one: Counted, bounds: Sequence[float]) -> list[tuple[str, int]]:
    """Runs that ended before they were counted by how long they took are in none but the last bucket."""
    total, found = 0, []
    for bound, count in zip([*bounds, math.inf], one.buckets or [0] * (len(bounds) + 1), strict=True):
        total += count
        found.append(("+Inf" if bound == math.inf else f"{bound:g}", total))
    found[-1] = ("+Inf", max(total, one.number))
    return found


def _in_flight(started: Sequence[Counted], ended: Sequence[Counted]) -> Iterator[tuple[str, int]]:
    for one in started:
        yield one.workflow, one.number - sum(c.number for c in ended if c.workflow == one.workflow)


def _summed(ended: Sequence[Counted]) -> Iterator[Counted]:
    """Of each workflow, whatever the status."""
    for workflow in dict.fromkeys(c.workflow for c in ended):
        of = [c for c in ended if c.workflow == workflow]
        rows = [c.buckets for c in of if c.buckets]
        buckets = [sum(column) for column in zip(*rows, strict=True)] or None
        yield Counted(workflow, "ended", "", sum(c.number for c in of), sum(c.seconds for c in of), buckets)
