"""Small histories for the pipeline's tests: segments of ten blocks, numbered from 0."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, event

from pipelines.settings import Settings
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.segments_kit import build_segment, table_rows
from tests.transforms.warehouse_kit import load_pending
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES, known_tables
from transforms.verifying.findings import Finding, Problem

SIZE = 10
_CURRENT_STATE = [table for table in known_tables(1) if table not in HISTORY_TABLES]


def blocks(*numbers: int) -> tuple[BlockRange, ...]:
    """The segments with these numbers."""
    return tuple(BlockRange(number * SIZE + 1, (number + 1) * SIZE) for number in numbers)


def site_settings(folder: Path) -> Settings:
    """A source, which is made, a warehouse and an archive below a folder; three to a batch.

    There is no lake: that takes as long as the rest, and has tests of its own.
    """
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    return Settings(
        source=str(source),
        warehouse=str(folder / "warehouse"),
        archive=str(folder / "archive"),
        batch=3,
        lake=False,
    )


def make_segment(
    settings: Settings, number: int, *, omit: Collection[str] = (), **kit: object
) -> Path:
    """Write one segment into the source; `kit` as in `build_segment`.

    Of the current state it has one table: loading all 37 would take longer than the rest.
    """
    (span,) = blocks(number)
    return build_segment(
        Path(settings.source),
        first=span.first,
        last=span.last,
        omit={*_CURRENT_STATE[1:], *omit},
        **kit,  # type: ignore[arg-type]
    )


def one_key_twice(number: int) -> dict[str, object]:
    """Tables of a segment with two orders under one primary key, so that it does not load."""
    first = blocks(number)[0].first
    row = {"seq_num": "1", "vega_time": "2023-01-01 00:00:00+00"}
    return {"orders": table_rows("orders", row, row, first=first)}


def load(site: Site) -> None:
    """Load all that is pending, without Dagster."""
    assert not load_pending(site.warehouse, site.source, site.stage).failures


def damages(site: Site) -> list[Finding]:
    """What verifying finds, besides segments of which a test has published few tables, or none."""
    return [one for one in verify_site(site) if one.problem is not Problem.NOT_PUBLISHED]


@contextmanager
def listings() -> Iterator[list[str]]:
    """The statements so far that read all partitions of a Dagster instance."""
    asked: list[str] = []

    def listen(*given: object) -> None:
        statement = str(given[2])
        is_part = " IN " in statement or "LIMIT" in statement
        if "FROM dynamic_partitions" in statement and not is_part:
            asked.append(statement)

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", listen)
