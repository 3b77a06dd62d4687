"""A quick check after a sound one looks at what is new; it finds whatever it found without."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from exporters.archive.shards import shard_stem
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.archive_kit import forge_shard, resealed, shard_file
from tests.cases import each_of
from tests.pipelines.kit import load, make_segment, site_settings
from tests.pipelines.place_kit import Place, empty, flip, placed
from tests.segments_kit import KIT_CHAIN, table_rows
from transforms.objects import ObjectInfo
from transforms.stores.folder_store import FolderStore
from transforms.verifying.verification import Kind, Verification

NUMBERS = (0, 1, 2000, 4000)
"""Segments of ten blocks: they lie in the first three shards."""
RECORD = "warehouse/sound.json"
OLD = 3 * 7 * 24 * 3600


def rows_of(number: int) -> dict[str, object]:
    """An order of a segment, so that its table is in the lake."""
    first = number * 10 + 1
    return {"orders": table_rows("orders", {"id": f"\\x{first:064x}"}, first=first)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Segments of three shards, published with the lake, and a ZIP that was replaced."""
    folder = tmp_path_factory.mktemp("model")
    settings = replace(site_settings(folder), lake=True)
    with pytest.MonkeyPatch.context() as patch:
        place = placed(settings, patch)
        for number in NUMBERS:
            make_segment(settings, number, tables=rows_of(number))
            load(Site(settings))
            place.run("publish")
        flip(place.chain / "orders" / f"{KIT_CHAIN}-orders-1-10.zip", 20)
        place.run(*shlex.split("publish --replace damaged --table orders --blocks 1-10"))
        assert place.verify()[1]["findings"] == []
    return folder


def copied(model: Path, folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """A copy of the model of which no check has a record."""
    shutil.copytree(model, folder)
    folder.joinpath(RECORD).unlink()
    settings = replace(site_settings(folder), lake=True)
    return placed(settings, patch)


@pytest.fixture
def place(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy for one test."""
    return copied(model, tmp_path / "copy", monkeypatch)


@pytest.fixture(scope="module")
def checked(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A copy that a quick check called sound, for tests that leave it as it was."""
    with pytest.MonkeyPatch.context() as patch:
        place = copied(model, tmp_path_factory.mktemp("checked") / "copy", patch)
        assert [segments_read(place) for _ in range(2)] == [4, 0]
        yield place


def segments_read(place: Place) -> int:
    """The segments of which a quick check reads the ZIPs, where nothing is wrong."""
    code, said = place.verify("--quick")
    assert (code, said["findings"]) == (0, [])
    return int(said["read"]["zips"]["read"]) // 15


def findings(place: Place) -> set[tuple[str, str, str]]:
    """What a quick check finds."""
    rows = place.verify("--quick")[1]["findings"]
    return {(row["problem"], row["where"], row["what"]) for row in rows}


# --- what is new ---------------------------------------------------------------------------------


def test_a_second_quick_check_reads_what_was_published_since(place: Place) -> None:
    assert [segments_read(place) for _ in range(2)] == [4, 0]
    make_segment(place.settings, 4001, tables=rows_of(4001))
    load(place.site)
    place.run("publish")
    read = place.verify("--quick")[1]["read"]
    assert read["zips"]["read"] == 2 * 15  # of the shard that has a new one
    assert read["volumes"]["read"] == 2  # the new one and the state
    assert 0 < read["lake_files"]["read"] < read["lake_files"]["expected"]
    assert segments_read(place) == 0


def test_it_says_what_it_relied_on_and_counts_all_that_there_is(checked: Place) -> None:
    all_read = checked.verify()[1]["read"]
    out = checked.run("verify", "--quick")[1]
    assert "0 of 60 ZIPs" in out
    read = checked.verify("--quick")[1]["read"]
    files = ("zips", "volumes", "lake_files", "bytes")
    assert [read[kind]["expected"] for kind in files] == [all_read[kind]["read"] for kind in files]
    assert {read[kind]["read"] for kind in files} == {0}


def test_a_full_check_leaves_a_record_and_relies_on_none(place: Place) -> None:
    assert place.verify()[0] == 0
    assert segments_read(place) == 0
    code, said = place.verify()
    assert code == 0
    assert all(count["read"] == count["expected"] for count in said["read"].values())


def asked_zips(place: Place, patch: pytest.MonkeyPatch) -> set[str]:
    """The ZIPs and hash files that a quick check of a sound site lists, or asks for by name."""
    keys: set[str] = set()

    def listed(store: FolderStore, prefix: str = "") -> Iterator[ObjectInfo]:
        for info in store_list(store, prefix):
            keys.add(info.key)
            yield info

    def named(store: FolderStore, key: str) -> Path:
        keys.add(key)
        return store_path(store, key)

    def described(store: FolderStore, key: str) -> ObjectInfo | None:
        keys.add(key)
        return store_head(store, key)

    # What else is asked for by name goes by its path.
    store_list, store_path, store_head = FolderStore.list, FolderStore.path, FolderStore.head
    with patch.context() as patched:
        patched.setattr(FolderStore, "list", listed)
        patched.setattr(FolderStore, "path", named)
        patched.setattr(FolderStore, "head", described)
        assert findings(place) == set()
    assert f"{KIT_CHAIN}/index.json" in keys
    assert f"{KIT_CHAIN}/{shard_file(Archive(FolderStore(place.archive), KIT_CHAIN))}" in keys
    return {key for key in keys if ".zip" in key}


def test_no_zip_of_a_part_that_is_as_before_is_listed_or_asked_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(asked_zips(place, monkeypatch)) == 4 * 15 * 2
    assert asked_zips(place, monkeypatch) == set()
    make_segment(place.settings, 4001, tables=rows_of(4001))
    load(place.site)
    place.run("publish")
    asked = {key for key in asked_zips(place, monkeypatch) if "-orders-" in key}
    ends = [f"{KIT_CHAIN}-orders-{blocks}.zip" for blocks in ("40001-40010", "40011-40020")]
    assert asked == {f"{KIT_CHAIN}/orders/{name}{end}" for name in ends for end in ("", ".sha256")}
    assert asked_zips(place, monkeypatch) == set()


def test_a_check_that_finds_something_relies_on_no_more_than_before(place: Place) -> None:
    path = place.chain / "index.html"
    data = path.read_bytes()
    flip(path)
    assert findings(place)  # the first one: it knows nothing
    path.write_bytes(data)
    assert [segments_read(place) for _ in range(2)] == [4, 0]
    flip(path)
    assert findings(place)
    path.write_bytes(data)
    assert segments_read(place) == 0


def test_what_a_whole_check_finds_a_quick_one_finds_until_it_is_mended(place: Place) -> None:
    assert place.verify()[0] == 0
    path = place.archive.parent / NAMED["a ZIP"]
    data = path.read_bytes()
    flip(path)
    assert findings(place) == set()
    assert place.verify()[0] == 5
    assert [{row[1] for row in findings(place)} for _ in range(2)] == [{str(path)}] * 2
    path.write_bytes(data)
    # The whole check proved all else, and nothing is read again because of one ZIP.
    assert [segments_read(place) for _ in range(2)] == [1, 0]


def test_a_stray_file_does_not_make_the_next_quick_check_read_everything(place: Place) -> None:
    stray = place.chain / "orders" / "notes.txt"
    stray.write_text("of a visitor")
    os.utime(stray, (OLD, OLD))
    code, said = place.verify()
    assert (code, [row["where"] for row in said["findings"]]) == (5, [str(stray)])
    assert said["last_whole_check"] is None
    assert segments_read(place) == 0


def test_what_a_check_of_the_archive_alone_proved_is_held_against_the_warehouse(
    place: Place,
) -> None:
    assert [*verify_site(place.site, archive_alone=True)] == []
    assert [segments_read(place) for _ in range(2)] == [4, 0]
    alone = Verification(is_quick=True)
    assert [*verify_site(place.site, alone, archive_alone=True)] == []
    assert alone.read[Kind.ZIPS] == 4 * 15


def test_it_says_when_the_last_whole_check_found_nothing_wrong(place: Place) -> None:
    unknown, nothing = "No such check is known here", "It last found nothing wrong on 20"
    assert place.verify("--quick")[1]["last_whole_check"] is None
    assert unknown in place.run("verify", "--quick")[1]
    at = place.verify()[1]["last_whole_check"]
    assert abs(datetime.now(UTC) - datetime.fromisoformat(at)) < timedelta(minutes=5)
    for _ in range(2):
        assert place.verify("--quick")[1]["last_whole_check"] == at
        said = place.run("verify", "--quick")[1]
        assert nothing in said
        assert "0 days ago" in said


@each_of("content", [None, b"", b"no document at all", b'{"about": '])
def test_without_a_sound_record_everything_is_read(checked: Place, content: bytes | None) -> None:
    record = checked.warehouse.parent / RECORD
    record.unlink()
    if content is not None:
        record.write_bytes(content)
    assert [segments_read(checked) for _ in range(2)] == [4, 0]


def test_the_record_of_another_archive_is_not_relied_on(place: Place, tmp_path: Path) -> None:
    assert segments_read(place) == 4
    place.archive.rename(tmp_path / "other")
    shutil.copytree(tmp_path / "other", place.archive)  # the same place, other files
    assert segments_read(place) == 4
    place.archive.rename(tmp_path / "third")
    assert place.verify("--quick")[0] == 5


# --- damage --------------------------------------------------------------------------------------


def _changed(path: Path, change: Callable[[bytes], bytes]) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(change(data))


def _silently(path: Path) -> None:
    """Flip a bit as a disk does: nothing else of the file changes."""
    stats, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(stats.st_atime_ns, stats.st_mtime_ns))


def _lying_shard(place: Place, *, is_index_right: bool) -> None:
    """Leave a ZIP out of a shard, of which the index may know."""
    archive = Archive(FolderStore(place.archive), KIT_CHAIN)
    shard = archive.shard(1)
    shorter = replace(shard, entries=shard.entries[1:])
    if is_index_right:
        forge_shard(archive, shorter)
    else:
        _changed(place.chain / shard_file(archive, 1), lambda _: shorter.to_bytes())


def _lying_index(place: Place) -> None:
    """Let the index have other rows of a shard, without a seam."""

    def change(data: bytes) -> bytes:
        lines = data.decode().splitlines(keepends=True)
        (line,) = (line for line in lines if line.startswith(f'{{"path":"{shard_stem(1)}.'))
        return resealed(data.replace(line.encode(), line.replace('"rows":1', '"rows":9').encode()))

    _changed(place.chain / "index.json", change)


def _lying_head(place: Place) -> None:
    """Let the index have another sum over its shards, without a seam."""

    def change(data: bytes) -> bytes:
        start = data.index(b'"rows":')
        assert start < data.index(b'"shards":')
        return resealed(data[:start] + data[start:].replace(b'"rows":', b'"rows":9', 1))

    _changed(place.chain / "index.json", change)


def _older_lake(place: Place) -> None:
    """Take the newest commit of a table of the lake away, of the log and of its checkpoints."""
    log = place.lake / "orders" / "_delta_log"
    sorted(log.glob("*.json"))[-1].unlink()


ZIP = f"orders/{KIT_CHAIN}-orders-20001-20010.zip"
NAMED: dict[str, str] = {
    "a ZIP": f"archive/{KIT_CHAIN}/{ZIP}",
    "a hash file": f"archive/{KIT_CHAIN}/{ZIP}.sha256",
    "a shard": f"archive/{KIT_CHAIN}/index/000020000.*.json",
    "a shard's hashes": f"archive/{KIT_CHAIN}/index/000020000.sha256",
    "a shard's page": f"archive/{KIT_CHAIN}/index/000020000.html",
    "the index": f"archive/{KIT_CHAIN}/index.json",
    "the chain's page": f"archive/{KIT_CHAIN}/index.html",
    "the newest": f"archive/{KIT_CHAIN}/latest.json",
    "the hashes": f"archive/{KIT_CHAIN}/SHA256SUMS",
    "the revisions": f"archive/{KIT_CHAIN}/revisions.json",
    "the chains": "archive/chains.json",
    "a log of the lake": f"archive/{KIT_CHAIN}/lake/orders/_delta_log/*.json",
    "a file of the lake": f"archive/{KIT_CHAIN}/lake/orders/*.parquet",
    "manifests of the lake": f"archive/{KIT_CHAIN}/lake/manifests/*.parquet",
    "a data file": "warehouse/data/orders/*.parquet",
    "a manifest": "warehouse/manifests/*",
    "a state": "warehouse/state/*",
    "a snapshot": "warehouse/log/*.json",
}
LEFT_OUT = ("a ZIP", "a hash file")
"""What a quick check does not look at where the part of the archive is as before."""
DOCUMENTS = {
    *("a shard", "a shard's hashes", "a shard's page", "the index"),
    *("the chain's page", "the newest", "the hashes", "the revisions", "the chains"),
    *("a log of the lake", "a manifest", "a snapshot"),
}
OF_SHARDS = {"a shard", "a shard's hashes", "a shard's page"}
"""What a quick check does not read again while it is listed as before."""


def damages() -> Iterator[tuple[str, Callable[[Place], object]]]:
    """Each damage that a quick check finds without a sample: what it is, and how it is done."""

    def on(name: str, change: Callable[[Path], object]) -> Callable[[Place], object]:
        return lambda place: change(sorted(place.archive.parent.glob(NAMED[name]))[-1])

    for name in [name for name in NAMED if name not in LEFT_OUT]:
        yield f"{name} is gone", on(name, Path.unlink)
        if name not in DOCUMENTS:
            longer = partial(_changed, change=lambda data: data + b"\n")
            yield f"{name} is longer", on(name, longer)
    for name in sorted(OF_SHARDS):
        yield f"{name} is another file with a flipped bit", on(name, flip)
    for name in sorted(DOCUMENTS - OF_SHARDS):
        yield f"{name} has a flipped bit", on(name, _silently)
    yield "a shard lies", lambda place: _lying_shard(place, is_index_right=False)
    yield "a shard lies and the index too", lambda place: _lying_shard(place, is_index_right=True)
    yield "the index lies", _lying_index
    yield "the index's sums lie", _lying_head
    yield "the lake is older", _older_lake


@contextmanager
def undone(place: Place, backup: Path) -> Iterator[None]:
    """Let a site be damaged, and give it back the very files that it had."""
    root = place.archive.parent
    folders = ["archive", *(f"warehouse/{name}" for name in ("log", "manifests", "data", "state"))]
    for folder in folders:
        shutil.copytree(root / folder, backup / folder, copy_function=os.link)
    try:
        yield
    finally:
        for folder in folders:
            shutil.rmtree(root / folder)
            shutil.copytree(backup / folder, root / folder, copy_function=os.link)
        shutil.rmtree(backup)


@each_of("name, damage", damages())
def test_a_damage_is_found_after_a_sound_check_as_without_its_record(
    checked: Place, name: str, damage: Callable[[Place], object], tmp_path: Path
) -> None:
    record = checked.warehouse.parent / RECORD
    kept = record.read_bytes()
    with undone(checked, tmp_path / "backup"):
        silent = name.endswith(" has a flipped bit")
        damage(checked)
        after = findings(checked)
        record.unlink()
        without = findings(checked)
        record.write_bytes(kept)
        if silent:  # the backup is the very file
            damage(checked)
    places = [{row[:2] for row in rows} for rows in (after, without)]
    assert places[0] == places[1] != set(), name


_EACH_TIME = ("a data file is gone", "a manifest has a flipped bit", "a state is longer")


@each_of("name", [*_EACH_TIME, "a file of the lake is gone", "a shard lies", "the index lies"])
def test_a_damage_is_found_by_each_quick_check_until_it_is_mended(
    checked: Place, name: str, tmp_path: Path
) -> None:
    record = checked.warehouse.parent / RECORD
    kept = record.read_bytes()
    with undone(checked, tmp_path / "backup"):
        dict(damages())[name](checked)
        several = [{row[:2] for row in findings(checked)} for _ in range(3)]
        if name.endswith(" has a flipped bit"):  # the backup is the very file
            dict(damages())[name](checked)
    record.write_bytes(kept)
    assert several[0] == several[1] == several[2] != set()


@each_of("name", LEFT_OUT)
@each_of("damage", [Path.unlink, flip, empty])
def test_what_a_quick_check_does_not_look_at_a_whole_one_finds(
    checked: Place, name: str, damage: Callable[[Path], object], tmp_path: Path
) -> None:
    record = checked.warehouse.parent / RECORD
    kept = record.read_bytes()
    path = checked.archive.parent / NAMED[name]
    with undone(checked, tmp_path / "backup"):
        whole = path.read_bytes()
        path.unlink()
        path.write_bytes(whole)  # the backup is the very file
        damage(path)
        code, out = checked.run("verify", "--quick")
        assert (code, f"0 of {len(NUMBERS) * 15} ZIPs" in out) == (0, True)
        assert "ZIPs and their hash files were not looked at" in out
        assert {row["where"] for row in checked.verify()[1]["findings"]} == {str(path)}
    record.write_bytes(kept)


def test_a_warehouse_that_lost_a_volume_is_found(place: Place) -> None:
    assert segments_read(place) == 4
    log = place.site.warehouse.backing.log
    (*others, volume) = log.begin().history
    log.commit(lambda newest: newest.with_volumes([*newest.states, *others]))
    what = f"blocks {volume.blocks} are published, and the warehouse does not hold them"
    assert what in {row[2] for row in findings(place)}
