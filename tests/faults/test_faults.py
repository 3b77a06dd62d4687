"""The short form of `make fault-test`: a few tries of each campaign."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.faults.__main__ import SEED
from tests.faults.orders import Order
from tests.faults.results import report
from tests.faults.running import run_order

ORDERS = (
    Order("kills", SEED, (0, 1, 2), ("publish",)),
    Order("faults", SEED, (0, 1, 2, 3), ("load more",)),
    Order("zips", SEED, (0,)),
    Order("flips", SEED, tuple(range(0, 17, 4))),
    Order("proxy", SEED, (3, 5, 6, 9), ("export",)),  # none stalls: these take long
)


@pytest.fixture(autouse=True)
def _compiler() -> None:
    """What has to be there: a compiler of C, for the library that makes operations fail."""
    if shutil.which("cc") is None:
        reason = "there is no cc to compile tests/faults/preload.c with"
        if os.environ.get("STRATA_TEST_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.campaign)
def test_after_bad_luck_nothing_is_lost_and_nothing_false_is_said(order: Order) -> None:
    results = list(run_order(order, processes=1))

    assert len(results) == len(order.numbers)
    assert any(result.ending != "ended before" for result in results)
    failed = [report(one, order.again(one.number)) for one in results if one.failures]
    assert not failed, "\n".join(failed)
