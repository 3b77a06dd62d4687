"""From the Parquet files and the manifests alone, readers of others render every published CSV."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest

from pipelines.site.site_check import verify_site
from tests.exporters.lake.lake_kit import LakeSite, lake_site, odd_history
from tests.lake_readers import READERS, CsvReceipt, log_actions
from tests.shared_folders import published_sample, recorded_sites
from transforms.tables.registry import schema_of
from transforms.verifying.verification import Verification

_SKIPPING = "delta.dataSkippingStatsColumns"
_IN_PAIRS, _AT_ONCE = "generated, in pairs", "generated, at once"


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, LakeSite]:
    """The recorded histories, the sample and a generated one, in files of several segments."""
    root = tmp_path_factory.mktemp("lakes")
    made = {site.settings.source: LakeSite(site) for site in recorded_sites(root / "recorded")}
    odd_history(root / "odd")
    for name, batch in {_IN_PAIRS: 2, _AT_ONCE: 100}.items():
        made[name] = lake_site(root / f"of-odd{batch}", root / "odd", batch=batch)
    for lake in made.values():
        lake.load()
        lake.publish_zips()
        assert not lake.publish()
    return made | {"sample": LakeSite(published_sample(root / "sample"))}


@pytest.mark.parametrize("reader", READERS)
def test_every_table_of_every_segment_renders_to_its_published_csv(
    lakes: Mapping[str, LakeSite], reader: str
) -> None:
    pairs, texts = 0, 0
    for name, lake in lakes.items():
        read = READERS[reader](lake.folder)
        receipts = read.receipts()
        assert {(one.table, one.first) for one in receipts} == set(_expected(lake)), name
        for receipt in receipts:
            csv = read.csv(receipt)
            assert csv == lake.dumped(receipt), (name, receipt.table, receipt.first)
            assert len(csv) == receipt.bytes
            assert hashlib.sha256(csv).hexdigest() == receipt.sha256
        pairs += len(receipts)
        texts += read.raw_cells
    print(f"{reader}: {pairs} CSVs, {texts} texts of _raw")
    assert pairs >= 500
    assert texts > 6900


def _expected(lake: LakeSite) -> Iterator[tuple[str, int]]:
    for blocks in lake.site.loaded_catalog().blocks:
        yield from ((table, blocks.first) for table in lake.dumps(blocks))


def test_whatever_a_file_is_made_of_its_receipts_are_the_same(
    lakes: Mapping[str, LakeSite],
) -> None:
    """And so are the CSVs, which the test above holds against copies of the same ZIPs."""
    single, joined = (
        sorted(READERS["polars"](lakes[name].folder).receipts(), key=_key)
        for name in (_IN_PAIRS, _AT_ONCE)
    )
    assert single == joined
    assert len(lakes[_IN_PAIRS].files("blocks")) == 4
    assert len(lakes[_AT_ONCE].files("blocks")) == 1


def _key(receipt: CsvReceipt) -> tuple[int, str]:
    return receipt.first, receipt.table


@pytest.mark.parametrize("reader", READERS)
def test_the_newest_current_state_renders_to_what_the_newest_segment_dumped(
    lakes: Mapping[str, LakeSite], reader: str
) -> None:
    """There are no receipts of it: the columns are those of the dump."""
    compared = 0
    for name, lake in lakes.items():
        if name in (_IN_PAIRS, _AT_ONCE):
            continue
        read = READERS[reader](lake.folder)
        for receipt, csv in _dumped(lake):
            assert read.csv(receipt) == csv, (name, receipt.table)
            compared += 1
    assert compared > 100


def _dumped(lake: LakeSite) -> Iterator[tuple[CsvReceipt, bytes]]:
    newest = lake.site.loaded_catalog().blocks[-1]
    (path,) = Path(lake.site.settings.source).glob(f"*-{newest}.zip")
    version = int(path.stem.split("-")[-3])
    with ZipFile(path) as archive:
        for name in archive.namelist():
            folder, _, table = name.partition("/")
            if folder == "currentstate":
                csv = archive.read(name)
                header = csv.partition(b"\n")[0].decode().split(",")
                kinds = [(one.name, one.type) for one in schema_of(table, version, header).columns]
                yield CsvReceipt(table, newest.first, newest.last, kinds, 0, len(csv), ""), csv


def test_what_the_log_says_of_every_file_is_so(lakes: Mapping[str, LakeSite]) -> None:
    """Its bytes and its rows: Parquet has the least and greatest values."""
    files = 0
    for lake in lakes.values():
        for table in sorted(lake.folder.iterdir()):
            for add in (action["add"] for action in log_actions(table) if "add" in action):
                path = table / add["path"]
                if path.exists():
                    assert add["size"] == path.stat().st_size
                    rows = pq.ParquetFile(path).metadata.num_rows
                    assert json.loads(add["stats"]) == {"numRecords": rows}
                    files += 1
    assert files > 100


@pytest.mark.parametrize("name", ["sample", _AT_ONCE])
def test_the_products_own_check_finds_nothing(lakes: Mapping[str, LakeSite], name: str) -> None:
    assert [str(one) for one in verify_site(lakes[name].site, Verification())] == []
