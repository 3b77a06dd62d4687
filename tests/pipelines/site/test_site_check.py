"""`strata verify`: what it counts, what it finds, and whether following its remedies helps."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.archive_kit import resealed, shard_file
from tests.pipelines.kit import load, make_segment, site_settings
from tests.pipelines.place_kit import Place, empty, flip, mended, placed, remedied
from tests.s3_kit import bucket_server
from tests.segments_kit import KIT_CHAIN, build_segment
from transforms.objects import StoredFile
from transforms.stores.folder_store import FolderStore
from transforms.verifying.findings import Problem
from transforms.verifying.verification import Verification
from transforms.warehouse.log.snapshot import Snapshot

ZIPS = 3 * 15  # of three segments
FLIPS = 4
"""Pairs of bits that flip; thousands do in `make fault-test`."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments, published, with a refused file, captures, and a revisions."""
    folder = tmp_path_factory.mktemp("model")
    settings = site_settings(folder)
    for number in range(3):
        make_segment(settings, number)
        if number != 1:  # the last two become one volume
            load(Site(settings))
    Path(settings.source, f"{KIT_CHAIN}-1-31-40.zip").write_bytes(b"no ZIP")
    spam = Path(settings.source, "spam")
    spam.mkdir()
    (spam / f"{KIT_CHAIN}-10.ndjson").write_text('{"none": 1}\n')
    with pytest.MonkeyPatch.context() as patch:
        place = placed(settings, patch)
        for command in ("load", "publish"):
            place.run(command)
        zip_file = place.chain / "orders" / f"{KIT_CHAIN}-orders-1-10.zip"
        flip(zip_file, 20)
        place.run(*shlex.split("publish --replace damaged --table orders --blocks 1-10"))
        assert place.verify()[1]["findings"] == []
    return folder


@pytest.fixture
def place(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the model, in a folder that is not the present one."""
    folder = tmp_path / "copy"
    folder.mkdir()
    settings = site_settings(folder / "x")
    shutil.rmtree(folder / "x")
    shutil.copytree(model, folder / "x")
    monkeypatch.chdir(tmp_path)
    return placed(settings, monkeypatch)


def test_segments_that_were_cut_otherwise_are_told_apart(model: Path, tmp_path: Path) -> None:
    whole = site_settings(tmp_path)
    build_segment(Path(whole.source), chain_id=KIT_CHAIN, first=1, last=20)
    load(Site(whole))
    (archive,) = model.glob("archive")
    both = Site(replace(whole, archive=str(archive), lake=False))
    findings = [f for f in verify_site(both, Verification()) if f.problem is Problem.DISAGREEMENT]
    assert len(findings) == 2 * 15
    assert {f.what for f in findings} == {
        "the warehouse has its blocks, and no segment of just these"
    }


# --- what was read -------------------------------------------------------------------------------


def test_all_that_there_is_was_read_and_is_counted(place: Place) -> None:
    code, said = place.verify()
    assert (code, said["findings"]) == (0, [])
    read = said["read"]
    # The lake has tests of its own: `test_verifying_lake`.
    there = {name: one for name, one in read.items() if not name.startswith("lake_")}
    assert all(one["read"] == one["expected"] > 0 for one in there.values())
    assert read["zips"]["read"] == ZIPS
    catalog = place.site.loaded_catalog()
    assert read["volumes"]["read"] == len(catalog.snapshot.volumes)
    volumes = sum(volume.size for volume in catalog.snapshot.volumes)
    zips = sum(path.stat().st_size for path in place.chain.glob("*/*.zip"))
    assert read["bytes"]["read"] == volumes + zips


def test_a_person_sees_what_was_read_of_how_much(place: Place) -> None:
    code, out = place.run("verify")
    assert code == 0
    assert "Everything matches" in out
    assert ["ZIPs", str(ZIPS), str(ZIPS)] in [line.split() for line in out.splitlines()]


def test_a_quick_check_says_what_it_looked_at_and_no_more(place: Place) -> None:
    code, said = place.verify("--quick")
    assert (code, said["quick"]) == (0, True)
    assert said["read"]["zips"] == {"read": ZIPS, "expected": ZIPS}
    out = place.run("verify", "--quick")[1]
    assert f"0 of {ZIPS} ZIPs" in out
    assert "Everything" not in out


def test_a_first_quick_check_misses_no_file(place: Place) -> None:
    gone = [
        place.chain / "orders" / f"{KIT_CHAIN}-orders-1-10.zip",
        place.chain / "trades" / f"{KIT_CHAIN}-trades-1-10.zip.sha256",
        FILES["a data file"](place),
    ]
    for path in gone:
        path.unlink()
    found = place.verify("--quick")[1]["findings"]
    assert {row["where"] for row in found} == {str(path) for path in gone}


# --- nothing to read -----------------------------------------------------------------------------


def _nothing(place: Place, *options: str) -> list[str]:
    code, said = place.verify(*options)
    assert code == 5
    return [row["where"] for row in said["findings"] if row["problem"] == "missing"]


def test_a_mistyped_place_is_a_finding_and_is_not_made(place: Place, tmp_path: Path) -> None:
    typo = str(tmp_path / "typo")
    assert _nothing(place, "--archive", typo) == [typo]
    assert _nothing(place, "--warehouse", typo) == [typo]
    assert _nothing(place, "--warehouse", typo, "--archive", typo) == [typo, typo]
    assert not Path(typo).exists()


def test_a_bucket_that_is_not_there_is_a_finding(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bucket_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        for option in ("--warehouse", "--archive"):
            assert _nothing(place, option, "s3://no-such-bucket/x") == ["s3://no-such-bucket/x/"]


def test_a_folder_that_is_not_mounted_is_a_finding(place: Place, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert _nothing(place, "--archive", str(empty)) == [str(empty)]
    assert _nothing(place, "--warehouse", str(empty)) == [str(empty)]


def test_the_chains_folder_may_not_be_gone(place: Place) -> None:
    shutil.rmtree(place.chain)
    code, said = place.verify()
    assert code == 5
    assert said["read"]["zips"] == {"read": 0, "expected": 0}
    assert {row["problem"] for row in said["findings"]} == {"missing", "not published"}
    mended(place, place.chain)


def test_the_archive_of_another_chain_is_the_wrong_place(place: Place, tmp_path: Path) -> None:
    other = site_settings(tmp_path / "other")
    make_segment(other, 0, chain_id="other-chain")
    load(Site(other))
    code, said = place.verify("--warehouse", other.warehouse)
    assert code == 5
    assert any("nothing of chain other-chain is here" in row["what"] for row in said["findings"])


def test_the_archive_alone_is_checked_whatever_the_warehouse_is(
    place: Place, tmp_path: Path
) -> None:
    flip(place.chain / "orders" / f"{KIT_CHAIN}-orders-1-10.zip")
    said = place.verify("--warehouse", str(tmp_path / "typo"))[1]
    assert said["read"]["zips"]["read"] == ZIPS
    assert "damaged" in {row["problem"] for row in said["findings"]}


# --- damage and remedies -------------------------------------------------------------------------


def _zip(name: str) -> Callable[[Place], Path]:
    return lambda place: place.chain / name.partition("-")[0] / f"{KIT_CHAIN}-{name}.zip"


def _archived(path: str) -> Callable[[Place], Path]:
    return lambda place: next(iter(place.chain.glob(path)), place.chain / path)


def _named(choose: Callable[[Snapshot], StoredFile | None]) -> Callable[[Place], Path]:
    def path(place: Place) -> Path:
        snapshot = place.site.warehouse.snapshot()
        file = choose(snapshot)
        assert file is not None
        return place.warehouse / file.key

    return path


def _newest_snapshot(place: Place) -> Path:
    return sorted((place.warehouse / "log").glob("*.json"))[-1]


FILES: dict[str, Callable[[Place], Path]] = {
    "a ZIP": _zip("orders-11-20"),
    "a hash file": _archived(f"orders/{KIT_CHAIN}-orders-1-10.zip.sha256"),
    "a shard": _archived("index/000000000.*.json"),
    "a shard's hashes": _archived("index/000000000.sha256"),
    "a shard's page": _archived("index/000000000.html"),
    "the index": _archived("index.json"),
    "the chain's page": _archived("index.html"),
    "the newest": _archived("latest.json"),
    "the days": _archived("conditions.json"),
    "the hashes": _archived("SHA256SUMS"),
    "the list of chains": lambda place: place.archive / "chains.json",
    "the page of chains": lambda place: place.archive / "index.html",
    # First of the warehouse: the one before it names what is damaged later.
    "the newest snapshot": _newest_snapshot,
    "a manifest": _named(lambda snapshot: snapshot.history[0].file),
    "a data file": _named(lambda snapshot: snapshot.history[0].data["blocks"]),
    "an index file": _named(lambda snapshot: snapshot.history[0].index),
    "a state": _named(lambda snapshot: snapshot.states[0].database),
    "a state's manifest": _named(lambda snapshot: snapshot.states[0].file),
    "the captures": _named(lambda snapshot: snapshot.captures),
    "a refused file": _named(lambda snapshot: snapshot.quarantine[0].copy),
}
DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "flipped": flip,
    "empty": empty,
}


TOGETHER = (
    *("a shard's hashes", "a shard's page", "the chain's page"),
    *("the newest", "the days"),
)
"""Of these the remedy is one command: where it mends them all, it mends each."""

EMPTIED = (
    "a ZIP",
    "a hash file",
    "the index",
    "a data file",
    "a manifest",
)
OF_THE_WAREHOUSE = (
    *("a manifest", "a data file", "an index file", "a state", "a state's manifest"),
    *("the captures", "a refused file", "the newest snapshot"),
)
LISTS = ("the hashes", "the list of chains", "the page of chains")
"""What is written after all that they follow from, and compared once that is sound."""


def _damaged(damage: str, *, in_warehouse: bool) -> list[str]:
    return [
        file
        for file in FILES
        if (file in OF_THE_WAREHOUSE) == in_warehouse
        and (damage != "empty" or file in EMPTIED)
        and (file, damage) != ("the newest snapshot", "gone")
    ]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_the_remedy_that_is_named_mends_it(place: Place, damage: str) -> None:
    """One file after the other, of the archive and of the warehouse at once.

    No remedy of the one mends the other. Of what is mended, the next check finds nothing.
    """
    archived, loaded = (_damaged(damage, in_warehouse=side) for side in (False, True))
    groups = [[file] for file in archived if file not in TOGETHER]
    if joint := [file for file in archived if file in TOGETHER]:
        groups.append(joint)
    for group, other in zip_longest(groups, loaded):
        names = [*(group or ()), *([other] if other else ())]
        paths = {name: FILES[name](place) for name in names}
        expected = {*paths.values()}
        for path in paths.values():
            DAMAGES[damage](path)
        findings = remedied(place)
        assert {row["where"] for row in findings} == {str(path) for path in expected}, names
        together = {str(paths[name]) for name in names if name in TOGETHER}
        said = [row["commands"] for row in findings if row["where"] in together]
        assert said == [["strata publish"]] * len(together)
    assert place.verify()[1]["findings"] == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_revisions_are_to_be_put_back(place: Place, damage: str) -> None:
    path = place.chain / "revisions.json"
    whole = path.read_bytes()
    DAMAGES[damage](path)
    remedies = {row["where"]: row["remedy"] for row in place.verify()[1]["findings"]}
    assert "put it back from a mirror or a backup" in remedies[str(path)]
    path.unlink(missing_ok=True)
    path.write_bytes(whole)
    assert place.verify()[0] == 0


def test_a_lost_document_is_made_again_from_the_volumes(place: Place) -> None:
    for path in sorted(_newest_snapshot(place).parent.iterdir())[1:]:
        path.unlink()
    assert place.verify()[1]["findings"][0]["remedy"] == "run strata repair"
    place.run("repair")
    assert place.verify()[0] == 0


def test_sums_that_do_not_follow_from_the_shards_are_found_and_made_right(place: Place) -> None:
    path = place.chain / "index.json"
    whole = path.read_bytes()
    start = whole.index(b'"rows":')
    path.write_bytes(resealed(whole[:start] + whole[start:].replace(b'"rows":', b'"rows":9', 1)))
    (finding,) = mended(place, path)
    assert finding["problem"] == "damaged"
    assert path.read_bytes() == whole


def test_strange_files_are_seen_and_can_be_moved_away(place: Place) -> None:
    names = (
        *("archive/notes.txt", "archive/old-chain/index.json", f"archive/{KIT_CHAIN}/x/y.zip"),
        f"archive/{KIT_CHAIN}/orders/copy of orders.zip",
        *("warehouse/index/copy.duckdb", "warehouse/log/1.json.bak", "warehouse/data/x"),
    )
    strange = [place.archive.parent / name for name in names]
    for path in strange:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (0, 0))
    quick = {row["where"] for row in place.verify("--quick")[1]["findings"]}
    assert quick == {str(path) for path in strange if "warehouse" in path.parts}
    findings = remedied(place)
    seen = [path.parent if path.parent.name == "old-chain" else path for path in strange]
    assert sorted(row["where"] for row in findings) == sorted(map(str, seen))
    assert {row["problem"] for row in findings} == {"orphan"}
    assert [path for path in strange if path.exists()] == []
    assert place.verify()[0] == 0


def test_strange_files_are_looked_for_once_what_names_files_is_whole(place: Place) -> None:
    strange = place.chain / "notes.txt"
    strange.write_bytes(b"x")
    os.utime(strange, (0, 0))
    for path in place.chain.glob("*/*.zip"):
        os.utime(path, (0, 0))
    shard = place.chain / shard_file(Archive(FolderStore(place.archive), KIT_CHAIN))
    empty(shard)
    (finding,) = (row for row in remedied(place) if row["where"] == str(shard))
    assert finding["problem"] == "damaged"
    assert [row["where"] for row in place.verify()[1]["findings"]] == [str(strange)]


def test_data_files_of_a_load_that_was_killed_long_ago_go_once_the_blocks_are_loaded(
    place: Place,
) -> None:
    folder = place.archive.parent / "warehouse" / "data" / "blocks"
    source = next(path for path in folder.iterdir() if path.name.startswith("000000001-"))
    left = folder / source.name.replace("000000001-000000010", "000000031-000000040")
    shutil.copyfile(source, left)
    os.utime(left, (0, 0))
    # Nothing else has these blocks: a sweep keeps the file until they are loaded.
    place.run("compact")
    assert left.exists()
    assert [row["where"] for row in place.verify()[1]["findings"]] == [str(left)]
    Path(place.settings.source, f"{KIT_CHAIN}-1-31-40.zip").unlink()
    make_segment(place.settings, 3)
    place.run("load")
    place.run("publish")
    assert place.verify()[0] == 0  # the next sweep removes it
    place.run("compact")
    assert not left.exists()


def test_what_may_be_the_only_copy_of_lost_rows_is_no_stranger(place: Place) -> None:
    data = FILES["a data file"](place)
    copy = data.with_name(f"{data.name.partition('.')[0]}.{'0' * 64}.parquet")
    data.rename(copy)
    os.utime(copy, (0, 0))
    assert [row["where"] for row in place.verify()[1]["findings"]] == [str(data)]


def test_what_a_load_at_work_has_just_put_there_is_no_finding_for_a_week(place: Place) -> None:
    fresh = place.warehouse / "data" / "blocks" / "000000091-000000100.0.parquet"
    fresh.write_bytes(b"x")
    for days, code in ((0, 0), (6, 0), (8, 5)):
        then = time.time() - days * 24 * 3600
        os.utime(fresh, (then, then))
        assert place.verify("--quick")[0] == code


def test_what_a_publisher_at_work_has_just_put_there_is_no_finding_for_an_hour(
    place: Place,
) -> None:
    fresh = place.chain / "orders" / f"{KIT_CHAIN}-orders-31-40.zip"
    fresh.write_bytes(b"x")
    assert place.verify()[0] == 0
    os.utime(fresh, (0, 0))
    assert place.verify()[0] == 5


def test_segments_that_are_only_loaded_are_found_and_published(place: Place) -> None:
    make_segment(place.settings, 5)
    place.run("load")
    code, said = place.verify()
    (row,) = said["findings"]
    assert (code, row["problem"]) == (5, "not published")
    assert "blocks 51-60" in row["what"]
    mended(place, place.chain)


def test_what_a_run_has_just_loaded_may_be_published_a_little_later(place: Place) -> None:
    make_segment(place.settings, 5)
    place.run("load")
    check = Verification(settle_seconds=3600)
    assert list(verify_site(place.site, check)) == []
    assert [one.problem for one in verify_site(place.site)] == [Problem.NOT_PUBLISHED]


def test_segments_that_are_only_published_are_found_and_loaded(place: Place) -> None:
    shutil.rmtree(place.warehouse)
    make_segment(place.settings, 0)
    Path(place.settings.source, f"{KIT_CHAIN}-1-21-30.zip").rename(place.archive.parent / "kept")
    place.run("load")
    (place.archive.parent / "kept").rename(Path(place.settings.source, f"{KIT_CHAIN}-1-21-30.zip"))
    code, said = place.verify()
    found = {row["problem"]: row["what"] for row in said["findings"]}
    assert code == 5
    assert "blocks 21-30" in found[Problem.NOT_LOADED.value]
    mended(place, place.chain)


def test_nothing_that_is_damaged_hides_the_rest(place: Place) -> None:
    # What follows from the index is compared once that is sound.
    paths = [FILES[name](place) for name in FILES if name != "the index"]
    captures = FILES["the captures"](place)
    for path in paths:
        flip(path)
    found = {row["where"] for row in place.verify()[1]["findings"]}
    hidden = {str(path) for path in paths} - found
    # The pages, and ZIPs, of a shard that cannot be read are known by nothing else, nor is what the
    # newest snapshot brought.
    assert hidden <= {str(FILES[f"a shard's {name}"](place)) for name in ("hashes", "page")} | {
        str(FILES[name](place)) for name in ("a ZIP", "a hash file")
    } | {str(FILES[name](place)) for name in LISTS} | {str(captures)}


def test_a_full_disk_is_an_error_of_the_machine_and_no_finding(place: Place) -> None:
    program = Path(sys.executable).parent / "strata"
    # Python would leave modules half compiled.
    limited = f"ulimit -f 0; PYTHONDONTWRITEBYTECODE=1 {shlex.quote(str(program))} verify"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr.count("\n") == 1
    assert str(place.warehouse) in done.stderr


def test_any_bit_that_flips_is_found(place: Place) -> None:
    """One in the warehouse and one in the archive at a time: neither hides the other."""
    chance = random.Random(0)
    snapshot = place.site.warehouse.snapshot()
    loaded = [place.warehouse / key for key in snapshot.named_keys()]
    loaded.append(_newest_snapshot(place))
    archived = [
        path for path in place.archive.rglob("*") if path.is_file() and ".strata" not in str(path)
    ]
    # What a Delta log says besides what its readers go by, nothing else says.
    archived = [path for path in archived if "_delta_log" not in path.parts]
    for pair in zip(
        (chance.choice(sorted(loaded)) for _ in range(FLIPS)),
        chance.sample(sorted(archived), FLIPS),
        strict=True,
    ):
        with ExitStack() as flips:
            for path in pair:
                flips.enter_context(_flipped(path, chance))
            findings = [str(one) for one in verify_site(place.site)]
        for path in pair:
            assert any(str(path) in finding for finding in findings), path
    assert list(verify_site(place.site)) == []


@contextmanager
def _flipped(path: Path, chance: random.Random) -> Iterator[None]:
    """A bit of a file is another one for a while."""
    whole, status = path.read_bytes(), path.stat()
    flipped = bytearray(whole)
    flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
    path.chmod(0o644)
    path.write_bytes(flipped)
    yield
    path.write_bytes(whole)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
