"""Staged ZIPs that nobody published here."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pipelines.settings import Settings
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.pipelines.conftest import MakeSegments
from tests.pipelines.kit import blocks, load
from transforms.tables.registry import HISTORY_TABLES

_DAY = 24 * 3600


def staged(site: Site) -> list[Path]:
    return sorted(site.stage.root.glob("*/*/*"))


def test_parts_of_a_week_ago_go_and_are_rendered_again_where_they_are_needed(
    settings: Settings, make_segments: MakeSegments
) -> None:
    make_segments(2)
    site = Site(settings)
    load(site)
    parts = staged(site)
    with_rows = [r for r in site.warehouse.receipts() if r.rows and r.table in HISTORY_TABLES]
    assert len(parts) == 2 * len(with_rows) > 0
    for age, count in ((6, len(parts)), (8, len(parts) // 2)):
        then = time.time() - age * _DAY
        for path in parts:
            if "-1-10." in path.name:
                os.utime(path, (then, then))
        site.sweep()
        assert len(staged(site)) == count

    outcome = publish_segments(site, [*blocks(0), *blocks(1)])

    assert (outcome.report.created, outcome.report.failed) == (30, ())
    assert staged(site) == []
