"""The page of differences: every operation of the data node is there, or has what answers it."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest

from api.core.descriptors import TRADING_DATA, service

_DOCS = Path(__file__).parents[2] / "docs"
_PAGE = (_DOCS / "differences.md").read_text().partition("## What other operations answer")[2]
_ROWS = [line.strip("|").split(" | ") for line in _PAGE.splitlines() if line.startswith("| `")]


@pytest.fixture(scope="module")
def operations() -> list[str]:
    """The methods of the data node that Strata does not have, by code made for other releases."""
    folder = Path(sys.prefix) / "stubs"
    assert (folder / "vega_sim").is_dir(), f"no stubs in {folder}: run `make setup`"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        module = import_module("vega_sim.proto.data_node.api.v2.trading_data_pb2")
    methods = module.DESCRIPTOR.services_by_name["TradingDataService"].methods_by_name
    return sorted({*methods} - {*service(TRADING_DATA).methods_by_name})


def _patterns(cell: str) -> list[str]:
    return re.findall("`(.*?)`", cell)


def test_every_operation_has_one_row_and_every_row_an_operation(operations: list[str]) -> None:
    patterns = [pattern for asked, _ in _ROWS for pattern in _patterns(asked)]
    for operation in operations:
        assert sum(fnmatch(operation, pattern) for pattern in patterns) == 1, operation
    for pattern in patterns:
        assert any(fnmatch(operation, pattern) for operation in operations), pattern


def test_every_query_that_is_named_is_in_the_cookbook() -> None:
    headings = re.findall(r"^### (.*)$", (_DOCS / "cookbook.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}
    named = re.findall(r"\(cookbook\.md#(.*?)\)", _PAGE)
    assert len(named) >= 15
    assert {*named} <= anchors
