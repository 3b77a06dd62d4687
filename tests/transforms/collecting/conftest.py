"""A node with six small segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data_node_kit import DataNode, data_node, node_history


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    node_history(folder)
    return folder


@pytest.fixture
def node(history: Path) -> Iterator[DataNode]:
    with data_node(history) as node:
        yield node
