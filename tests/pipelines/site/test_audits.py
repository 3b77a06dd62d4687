"""Each audit finds what it is there for, and nothing where all is well."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from exporters.zips.container import Member
from exporters.zips.inflate import read_csv
from exporters.zips.sources import ByteSource
from pipelines.checks import check_specs
from pipelines.settings import Settings
from pipelines.site.audits import (
    CHECKS,
    Audit,
    AuditFailure,
    Evidence,
    byte_problems,
    gap_problems,
    gather,
    height_problems,
    key_problems,
    row_problems,
)
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.pipelines.kit import blocks, load, make_segment, one_key_twice, site_settings
from tests.segments_kit import KIT_CHAIN, block_rows, columns, table_rows
from tests.transforms.warehouse_kit import relist
from transforms.tables.registry import HISTORY_TABLES


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Segments 0, 1 and 3: the gap is before 3."""
    settings = site_settings(tmp_path_factory.mktemp("loaded"))
    for number in (0, 1, 3):
        make_segment(settings, number)
    load(Site(settings))
    return Site(settings)


def problems(site: Site, audit: Audit, table: str) -> list[str]:
    with gather(site, None) as evidence:
        return [problem.what for problem in audit(evidence, table)]


@pytest.mark.parametrize("audit", [row_problems, byte_problems, key_problems, height_problems])
def test_sound_segments_have_no_problems(loaded: Site, audit: Audit) -> None:
    with gather(loaded, None) as evidence:
        for table in HISTORY_TABLES:
            assert list(audit(evidence, table)) == []


def test_a_receipt_that_says_other_rows_is_found(loaded: Site) -> None:
    with gather(loaded, None) as evidence:
        first, *rest = evidence.receipts["blocks"]
        receipts = [replace(first, rows=first.rows + 1), *rest]
        found = list(row_problems(replace(evidence, receipts={"blocks": receipts}), "blocks"))

    what = "segment 1-10: blocks shows 10 rows, its receipt 11"
    assert found == [AuditFailure(first.blocks, what)]


def test_a_part_that_was_damaged_while_it_waited_is_rendered_again(
    settings: Settings, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    make_segment(settings, 0)
    load(site)
    path = waiting(site, "blocks")
    good = path.read_bytes()
    path.write_bytes(good[:-30] + bytes([good[-30] ^ 1]) + good[-29:])

    assert problems(site, byte_problems, "blocks") == []
    assert path.read_bytes() == good
    assert str(path) in caplog.text


def test_a_part_that_the_warehouse_does_not_render_either_is_a_problem(
    settings: Settings, site: Site
) -> None:
    make_segment(settings, 0)
    load(site)
    path = waiting(site, "blocks")
    path.write_bytes(path.read_bytes()[:-1])
    (volume,) = (site.warehouse.cache / "volumes").glob("*.duckdb")
    with duckdb.connect(str(volume)) as con:
        con.execute("update main.blocks set hash = 'ff' where height = 5")
    relist(site.warehouse)

    (found,) = problems(site, byte_problems, "blocks")

    assert found.startswith("segment 1-10: table blocks of segment 1-10 no longer renders")


def test_a_part_that_is_published_already_is_no_problem(settings: Settings, site: Site) -> None:
    make_segment(settings, 0)
    load(site)
    publish_segments(site, blocks(0))

    assert problems(site, byte_problems, "blocks") == []


def test_what_the_check_found_sound_is_not_inflated_to_be_published(
    settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_segment(settings, 0)
    load(site)
    with gather(site, None) as evidence:
        for table in HISTORY_TABLES:
            assert list(byte_problems(evidence, table)) == []
    # Damaged after the check, with the time of before: the store finds it while it copies.
    path = waiting(site, "blocks")
    good, found = path.read_bytes(), path.stat()
    with path.open("r+b") as file:
        file.write(good[:40] + bytes([good[40] ^ 1]))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    inflated: list[str] = []

    def reading(source: ByteSource, member: Member) -> Iterator[bytes]:
        inflated.append(member.name)
        return read_csv(source, member)

    monkeypatch.setattr("exporters.publishing.request.read_csv", reading)

    report = publish_segments(site, blocks(0)).report

    assert (report.created, report.failed) == (len(HISTORY_TABLES), ())
    assert inflated == [f"{KIT_CHAIN}-blocks-1-1-10.csv"]  # rendered again, and proven anew
    entry = next(iter(site.archive(KIT_CHAIN).entries("blocks", *blocks(0))))
    assert hashlib.sha256(good).hexdigest() == entry.sha256


def waiting(site: Site, table: str) -> Path:
    return site.stage.path(KIT_CHAIN, table, *blocks(0))


def test_a_primary_key_of_several_rows_is_found(settings: Settings, site: Site) -> None:
    make_segment(settings, 0, tables=one_key_twice(0))
    load(site)

    (found,) = problems(site, key_problems, "orders")

    assert found.startswith("segment 1-10: orders has several rows for vega_time 2023-01-01")
    assert "seq_num 1" in found


def test_rows_of_one_key_are_found_whatever_no_type_holds_of_their_other_cells(
    settings: Settings, site: Site
) -> None:
    row = {"seq_num": "1", "vega_time": "2023-01-01 00:00:00+00"}
    orders = table_rows("orders", row, {**row, "size": "9" * 30})
    make_segment(settings, 0, tables={"orders": orders})
    load(site)

    assert len(problems(site, key_problems, "orders")) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows[1:], "9 rows with 9 heights from 2 to 10"),
        (lambda rows: [*rows[:9], rows[8]], "10 rows with 9 heights from 1 to 9"),
        (lambda rows: [*rows, *block_rows(11, 11)], "11 rows with 11 heights from 1 to 11"),
        (lambda rows: [], "0 rows with 0 heights from None to None"),
    ],
    ids=["one lacks", "one twice", "one too many", "none"],
)
def test_heights_that_are_not_the_segments_are_found(
    settings: Settings, site: Site, change: Callable[[list[object]], list[object]], expected: str
) -> None:
    rows = change(list(block_rows(1, 10)))
    make_segment(settings, 0, tables={"blocks": (columns("blocks"), rows)})
    load(site)

    assert problems(site, height_problems, "blocks") == [
        f"segment 1-10: its table blocks has {expected}"
    ]


def test_a_gap_is_reported_for_the_segment_behind_it_only(loaded: Site) -> None:
    def gaps(*numbers: int) -> Iterator[str]:
        with gather(loaded, frozenset(blocks(*numbers))) as evidence:
            yield from (problem.what for problem in gap_problems(evidence, "blocks"))

    assert list(gaps(0, 1)) == []
    assert list(gaps(3)) == ["no segment holds blocks 21-30, before block 31"]


def test_only_a_gap_does_not_block_publishing() -> None:
    specs = check_specs()

    assert {spec.name for spec in specs if not spec.blocking} == {"no_gap_before"}
    assert {spec.name for spec in specs} == {check.name for check in CHECKS}
    assert len(specs) == 3 * len(HISTORY_TABLES) + 2


def test_evidence_without_segments_shows_nothing(loaded: Site) -> None:
    with gather(loaded, frozenset()) as evidence:
        assert isinstance(evidence, Evidence)
        assert [found for check in CHECKS for found in check.audit(evidence, "blocks")] == []
