"""A site in a temporary folder, with as many small real segments as a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines.instance import open_instance
from pipelines.settings import Settings
from pipelines.site.site import Site
from tests.pipelines.kit import make_segment, site_settings

MakeSegments = Callable[..., list[Path]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return site_settings(tmp_path)


@pytest.fixture
def site(settings: Settings) -> Site:
    return Site(settings)


@pytest.fixture
def make_segments(settings: Settings) -> MakeSegments:
    """Write `count` segments of ten blocks each into the source, from segment number `at` on."""

    def make(count: int, at: int = 0, **kit: Any) -> list[Path]:
        return [make_segment(settings, number, **kit) for number in range(at, at + count)]

    return make


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory: making one on disk takes longer than most tests."""
    with dg.DagsterInstance.ephemeral() as opened:
        yield opened


@pytest.fixture
def home_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """An instance with the project's own configuration, in a folder of its own."""
    home = tmp_path / "dagster_home"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with open_instance(home) as opened:
        yield opened
