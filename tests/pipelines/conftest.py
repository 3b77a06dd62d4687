"""A site in a temporary folder, with as many small real segments as a test asks for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from pipelines.instance import open_instance
from pipelines.settings import Settings
from pipelines.site import Site
from tests.segments_kit import build_segment
from transforms.segments import BlockRange

SIZE = 10

MakeSegments = Callable[..., list[Path]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    source = tmp_path / "source"
    source.mkdir()
    return Settings(
        source=str(source),
        warehouse=tmp_path / "warehouse",
        archive=str(tmp_path / "archive"),
        batch=3,
    )


@pytest.fixture
def site(settings: Settings) -> Site:
    return Site(settings)


@pytest.fixture
def make_segments(settings: Settings) -> MakeSegments:
    """Write `count` segments of ten blocks each into the source, from segment number `at` on."""

    def make(count: int, at: int = 0, **kit: object) -> list[Path]:
        numbers = itertools.islice(itertools.count(at), count)
        return [
            build_segment(
                Path(settings.source),
                first=number * SIZE + 1,
                last=(number + 1) * SIZE,
                **kit,  # type: ignore[arg-type]
            )
            for number in numbers
        ]

    return make


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """A real instance with the project's own configuration, in a folder of its own."""
    home = tmp_path / "dagster_home"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with open_instance(home) as opened:
        yield opened


def blocks(*numbers: int) -> list[BlockRange]:
    """The segments with these numbers."""
    return [BlockRange(number * SIZE + 1, (number + 1) * SIZE) for number in numbers]
