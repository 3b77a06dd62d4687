"""A process that has imported everything and forks a child for each try; prints the results."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.commands import import_everything
from tests.faults.disturbing import Disturbed
from tests.faults.flips import Flips
from tests.faults.networks import Networks
from tests.faults.orders import Order, parse_order
from tests.faults.results import Result
from tests.faults.states import States
from tests.faults.zips import Zips

Campaign = Callable[[Path, Order], Iterator[Result]]
CAMPAIGNS: dict[str, Campaign] = {
    "kills": lambda folder, order: Disturbed(folder, order).kills(),
    "faults": lambda folder, order: Disturbed(folder, order).faults(),
    "proxy": lambda folder, order: Networks(folder, order).results(),
    "zips": lambda folder, order: Zips(folder, order).results(),
    "flips": lambda folder, order: Flips(folder, order).results(),
    "states": lambda folder, order: States(folder, order).results(),
}


def main() -> None:
    """Arguments: a folder for what is tried, and the orders."""
    parent, orders = sys.argv[1], map(parse_order, sys.argv[2:])
    # The threads that others started sleep, and hold nothing that a child needs.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    import_everything()
    for order in orders:
        with tempfile.TemporaryDirectory(prefix=f"{order.campaign}-", dir=parent) as folder:
            for result in CAMPAIGNS[order.campaign](Path(folder), order):
                print(result.dump(), flush=True)


if __name__ == "__main__":
    main()
