"""What is published to a lake costs the same beside ten files of each table and beside 750."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import polars
import pytest
from deltalake import DeltaTable

from exporters.archive.archive import Archive
from exporters.archive.lake_place import MANIFESTS
from exporters.lake.lake_files import Lake
from exporters.lake.log.table_schema import KEPT_HOURS
from exporters.lake.log.table_version import ActiveFile, TableVersion
from pipelines.settings import Settings
from pipelines.site.publication_state import lacking_segments, site_lake
from pipelines.site.site import Site
from tests.end_to_end.lake_worker import publish_some
from tests.exporters.lake.log.log_kit import COLUMNS, KEY, commit, named, names, new_log, newest
from tests.s3_kit import BucketServer, bucket_server
from tests.transforms.warehouse_kit import history_segment, load_folder
from transforms.block_range import BlockRange
from transforms.stores.folder_store import FolderStore
from transforms.stores.s3 import S3Store

FEW, MANY = 10, 750
SEGMENTS_OF_A_FILE, BLOCKS = 100, 300
COMMITS_OF_A_CHECKPOINT = 10


def _file(number: int) -> ActiveFile:
    """A file that is only named, of a hundred segments far beyond those that are loaded."""
    first = number * SEGMENTS_OF_A_FILE * BLOCKS + 1
    blocks = BlockRange(first, first + SEGMENTS_OF_A_FILE * BLOCKS - 1)
    return ActiveFile(f"{blocks}.{number:016x}.parquet", 2**28, 1000)


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaded")
    for number in range(2):
        first = number * BLOCKS + 1
        history_segment(folder / "source", first=first, last=first + BLOCKS - 1)
    assert load_folder(folder / "warehouse", folder / "source").failures == []
    return folder / "warehouse"


def test_publishing_beside_750_files_of_each_table_asks_the_store_as_often_as_beside_ten(
    server: BucketServer, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    asked: dict[int, int] = {}
    for files in (FEW, MANY):
        archive = f"s3://{server.bucket()}/some"
        site = Site(Settings(source="none", warehouse=str(warehouse), archive=archive))
        first, second = site.loaded_catalog().blocks
        publish_some(site, [first])
        for table in ("blocks", MANIFESTS):
            log = site_lake(site).table(table)
            log.commit(newest(log), [_file(number) for number in range(1, files)])
        server.door.requests.clear()
        publish_some(site, [second])
        assert lacking_segments(site) == []
        asked[files] = len(server.door.requests)
        assert isinstance(site.store, S3Store)
        site.store.close()
    assert asked[MANY] == asked[FEW]


def test_a_commit_asks_the_store_no_more_after_thirty_than_after_ten(
    server: BucketServer,
) -> None:
    with server.store() as store:
        log = new_log(store)
        asked = []
        for number in range(1, 3 * COMMITS_OF_A_CHECKPOINT + 1):
            server.door.requests.clear()
            commit(log, number)
            asked.append(len(server.door.requests))
    cycles = [asked[start : start + COMMITS_OF_A_CHECKPOINT] for start in (0, 10, 20)]
    assert max(cycles[2]) <= max(cycles[1])
    assert sum(cycles[2]) <= sum(cycles[1])


def test_what_750_files_lack_of_75_000_segments_is_known_by_their_names(tmp_path: Path) -> None:
    lake = Lake(Archive(FolderStore(tmp_path), "net-1"))
    log = lake.table("orders")
    log.commit(TableVersion(), [], columns=COLUMNS)
    log.commit(log.version(), [_file(number) for number in range(MANY) if number != 500])
    version = Lake(lake.archive).table("orders").version()
    loaded = [
        BlockRange(number * BLOCKS + 1, (number + 1) * BLOCKS)
        for number in range(MANY * SEGMENTS_OF_A_FILE)
    ]
    assert len(loaded) == 75_000
    gap = slice(500 * SEGMENTS_OF_A_FILE, 501 * SEGMENTS_OF_A_FILE)
    assert version.lacks(loaded) == loaded[gap]


def test_a_log_is_tidied_after_a_week_and_readers_still_open_the_table(tmp_path: Path) -> None:
    log = new_log(FolderStore(tmp_path))
    folder = tmp_path / KEY / "_delta_log"
    commit(log, *range(1, 2 * COMMITS_OF_A_CHECKPOINT + 3))
    week_ago = time.time() - (KEPT_HOURS + 48) * 3600
    for path in folder.iterdir():
        os.utime(path, (week_ago, week_ago))
    commit(log, *range(2 * COMMITS_OF_A_CHECKPOINT + 3, 4 * COMMITS_OF_A_CHECKPOINT + 2))
    left = sorted(path.name for path in folder.iterdir())
    assert f"{COMMITS_OF_A_CHECKPOINT:020}.json" not in left
    wanted = [named(number).name for number in range(1, 4 * COMMITS_OF_A_CHECKPOINT + 2)]
    assert names(log) == wanted
    assert sorted(DeltaTable(tmp_path / KEY).file_uris(), key=Path) == sorted(
        (str(tmp_path / KEY / name) for name in wanted), key=Path
    )
    assert "_segment" in polars.scan_delta(str(tmp_path / KEY)).collect_schema()
