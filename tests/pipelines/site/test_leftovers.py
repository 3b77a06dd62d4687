"""Staged ZIPs that another machine published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.settings import Settings
from pipelines.site.leftovers import remove_published_parts
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.archive_kit import resealed
from tests.pipelines.conftest import MakeSegments
from tests.pipelines.kit import blocks, load
from tests.segments_kit import KIT_CHAIN


@pytest.fixture
def machines(settings: Settings, tmp_path: Path, make_segments: MakeSegments) -> tuple[Site, Site]:
    """Two machines with one warehouse; the first has loaded two segments, both know them."""
    make_segments(2)
    first, second = (Site(replace(settings, cache=tmp_path / name)) for name in ("first", "second"))
    load(first)
    return first, second


def waiting(site: Site) -> set[tuple[str, str]]:
    return {(table, str(held)) for table, held in site.stage.parts(KIT_CHAIN)}


def of_segment(segment: str, parts: set[tuple[str, str]]) -> Iterator[str]:
    return (table for table, held in parts if held == segment)


def test_parts_that_were_published_elsewhere_go_and_others_stay(
    machines: tuple[Site, Site],
) -> None:
    first, second = machines
    publish_segments(second, blocks(0))
    publish_segments(second, blocks(1), ("orders",))
    before = waiting(first)

    removed = remove_published_parts(first)

    assert removed == 16
    assert before - waiting(first) == {
        *((table, "1-10") for table in of_segment("1-10", before)),
        ("orders", "11-20"),
    }
    assert not list(first.stage.root.glob("*/orders/*"))  # nor are their hashes left


def test_a_part_stays_where_the_archive_has_another_text(machines: tuple[Site, Site]) -> None:
    first, second = machines
    publish_segments(second, blocks(0), ("orders",))
    shard = Path(first.settings.archive, KIT_CHAIN, "index", "000000000.json")
    (entry,) = first.archive(KIT_CHAIN).shard(0).entries
    text = shard.read_text()
    shard.write_bytes(resealed(text.replace(entry.members[0].sha256, "0" * 64).encode()))

    assert remove_published_parts(Site(first.settings)) == 0
    assert ("orders", "1-10") in waiting(first)


def test_an_archive_that_cannot_be_read_is_named_and_the_parts_stay(
    machines: tuple[Site, Site], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = machines
    publish_segments(second, blocks(0), ("orders",))
    shard = Path(first.settings.archive, KIT_CHAIN, "index", "000000000.json")
    shard.write_text("no JSON")
    before = waiting(first)

    assert remove_published_parts(first) == 0
    assert waiting(first) == before
    assert str(shard) in caplog.text
