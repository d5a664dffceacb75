"""`make bench`: measures, prints a table, writes results.jsonl beside it when asked. Exit 1 when a bar is missed."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
import uvloop

sys.path.insert(0, str(Path(__file__).parent))

import measures
import services
import stores

from onward import Client, embedded

MEASURES = [*measures.MEASURES, *stores.MEASURES, *services.MEASURES]


async def run(url: str, chosen: list[str], scale: float) -> list[measures.Result]:
    results: list[measures.Result] = []
    async with Client(url) as client:
        await client.workflows()  # sets the schema up
        bare = await asyncpg.connect(url)
        place = measures.Place(url, client, bare, scale)
        for measure in MEASURES:
            if chosen and measure.__name__ not in chosen:
                continue
            found = await measure(place)
            for result in found if isinstance(found, list) else [found]:
                bar = f"≥ {result.at_least}" if result.at_least is not None else f"≤ {result.at_most}"
                word = "ok  " if result.met else "MISS"
                print(f"{word} {result.name:60} {result.ratio:8.2f}  {bar:8}  {result.detail}", flush=True)
                results.append(result)
        await bare.close()
    return results


def main() -> int:
    names = [m.__name__ for m in MEASURES]
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("measure", nargs="*", help=f"which, by name; all when none is named: {', '.join(names)}")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the full size, to try things out")
    parser.add_argument("--url", help="a database to measure on; else an embedded one in a temporary folder")
    parser.add_argument("--out", type=Path, help="append the results to this file, a JSON object a line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onward-bench-") as folder:
        lease = None if options.url else embedded.acquire(Path(folder))
        try:
            results = uvloop.run(run(options.url or lease.url, options.measure, options.scale))  # type: ignore[union-attr]
        finally:
            if lease is not None:
                lease.release()
                embedded.remove(Path(folder))
    if options.out:
        with options.out.open("a") as out:
            for result in results:
                out.write(json.dumps({"at": time.time(), **result._asdict()}) + "\n")
    return 0 if all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
