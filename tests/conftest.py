"""What holds for all tests."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings

# How long one example takes says more about the machine and its other work than about the code.
settings.register_profile("strata", deadline=None)
settings.load_profile("strata")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How often processes are killed: a few times in the gate, hundreds of times when asked."""
    parser.addoption("--kills", type=int, default=6, help="kills of each test of crashes")


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How many kills a test of crashes is to survive."""
    count: int = request.config.getoption("--kills")
    return count


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests of one id: of those, pytest-xdist would run one and leave out the others."""
    counts = Counter(item.nodeid for item in items)
    if doubled := [node for node, count in counts.items() if count > 1]:
        raise pytest.UsageError(f"give these tests ids of their own: {', '.join(doubled)}")
