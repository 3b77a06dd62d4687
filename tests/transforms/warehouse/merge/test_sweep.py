"""What the sweep deletes, and what it never does."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.transforms.warehouse_kit import volume_files
from transforms.block_range import BlockRange
from transforms.objects import ObjectInfo, StoredFile
from transforms.segments.quarantine import QuarantinedFile, copy_key
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.unnamed_volumes import unnamed_volumes
from transforms.warehouse.log.log import snapshot_key
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.data_files import data_key
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.merge.sweep import sweep
from transforms.warehouse.warehouse_address import open_warehouse

HOUR = 3600.0
GRACE = 24 * HOUR
ORPHAN = 7 * 24 * HOUR


class Site:
    """A warehouse in a folder whose volumes are a few bytes each: sweeping never reads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.backing = Backing(FolderStore(folder / "warehouse"), folder / "cache")
        self.backing.log.begin()

    def put(self, key: str, *, days: float = 0) -> StoredFile:
        """Write an object as if it had been there for some days."""
        data = key.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        store = self.backing.store
        store.put_if_absent(key, data, content_type="", sha256=sha256, immutable=True)
        self.age(key, days)
        return StoredFile(key, len(data), sha256)

    def age(self, key: str, days: float) -> None:
        """Let an object be some days old."""
        then = time.time() - days * 24 * HOUR
        os.utime(self.path(key), (then, then))

    def path(self, key: str) -> Path:
        """Where an object lies."""
        path = self.backing.store.path(key)
        assert path is not None
        return path

    def volume(self, first: int, last: int, mark: str = "a", *, days: float = 0) -> Volume:
        """A run of segments: a manifest, a data file and an index file, all stored."""
        blocks = BlockRange(first, last)
        file = self.put(f"manifests/{blocks.key}.{mark}.parquet", days=days)
        data = self.put(f"data/trades/{blocks.key}.{mark}.parquet", days=days)
        data = replace(data, key=data_key("trades", blocks, data.sha256))
        self.path(f"data/trades/{blocks.key}.{mark}.parquet").rename(self.path(data.key))
        index = self.put(f"index/{blocks.key}.{mark}.duckdb", days=days)
        return Volume("history", file, blocks, 1, 1, {}, {"trades": data}, index)

    def name(self, *volumes: Volume) -> Snapshot:
        """Commit that exactly these volumes are the history."""
        return self.backing.log.commit(lambda newest: newest.with_volumes(volumes))

    def age_dropped(self, days: float) -> None:
        """Let everything that is dropped have been so for some days."""
        then = time.time() - days * 24 * HOUR
        newest = self.backing.log.begin()
        dropped = dict.fromkeys(newest.dropped, then)
        number = newest.number + 1
        assert self.backing.log.create(replace(newest, number=number, dropped=dropped))

    def left(self) -> set[str]:
        """Everything that is there but the snapshots."""
        return {info.key for info in self.backing.store.list()} - {
            snapshot_key(number) for number in self.backing.log.numbers()
        }

    def sweep(self) -> set[str]:
        """Sweep by the usual rules; says what went beside snapshots."""
        before = self.left()
        gone = sweep(self.backing, GRACE, ORPHAN)
        assert before - self.left() <= set(gone)
        return before - self.left()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def keys(*volumes: Volume) -> set[str]:
    return {file.key for volume in volumes for file in volume_files(volume)}


def merged(site: Site) -> tuple[list[Volume], Volume]:
    """Two volumes that one took the place of."""
    old = [site.volume(1, 10), site.volume(11, 20)]
    site.name(*old)
    new = site.volume(1, 20)
    site.name(new)
    return old, new


def test_what_was_dropped_within_the_grace_period_stays(site: Site) -> None:
    old, new = merged(site)
    site.age_dropped(0.99)
    assert site.sweep() == set()
    assert site.left() == keys(*old, new)


def shift_clock(patch: pytest.MonkeyPatch, days: float) -> None:
    """Let what is asked for the time be some days wrong; files keep their right times."""
    real = time.time
    patch.setattr(time, "time", lambda: real() + days * 24 * HOUR)


@pytest.mark.parametrize("days", [-30, 30])
@pytest.mark.parametrize("whose", ["the committer's", "the sweeper's"])
def test_a_machine_whose_clock_is_wrong_costs_no_reader_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str, days: float
) -> None:
    with monkeypatch.context() as patch:
        if whose == "the committer's":
            shift_clock(patch, days)
        site = Site(tmp_path)
        old, new = merged(site)
    orphan = site.put("index/1-20.b.duckdb")
    with monkeypatch.context() as patch:
        if whose == "the sweeper's":
            shift_clock(patch, days)
        assert site.sweep() == set()
    assert site.left() == {*keys(*old, new), orphan.key}


def test_what_was_dropped_and_is_covered_goes_and_is_forgotten(site: Site) -> None:
    old, new = merged(site)
    site.age_dropped(1.01)
    assert site.sweep() == keys(*old)
    snapshot = site.backing.log.begin()
    assert snapshot.dropped == {}
    assert snapshot.named_keys() == keys(new)
    assert site.sweep() == set()
    assert site.backing.log.begin().number == snapshot.number


@pytest.mark.parametrize("cover", [(1, 9), (2, 20), (1, 8, 10, 20)])
def test_what_was_dropped_and_is_not_covered_stays(site: Site, cover: tuple[int, ...]) -> None:
    old = site.volume(1, 10)
    site.name(old)
    pairs = zip(cover[::2], cover[1::2], strict=True)
    site.name(*(site.volume(first, last, "b") for first, last in pairs))
    site.age_dropped(1000)
    assert site.sweep() == set()
    assert site.backing.log.begin().dropped.keys() == keys(old)


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_volume_that_is_lost_covers_nothing(site: Site, damage: str) -> None:
    old, new = merged(site)
    site.age_dropped(1000)
    path = site.backing.store.path(new.key)
    assert path is not None
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"")
    assert site.sweep() == set()
    assert keys(*old) <= site.left()


def test_neighbours_cover_together(site: Site) -> None:
    old = site.volume(1, 20)
    site.name(old)
    site.name(site.volume(1, 10), site.volume(11, 15), site.volume(16, 30))
    site.age_dropped(2)
    assert site.sweep() == keys(old)


def test_young_orphans_stay_and_old_ones_that_are_covered_go(site: Site) -> None:
    named = site.volume(1, 20)
    site.name(named)
    young = site.volume(1, 10, "young", days=6.9)
    site.volume(21, 30, "alone", days=70)
    site.volume(11, 30, "partly", days=70)
    old = site.volume(11, 20, "old", days=7.1)
    state = site.put("state/000000001-000000010.x.duckdb", days=7.1)
    captures = site.put(f"spam/{'0' * 64}.duckdb", days=7.1)
    copy = site.put(copy_key("folder/x.zip", "1" * 64), days=7.1)
    left = site.left()
    gone = keys(old) | {state.key, captures.key, copy.key}
    assert site.sweep() == gone
    assert site.left() == left - gone
    assert keys(young) <= site.left()


def test_what_is_not_ours_stays_however_old(site: Site) -> None:
    site.name(site.volume(1, 20))
    foreign = ["data/notes.txt", "index/my-1-10.duckdb", "spam/mine.duckdb", "other/1-10.x"]
    foreign += ["quarantine/readme.txt", "quarantine/x/y.zip", "README", "log/notes.txt"]
    foreign += ["manifests/5-3.mine.parquet", "data/trades/5-3.mine.parquet"]  # these are no blocks
    for key in foreign:
        site.put(key, days=1000)
    assert unnamed_volumes(site.backing, site.backing.log.newest()) == []
    assert site.sweep() == set()


def test_captures_and_copies_of_refused_files_go_after_the_grace_period(site: Site) -> None:
    copies = [site.put(copy_key("x.zip", number * 64)) for number in "12"]
    files = [site.put(f"spam/{number * 64}.duckdb") for number in "34"]
    refused = QuarantinedFile(ObjectInfo("x.zip", 1, ""), "bad", copies[0])
    log = site.backing.log
    log.commit(lambda newest: replace(newest.quarantined([refused], ()), captures=files[0]))
    again = replace(refused, copy=copies[1])
    log.commit(lambda newest: replace(newest.quarantined([again], ()), captures=files[1]))
    assert site.sweep() == set()
    site.age_dropped(1.01)
    assert site.sweep() == {copies[0].key, files[0].key}


def test_a_dropped_file_that_is_named_again_stays(site: Site) -> None:
    old, new = merged(site)
    site.age_dropped(2)
    site.name(*old)
    site.age_dropped(2)
    assert site.sweep() == keys(new)
    assert site.left() == keys(*old)


def aged_log(site: Site, ages: Iterable[float]) -> None:
    """More snapshots, made so many days ago."""
    newest = site.backing.log.begin()
    for days in ages:
        newest = replace(newest, number=newest.number + 1)
        assert site.backing.log.create(newest)
        path = site.backing.store.path(snapshot_key(newest.number))
        assert path is not None
        os.utime(path, (time.time() - days * 24 * HOUR,) * 2)


@pytest.mark.parametrize(
    ("ages", "left"),
    [
        ((), [1]),
        ((0.9, 0.5), [1, 2, 3]),
        ((3, 0.5), [2, 3]),
        ((3, 2, 1.5, 0.5, 0.1), [4, 5, 6]),  # the fourth was the newest one a day ago
        ((3, 2, 1.5), [4]),
    ],
)
def test_old_snapshots_go_but_never_the_newest(
    site: Site, ages: tuple[float, ...], left: list[int]
) -> None:
    site.backing.log.begin()
    aged_log(site, ages)
    newest = site.backing.log.begin()
    assert site.sweep() == set()
    assert site.backing.log.numbers() == left
    assert site.backing.log.begin() == newest


class _Dying(FolderStore):
    """A store whose process dies after some deletions."""

    def __init__(self, root: Path, deletions: int) -> None:
        super().__init__(root)
        self._left = deletions

    def delete(self, key: str) -> None:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        super().delete(key)


@pytest.mark.parametrize("deletions", range(10))
def test_a_sweep_that_died_is_finished_by_the_next_one(site: Site, deletions: int) -> None:
    old, new = merged(site)
    site.volume(1, 10, "orphan", days=8)
    aged_log(site, (3, 2))
    site.age_dropped(2)  # makes snapshot 6
    root = site.folder / "warehouse"
    dying = Backing(_Dying(root, deletions), site.folder / "other")
    with pytest.raises(KeyboardInterrupt):
        sweep(dying, GRACE, ORPHAN)
    newest = site.backing.log.begin()
    assert newest.number == 6
    numbers = site.backing.log.numbers()
    assert numbers == list(range(numbers[0], 7))
    assert newest.named_keys() <= site.left()

    site.sweep()
    assert site.left() == keys(new)
    assert keys(*old).isdisjoint(site.left())
    assert site.backing.log.numbers() == [5, 6, 7]
    assert site.backing.log.begin().dropped == {}
    assert site.sweep() == set()


def test_of_an_empty_place_nothing_is_swept(tmp_path: Path) -> None:
    assert open_warehouse(str(tmp_path / "warehouse"), tmp_path / "cache").sweep(0, 0) == []
    assert not (tmp_path / "warehouse").exists()
