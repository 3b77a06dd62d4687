"""SIGKILL at random moments among publishing to a lake, merging, correcting and sweeping; and
races of publishers. A few in the gate, hundreds by `make crash-test`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from exporters.archive.lake_place import MANIFESTS
from exporters.lake.log.table_version import parsed_name
from pipelines.site.publication_state import lacking_segments, site_lake
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.end_to_end.lake_worker import (
    WITH_ROWS,
    Place,
    publish_current_state,
    publish_in_turn,
    publish_some,
    work,
)
from tests.exporters.lake.lake_kit import history_tables
from tests.segments_kit import table_rows
from tests.transforms.warehouse_kit import history_segment, load_folder, state_segment
from tests.weed_kit import weed_server
from transforms.block_range import BlockRange
from transforms.stores.store import content_sha256
from transforms.verifying.verification import Verification

SEGMENTS, FEW_SEGMENTS = 12, 4
BLOCKS = 2
WRITERS = 4
ROUND_KILLS = 30
SEED = 20261122
_SPAWN = multiprocessing.get_context("forkserver")
_SPAWN.set_forkserver_preload(["tests.end_to_end.lake_worker", "transforms.stores.s3"])


@pytest.fixture
def warehouse(tmp_path: Path, kills: int) -> Path:
    """A warehouse that has all that is to be published."""
    count = SEGMENTS if kills >= ROUND_KILLS else FEW_SEGMENTS
    for number in range(count):
        _segment(tmp_path / "source", number, newest=number == count - 1)
        assert load_folder(tmp_path / "warehouse", tmp_path / "source").failures == []
    return tmp_path / "warehouse"


def _segment(source: Path, number: int, *, newest: bool) -> None:
    first = number * BLOCKS + 1
    orders = table_rows("orders", *[{"price": str(number)}] * (number % 4), first=first)
    make = state_segment if newest else history_segment
    make(source, first=first, last=first + BLOCKS - 1, tables={"orders": orders})


@pytest.fixture(params=["folder", pytest.param("seaweedfs", marks=pytest.mark.crash)])
def archives(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Iterator[str]]:
    """Where archives may be: new addresses in one kind of store."""
    if request.param == "folder":
        yield map(_folder, (tmp_path / f"archive-{number}" for number in range(10_000)))
        return
    with weed_server(tmp_path / "server") as server:
        bucket = server.bucket()
        yield (f"s3://{bucket}/some/archive-{number}" for number in range(10_000))


def _folder(path: Path) -> str:
    path.mkdir()
    return str(path)


def _place(warehouse: Path, archive: str, home: Path) -> Place:
    home.mkdir(exist_ok=True)
    reached = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    return Place(warehouse, archive, home, reached)


def _assert_no_errors(place: Place) -> None:
    for path in place.errors.iterdir():
        pytest.fail(path.read_text())


def _started(place: Place, dice: random.Random, *, alone: bool) -> BaseProcess:
    arguments = {"alone": alone}
    process = _SPAWN.Process(
        target=work, args=(place, dice.getrandbits(32)), kwargs=arguments, daemon=True
    )
    process.start()
    return process


def _killed(place: Place, kills: int, dice: random.Random, workers: int) -> None:
    """Kill one of some processes again and again, and start the next one."""
    alone = workers == 1
    running = [_started(place, dice, alone=alone) for _ in range(workers)]
    try:
        for _ in range(kills):
            time.sleep(dice.uniform(0.05, 1.2))
            victim = dice.randrange(len(running))
            running[victim].kill()
            running[victim].join()
            _assert_no_errors(place)
            _assert_never_twice(place.site())
            running[victim] = _started(place, dice, alone=alone)
    finally:
        for process in running:
            process.kill()
            process.join()
    _assert_no_errors(place)


def _assert_never_twice(site: Site) -> None:
    """What a reader finds at any moment: no blocks twice, manifests only of what is there."""
    lake = site_lake(site)
    vouched = [file.blocks for file in lake.table(MANIFESTS).files]
    for table in WITH_ROWS:
        version = lake.table(table).version()
        segments = [blocks for blocks in site.loaded_catalog().blocks if _has_rows(table, blocks)]
        expected = [segment for segment in segments if any(map(segment.overlaps, vouched))]
        # An overlap of files raises.
        assert version.lacks(expected) == []


def _has_rows(table: str, segment: BlockRange) -> bool:
    return table == "blocks" or segment.first // BLOCKS % 4 > 0


def _finish(place: Place, dice: random.Random) -> Counter[str]:
    """Put right what is damaged, publish what lacks, sweep; then all is there, once, and exact."""
    site = place.site()
    lake, loaded = site_lake(site), site.loaded_catalog().blocks
    tables = history_tables(site)
    assert not tables.follow()
    publish_current_state(site, dice)
    while lacking := lacking_segments(site):
        publish_some(site, lacking[: dice.randint(1, 20)])
    lake.sweep(kept_hours=0)
    _assert_exact(site, loaded)
    _assert_tidy(site)
    versions = [lake.table(table).version() for table in WITH_ROWS]
    count = sum(version.number for version in versions)
    return Counter({"versions": count})


def _assert_exact(site: Site, loaded: tuple[BlockRange, ...]) -> None:
    """Every table renders every segment to what its receipt says, and has no other row."""
    assert lacking_segments(site) == []
    wrong = verify_site(site, Verification())  # nobody publishes ZIPs here
    assert [str(one) for one in wrong if "/lake/" in one.place] == []
    hull = BlockRange(loaded[0].first, loaded[-1].last)
    tables = history_tables(site)
    receipts = [*tables.catalog.receipts(hull)]
    for table in WITH_ROWS:
        version = site_lake(site).table(table).version()
        rows = sum(receipt.rows for receipt in receipts if receipt.table == table)
        assert sum(file.rows for file in version.files) == rows


def _assert_tidy(site: Site) -> None:
    """The lake contains its page, logs and the files that these name, each with its hash.

    No row is in two of them.
    """
    lake = site_lake(site)
    folder = lake.archive.key("lake/")
    store, copy = site.store, site.scratch() / "copy.parquet"
    keys = {info.key.removeprefix(folder) for info in store.list(folder)}
    named = {
        f"{table}/{file.name}": file.rows
        for table in {key.partition("/")[0] for key in keys}
        for file in lake.table(table).files
    }
    assert {key for key in keys if "/_delta_log/" not in key} == {"index.html", *named}
    assert [key for key in keys if ".tmp" in key or "#" in key] == []
    for name, rows in named.items():
        store.fetch(folder + name, copy)
        parsed = parsed_name(name.partition("/")[2])
        assert parsed is not None
        assert parsed[1] == content_sha256(copy)[:16]
        assert pq.ParquetFile(copy).metadata.num_rows == rows
    copy.unlink()


def _report(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}")


@pytest.mark.parametrize(
    "workers", [pytest.param(1, marks=pytest.mark.crash, id="alone"), pytest.param(2, id="two")]
)
def test_kills_leave_nothing_behind_and_publish_nothing_twice(
    tmp_path: Path,
    warehouse: Path,
    archives: Iterator[str],
    kills: int,
    workers: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dice = random.Random(SEED)
    total: Counter[str] = Counter()
    left = kills // 2
    while left > 0:
        now = min(left, ROUND_KILLS)
        place = _place(warehouse, next(archives), tmp_path / f"errors-{left}")
        _killed(place, now, dice, workers)
        total += _finish(place, dice) + Counter(rounds=1, kills=now)
        left -= now
    _report(capsys, ", ".join(f"{count} {what}" for what, count in sorted(total.items())))


@pytest.mark.crash
def test_of_writers_with_batches_that_overlap_every_segment_is_there_once(
    tmp_path: Path,
    warehouse: Path,
    archives: Iterator[str],
    kills: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dice = random.Random(SEED)
    commits = 5 if kills >= ROUND_KILLS else 1
    place = _place(warehouse, next(archives), tmp_path / "errors")
    processes = [
        _SPAWN.Process(
            target=publish_in_turn,
            args=(place, dice.getrandbits(32), commits),
            daemon=True,
        )
        for _ in range(WRITERS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    _assert_no_errors(place)
    _assert_never_twice(place.site())
    _report(capsys, str(_finish(place, dice)))
