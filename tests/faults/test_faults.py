"""The short form of `make fault-test`: a few tries of each campaign, of which

`tests/transforms/segments/test_mutations.py` has that of damaged ZIPs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.__main__ import SEED
from tests.faults.library import compile_library
from tests.faults.orders import Order
from tests.faults.results import Result, report
from tests.faults.running import run_one_by_one
from tests.faults.temporary_files import ERRORS

ORDERS = (
    Order("kills", SEED, (0,), ("publish",)),
    Order("faults", SEED, (1, 2), ("load more", "verify")),
    Order("flips", SEED, (0, 8)),
    Order("states", SEED, (2, 5)),
    # The last one is a publish to whose requests nothing is answered from one on.
    Order("proxy", SEED, (6, 24, 117), ("export", "publish")),
)


@pytest.fixture(scope="module", autouse=True)
def _compiler() -> None:
    """What has to be there: a compiler of C, for the library that makes operations fail."""
    if shutil.which("cc") is None:
        reason = "there is no cc to compile tests/faults/preload.c with"
        if os.environ.get("STRATA_TEST_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def tries() -> Sequence[Result]:
    return [*run_one_by_one(ORDERS)]


@pytest.mark.parametrize(
    "order", ORDERS, ids=lambda order: f"{order.campaign} {' '.join(order.scenarios)}".strip()
)
def test_after_bad_luck_nothing_is_lost_and_nothing_false_is_said(
    order: Order, tries: Sequence[Result]
) -> None:
    results = [one for one in tries if one.campaign == order.campaign]

    assert len(results) == len(order.numbers)
    assert any(result.ending != "ended before" for result in results)
    failed = [report(one, order.again(one.number)) for one in results if one.failures]
    assert not failed, "\n".join(failed)


def test_verify_says_in_a_sentence_that_temporary_files_cannot_be_opened(tmp_path: Path) -> None:
    library = compile_library(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.temporary_files", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    endings = json.loads(done.stdout)
    assert len(endings) == len(ERRORS)
    for error, code, told in endings:
        assert code == 7, (error, told)
        (line,) = told.splitlines()
        assert line.startswith("strata: "), line
        assert "run it again" in line or "strata compact" in line
