"""What a new segment costs beside few and beside many: processor seconds and peak memory.

Run it: `python -m tests.benchmarks.scale [segments ...] [--only text] [--rounds 3]`; by default
1,000, 20,000 and 75,000. Making the histories takes 20 minutes and 13 GB of disk; they are kept,
shared with `tests.benchmarks.api`, where STRATA_BENCH=<folder> says. Each figure is the median of
some processes, each with a copy of the site of its own. What is measured: `scale_rows`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.measure import Cost, measured
from tests.benchmarks.scale_rows import ROWS, Row
from tests.benchmarks.scale_site import Place, make_site

SIZES = (1000, 20_000, 75_000)
AIM = 1.5
"""What the largest may cost, of the smallest."""
ROUNDS = 3
_SHOWN = "{:.2f} s, {:.0f} MiB"


def measure(row: Row, place: Place, rounds: int) -> Cost:
    """The median of some rounds by processor time."""
    costs: list[Cost] = []
    for _ in range(rounds):
        with own_copy(place) as own:
            measured(row.prepare, own)
            costs.append(measured(row.work, own))
    return sorted(costs, key=lambda cost: cost.cpu)[len(costs) // 2]


@contextmanager
def own_copy(place: Place) -> Iterator[Place]:
    """A site to be changed, of which nothing is left."""
    with tempfile.TemporaryDirectory(prefix="work-", dir=place.folder) as folder:
        yield place.copy(Path(folder))


def line(row: Row, costs: Sequence[Cost]) -> str:
    """A row of the table."""
    shown = [_SHOWN.format(cost.cpu, cost.peak / 2**20) for cost in costs]
    cells = [row.what, *shown, f"{costs[-1].cpu / costs[0].cpu:.2f}"]
    return f"| {' | '.join(cells)} |"


def main(sizes: Sequence[int], only: str, rounds: int) -> None:
    """Print the table of the rows whose name has a text."""
    with tempfile.TemporaryDirectory(prefix="strata-scale-") as temporary:
        folder = Path(os.environ.get("STRATA_BENCH") or temporary)
        places = [make_site(folder, segments) for segments in sizes]
        heads = ["segments", *(f"{size:,}" for size in sizes), f"ratio (aim {AIM})"]
        print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
        for row in ROWS:
            if only in row.what:
                print(line(row, [measure(row, place, rounds) for place in places]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("segments", type=int, nargs="*")
    parser.add_argument("--only", default="", help="rows whose name has this text")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    main(chosen.segments or SIZES, chosen.only, chosen.rounds)
