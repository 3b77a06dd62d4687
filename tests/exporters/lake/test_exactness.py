"""From the Parquet files and the receipts alone, readers of others render every published CSV."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from pipelines.sample import write_sample
from tests.exporters.lake.lake_kit import HISTORY_TABLES, LakeSite, lake_site, odd_history
from tests.lake_readers import READERS, CsvReceipt
from tests.segments_kit import all_shared_segments
from transforms.tables.registry import schema_of

_BATCHES = {"generated, by ones": 1, "generated, by threes": 3, "generated, at once": 100}


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, LakeSite]:
    """The recorded histories, the sample and a generated one, in files of several segments."""
    root = tmp_path_factory.mktemp("lakes")
    made = {
        str(folder): lake_site(root / f"shared{number}", folder)
        for number, folder in enumerate(all_shared_segments())
    }
    write_sample(root / "sample")
    made["sample"] = lake_site(root / "of-sample", root / "sample", batch=5)
    odd = lake_site(root / "of-odd", odd_history(root / "odd"))
    for lake in (*made.values(), odd):
        lake.load()
    for name, batch in _BATCHES.items():
        made[name] = odd.elsewhere(root / f"archive{batch}", batch=batch)
    for lake in made.values():
        lake.publish_zips()
        assert lake.publish().refused == ()
    return made


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
            assert csv == lake.zipped(receipt), (name, receipt.table, receipt.first)
            assert len(csv) == receipt.bytes
            assert hashlib.sha256(csv).hexdigest() == receipt.sha256
        pairs += len(receipts)
        texts += read.raw_cells
    print(f"{reader}: {pairs} CSVs, {texts} texts of _raw")
    assert pairs >= 600
    assert texts > 8000


def _expected(lake: LakeSite) -> Iterator[tuple[str, int]]:
    for blocks in lake.site.loaded_catalog().blocks:
        yield from ((table, blocks.first) for table in HISTORY_TABLES)


@pytest.mark.parametrize("name", _BATCHES)
def test_whatever_a_batch_is_made_of_the_rows_are_the_same(
    lakes: Mapping[str, LakeSite], name: str
) -> None:
    read = READERS["polars"](lakes[name].folder)
    other = READERS["polars"](lakes["generated, by ones"].folder)

    def known(receipts: list[CsvReceipt]) -> list[CsvReceipt]:
        return sorted(receipts, key=lambda one: (one.first, one.table))

    assert known(read.receipts()) == known(other.receipts())
    for receipt in read.receipts():
        assert read.csv(receipt) == other.csv(receipt)


@pytest.mark.parametrize("reader", READERS)
def test_the_newest_current_state_renders_to_what_the_newest_segment_dumped(
    lakes: Mapping[str, LakeSite], reader: str
) -> None:
    """There are no receipts of it: the columns are those of the dump."""
    compared = 0
    for name, lake in lakes.items():
        if name in _BATCHES:
            continue
        for receipt, csv in _dumped(lake):
            assert READERS[reader](lake.folder).csv(receipt) == csv, (name, receipt.table)
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
