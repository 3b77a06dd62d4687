"""`python -m tests.faults --kills N --faults N ...`: what bad luck does; exit 1 on failures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.orders import Order
from tests.faults.results import Result, report, table
from tests.faults.running import run_order
from tests.faults.worker import CAMPAIGNS
from tests.faults.zips import EACH

SEED = "20261122"


def main() -> None:
    """Run the campaigns that were asked for."""
    given = _arguments()
    results: list[Result] = []
    for order in _orders(given):
        started = time.monotonic()
        for result in run_order(order, given.processes):
            results.append(result)
            _log(given.log, result, order)
        seconds = time.monotonic() - started
        print(f"{order.campaign}: {len(order.numbers):,} in {seconds:.0f} s", flush=True)
    print(table(results))
    failed = sum(bool(result.failures) for result in results)
    print(
        f"{sum(result.count for result in results):,} tries, {failed} failures, seed {given.seed}"
    )
    sys.exit(1 if failed else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    for campaign in CAMPAIGNS:
        parser.add_argument(f"--{campaign}", type=int, default=0, metavar="N", help="how many")
    parser.add_argument("--seed", default=SEED, help="what the tries are drawn from")
    parser.add_argument("--only", choices=CAMPAIGNS, help="with --number: of this campaign")
    parser.add_argument("--number", type=int, help="this try alone")
    parser.add_argument("--scenarios", default="", help="only these, separated by commas")
    parser.add_argument("--processes", type=int, default=0, help="at a time [one for each core]")
    parser.add_argument("--log", type=Path, help="a file for the results, one JSON line each")
    return parser.parse_args()


def _orders(given: argparse.Namespace) -> Iterator[Order]:
    scenarios = tuple(filter(None, given.scenarios.split(",")))
    if given.number is not None:
        yield Order(given.only, given.seed, (given.number,), scenarios)
        return
    for campaign in CAMPAIGNS:
        count = -(-getattr(given, campaign) // (EACH if campaign == "zips" else 1))
        if count:
            yield Order(campaign, given.seed, tuple(range(count)), scenarios)


def _log(path: Path | None, result: Result, order: Order) -> None:
    if result.failures:
        print(report(result, order.again(result.number)), flush=True)
    if path is not None:
        with path.open("a") as file:
            file.write(f"{result.dump()}\n")


if __name__ == "__main__":
    main()
