"""Publishing, exporting and verifying loaded segments, without Dagster."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from exporters.archive.archive import Archive
from exporters.publishing.publication import Outcome, PublishReport, publish_zips
from exporters.publishing.request import PublishRequest
from exporters.zips.layout import Layout
from pipelines.settings import Settings
from pipelines.site.completing import complete_archive
from pipelines.site.publication_state import published_tables
from pipelines.site.publishing import (
    publish_segments,
)
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.archive_kit import shard_file, without_old_shards
from tests.pg_csv import decode, pg_csv
from tests.pipelines.kit import blocks, damages, load, make_segment, site_settings
from tests.segments_kit import (
    KIT_CHAIN,
    entry_bytes,
    expected_member,
    table_rows,
)
from tests.transforms.warehouse_kit import change_rows, relist
from transforms.errors import ConfigError, IntegrityError, RangeError
from transforms.verifying.findings import Problem
from transforms.verifying.verification import Verification

FEW = ("blocks", "orders")  # most tests need no more of the 15 tables
ALL = blocks(0, 1, 2, 3)


@dataclass(frozen=True)
class Loaded:
    """Four loaded segments, and their files."""

    settings: Settings
    sources: list[Path]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    settings = site_settings(tmp_path_factory.mktemp("loaded"))
    sources = [make_segment(settings, number) for number in range(len(ALL))]
    load(Site(settings))
    return Loaded(settings, sources)


@pytest.fixture
def site(loaded: Loaded, tmp_path: Path) -> Site:
    """The loaded segments, with an archive of their own."""
    return Site(replace(loaded.settings, archive=str(tmp_path / "archive")))


def files(site: Site) -> dict[str, bytes]:
    root = Path(site.settings.archive)
    paths = (path for path in root.rglob("*") if path.is_file())
    return without_old_shards({str(path.relative_to(root)): path.read_bytes() for path in paths})


def archived(site: Site, table: str, span: str) -> Path:
    return Path(site.settings.archive, KIT_CHAIN, table, f"{KIT_CHAIN}-{table}-{span}.zip")


def only_member(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        (name,) = archive.namelist()
        return archive.read(name)


def exported(site: Site, table: str, first: int, last: int) -> Layout:
    """The ZIP of a range, of which every copy must be sound."""
    warnings: list[str] = []
    layout = site.export(table, first, last, warnings.append).layout
    assert not warnings
    return layout


def exported_with_null(
    site: Site, table: str, first: int, last: int, null: str, folder: Path
) -> Layout:
    """The ZIP of a range with another NULL string."""
    catalog = site.loaded_catalog()
    return site.exporter.export_with_null(catalog, table, first, last, null, folder).layout


def test_a_segment_is_published_when_all_its_tables_are(site: Site) -> None:
    publish_segments(site, ALL[:1], FEW)
    assert site_status(site).unpublished == ALL

    publish_segments(site, ALL[:1])

    assert site_status(site).unpublished == ALL[1:]
    assert site_status(site).to_do == ALL[1:]


def test_publishing_again_does_nothing(site: Site) -> None:
    first = publish_segments(site, ALL, FEW)
    before = files(site)
    again = publish_segments(site, ALL, FEW)

    assert first.report.created == len(ALL) * len(FEW)
    assert (again.report.created, again.report.identical) == (0, 0)
    assert again.entries == first.entries
    assert files(site) == before


def test_zips_that_no_index_names_get_entries_again_though_their_parts_are_gone(site: Site) -> None:
    publish_segments(site, ALL)
    whole = files(site)
    for name in (shard_file(site.archive(KIT_CHAIN)), "index.json"):
        Path(site.settings.archive, KIT_CHAIN, name).unlink()
    assert not site.stage.path(KIT_CHAIN, "blocks", ALL[0]).exists()

    with pytest.raises(IntegrityError, match="is gone: strata publish makes it again"):
        publish_segments(site, ALL)
    complete_archive(site, site.archive(KIT_CHAIN))

    assert files(site) == whole
    report = publish_segments(site, ALL).report
    assert report.created == 0


def test_other_bytes_in_the_archive_stop_their_own_zip_only(site: Site) -> None:
    there = archived(site, "blocks", "1-10")
    there.parent.mkdir(parents=True)
    there.write_bytes(b"somebody else's")

    report = publish_segments(site, ALL[:2], FEW).report

    assert [failed.name for failed in report.failed] == [there.name]
    assert report.created == 3
    assert there.read_bytes() == b"somebody else's"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("place", [0, 14, 40, 200, -60, -1])
def test_a_part_that_lost_a_bit_while_it_waited_is_rendered_again(
    site: Site, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    (receipt,) = (r for r in site.warehouse.receipts(ALL[:1]) if r.table == "blocks")
    site.render_part(receipt, site.stage)
    part = site.stage.path(KIT_CHAIN, "blocks", ALL[0])
    whole = part.read_bytes()
    flip(part, place)

    report = publish_segments(site, ALL[:1], ["blocks"]).report

    assert (report.created, report.failed) == (1, ())
    assert archived(site, "blocks", "1-10").read_bytes() == whole
    (warning,) = caplog.messages
    assert part.name in warning
    assert "rendered from the warehouse again" in warning
    assert damages(site) == []


def test_a_part_of_another_text_or_without_its_hash_is_rendered_again(
    site: Site, loaded: Loaded
) -> None:
    receipts = {r.blocks: r for r in site.warehouse.receipts(ALL) if r.table == "blocks"}
    other = receipts[ALL[0]]
    site.stage.write(replace(other, rows=1), [b"x\n"], site.scratch())
    site.render_part(receipts[ALL[1]], site.stage)
    unknown = site.stage.path(KIT_CHAIN, "blocks", ALL[1])
    unknown.with_name(f"{unknown.name}.sha256").unlink()
    flip(unknown, 14)

    report = publish_segments(site, ALL[:2], ["blocks"]).report

    assert (report.created, report.failed) == (2, ())
    for span, source in zip(("1-10", "11-20"), loaded.sources[:2], strict=True):
        assert only_member(archived(site, "blocks", span)) == expected_member([source], "blocks")
    assert damages(site) == []


def test_a_part_that_neither_disk_nor_warehouse_holds_is_not_published(tmp_path: Path) -> None:
    site = Site(site_settings(tmp_path))
    make_segment(site.settings, 0)
    load(site)
    flip(site.stage.path(KIT_CHAIN, "blocks", ALL[0]), 200)
    (data,) = (site.warehouse.cache / "data" / "blocks").iterdir()
    change_rows(data, "delete from rows where _row = 2")
    relist(site.warehouse)

    for _ in range(2):
        (failure,) = publish_segments(site, ALL[:1], FEW).report.failed
        assert (failure.table, failure.outcome) == ("blocks", Outcome.DAMAGED)
        assert failure.reason.startswith("table blocks of segment 1-10 no longer renders")
        assert not archived(site, "blocks", "1-10").exists()
        assert archived(site, "orders", "1-10").exists()


def test_who_publishes_the_same_segments_meanwhile_takes_no_part_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is done, and has tidied up, when this one has proven its parts."""
    for receipt in site.warehouse.receipts(ALL[:2]):
        if receipt.table in FEW:
            site.render_part(receipt, site.stage)
    others: list[PublishReport] = []

    def publish_late(
        archive: Archive, requests: Iterable[PublishRequest], **options: Any
    ) -> PublishReport:
        proven = [*requests]
        if not others:
            others.append(PublishReport())
            others[0] = publish_segments(Site(site.settings), ALL[:2], FEW).report
        return publish_zips(archive, proven, **options)

    monkeypatch.setattr("pipelines.site.publishing.publish_zips", publish_late)
    report = publish_segments(site, ALL[:2], FEW).report

    assert (others[0].created, others[0].failed) == (4, ())
    assert (report.identical, report.failed) == (4, ())
    assert not site.stage.path(KIT_CHAIN, "blocks", ALL[0]).exists()
    assert not [*site.scratch().iterdir()]
    assert damages(site) == []


def test_a_publication_that_was_killed_before_the_pages_is_finished_by_the_next(site: Site) -> None:
    publish_segments(site, ALL[:1], FEW)
    whole = files(site)
    for name in whole:
        if name.endswith(".html"):
            Path(site.settings.archive, name).unlink()

    assert publish_segments(site, ALL[:1], FEW).report.results == ()
    assert files(site) == whole


def test_what_was_published_is_summed_up_by_table(site: Site) -> None:
    publish_segments(site, ALL[:3], FEW)

    tables = published_tables(site, set(ALL[1:]))

    assert [table.table for table in tables] == list(FEW)
    assert (tables[0].zips, tables[0].rows) == (2, 20)
    assert tables[0].newest.blocks == ALL[2]
    assert published_tables(site, set()) == []


@pytest.mark.parametrize("published", [(), (0, 1, 2, 3), (1, 2)], ids=["none", "all", "some"])
def test_a_range_is_exported_from_archive_and_warehouse_alike(
    site: Site, loaded: Loaded, published: tuple[int, ...], tmp_path: Path
) -> None:
    if published:
        publish_segments(site, blocks(*published), ["blocks"])
    path = tmp_path / "range.zip"

    layout = exported(site, "blocks", 1, 40)
    layout.write(path)

    assert path.stat().st_size == layout.size
    assert [member.name for member in layout.members] == [f"{KIT_CHAIN}-blocks-1-1-40.csv"]
    assert only_member(path) == expected_member(loaded.sources, "blocks")


@pytest.mark.parametrize("null", ["NULL", "\\N", "reference"])
def test_a_range_is_exported_with_another_null_string(tmp_path: Path, null: str) -> None:
    settings = site_settings(tmp_path / "own")
    cells = ({"reference": None, "reason": None}, {"reference": null}, {"reference": ""})
    sources = [
        make_segment(settings, number, tables={"orders": table_rows("orders", *cells, first=first)})
        for number, first in enumerate((1, 11))
    ]
    site = Site(settings)
    load(site)

    layout = exported_with_null(site, "orders", 1, 20, null, tmp_path / "stage")
    layout.write(tmp_path / layout.name)

    (header, first_rows), (_, second_rows) = (decode(entry_bytes(p, "orders")) for p in sources)
    with zipfile.ZipFile(tmp_path / layout.name) as archive:
        written = archive.read(f"{KIT_CHAIN}-orders-1-1-20.csv")
    assert written == pg_csv(header, [*first_rows, *second_rows], null)


def test_a_null_string_that_could_be_a_value_is_refused(site: Site, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="comma, a quote or a line end"):
        exported_with_null(site, "orders", 1, 40, "a,b", tmp_path / "stage")


@pytest.mark.parametrize(
    ("table", "first", "last", "expected"),
    [
        ("blocks", 1, 35, "block 35 is not the last block of a segment"),
        ("blocks", 20, 10, "after its end"),
        ("blocks", 1, 90, "no segment holds 41-90"),
        ("nothing", 1, 40, "is no table"),
    ],
)
def test_a_range_that_cannot_be_is_refused_in_words(
    site: Site, table: str, first: int, last: int, expected: str
) -> None:
    with pytest.raises(RangeError, match=expected):
        exported(site, table, first, last)


def test_nothing_can_be_published_from_an_empty_warehouse(site: Site, tmp_path: Path) -> None:
    empty = Site(replace(site.settings, warehouse=str(tmp_path / "empty")))

    with pytest.raises(ConfigError, match="load segments first"):
        publish_segments(empty, ALL)
    assert site_status(empty).unpublished == ()


def test_verifying_finds_nothing_where_all_is_well_and_a_zip_that_was_altered(
    site: Site,
) -> None:
    publish_segments(site, ALL[:1], FEW)
    assert damages(site) == []
    path = archived(site, "blocks", "1-10")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    found = damages(site)

    assert found
    assert all(path.name in str(mismatch) for mismatch in found)


def test_verifying_counts_the_volumes_and_zips_that_it_reads(site: Site) -> None:
    publish_segments(site, ALL[:2], FEW)
    catalog = site.warehouse.catalog()
    volumes = len(catalog.snapshot.volumes)
    seen: dict[str, list[tuple[int, int]]] = {}

    check = Verification(progress=lambda what, *step: seen.setdefault(what, []).append(step))
    found = verify_site(site, check)

    assert {one.problem for one in found} == {Problem.NOT_PUBLISHED}
    assert seen == {
        "volumes": [(done, volumes) for done in range(1, volumes + 1)],
        "ZIPs": [(done, 4) for done in range(1, 5)],
    }


def test_verifying_finds_what_archive_and_warehouse_disagree_about(
    site: Site, tmp_path: Path
) -> None:
    """Both are sound in themselves, but a segment of the one is not that of the other."""
    publish_segments(site, ALL[:1], FEW)
    settings = replace(site_settings(tmp_path / "other"), archive=site.settings.archive)
    make_segment(settings, 0, tables={"orders": table_rows("orders", {})})
    other = Site(settings)
    load(other)

    (found,) = damages(other)

    assert found.place.endswith(f"{KIT_CHAIN}-orders-1-10.zip")
    assert "0 rows" in found.what
    assert "the warehouse 1 rows" in found.what


def test_verifying_finds_a_data_file_that_is_gone(tmp_path: Path) -> None:
    site = Site(site_settings(tmp_path))
    make_segment(site.settings, 0)
    load(site)
    (data,) = (site.warehouse.cache / "data" / "blocks").iterdir()
    data.unlink()
    found = list(verify_site(site))

    assert found[0].problem is Problem.MISSING
    assert found[0].place.endswith(data.name)
