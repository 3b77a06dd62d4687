"""`strata load --archive`: a warehouse that is made of what an archive has, and of nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import duckdb
import pytest

from pipelines.sample_history import copy_sample
from pipelines.site.lake_publishing import publish_missing
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.archive_kit import without_old_shards, without_records
from tests.command_kit import run_strata
from tests.fault_proxy import CUT_THE_ANSWER, FLIP_THE_ANSWER, STALL, FaultProxy, Request
from tests.pipelines.kit import make_segment, site_settings
from tests.s3_kit import BucketServer, bucket_server
from tests.segments_kit import KIT_CHAIN, columns, table_rows
from tests.shared_folders import publish_all
from tests.waiting import wait_until
from tests.web_kit import web_server
from transforms.errors import IntegrityError
from transforms.verifying.findings import Problem

CHAIN = "sample-chain-001"
NEWEST = "3451-4450"
_SEGMENTS = ("2001-2450", "2451-3450", NEWEST)
"""Those of the sample that are loaded here: before and after its upgrade."""
_STRATA = (sys.executable, "-c", "import sys; from pipelines.cli import main; sys.exit(main())")
_VIEWS = (
    "select view_name from duckdb_views() where schema_name = 'main' and not internal "
    "and not view_name.ends_with('_current') order by all"
)
_RECORDS = (
    "select * exclude (source_size, source_version, index_id) from strata.segments order by all",
    "from strata.receipts order by all",
    "from strata.unfit order by all",
)


@dataclass(frozen=True)
class Original:
    """A site with three segments, and its archive as it was before the last one was published."""

    site: Site
    earlier: Path

    @property
    def archive(self) -> Path:
        return Path(self.site.settings.archive)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp("original")
    site = Site(replace(site_settings(folder), lake=True))
    for path in copy_sample(folder):
        if path.stem.endswith(_SEGMENTS[:-1]):
            path.rename(Path(site.settings.source, path.name))
    publish_all(site)
    shutil.copytree(site.settings.archive, folder / "earlier")
    (last,) = folder.glob(f"*-{NEWEST}.zip")
    last.rename(Path(site.settings.source, last.name))
    publish_all(site)
    return Original(site, folder / "earlier")


@pytest.fixture(scope="module")
def first_segments(original: Original, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a warehouse that was made of the archive as it was before the last segment."""
    folder = tmp_path_factory.mktemp("first")
    assert len(_loaded(_load(folder, original.earlier))) == 2
    return folder


@pytest.fixture
def before_the_last(first_segments: Path, tmp_path: Path) -> Path:
    """A copy of it, of which a load of the whole archive takes the last segment alone."""
    return shutil.copytree(first_segments, tmp_path, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def buckets() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture
def bare(original: Original, tmp_path: Path) -> Path:
    """The archive without its ZIPs: what is taken is the lake's."""
    ignored = shutil.ignore_patterns("*.zip", "*.sha256")
    return shutil.copytree(original.archive, tmp_path / "bare", ignore=ignored)


def _environment(folder: Path, **others: str) -> dict[str, str]:
    places = {
        "STRATA_WAREHOUSE": str(folder / "warehouse"),
        "STRATA_ARCHIVE": str(folder / "archive"),
        "STRATA_SOURCE": str(folder / "source"),
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    return os.environ | places | others


def _load(folder: Path, archive: Path | str, *options: str, **others: str) -> CompletedProcess[str]:
    arguments = ("load", "--archive", str(archive), "--json", *options)
    return run_strata(*arguments, environment=_environment(folder, **others), folder=folder)


def _loaded(done: CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [row["segment"] for row in json.loads(done.stdout)["loaded"]]


def _answers(warehouse: Path) -> dict[str, object]:
    """What the views of a warehouse show: a hash of the rows of each table, and its records.

    Without the last rows of a table that became history: no archive has current state but the
    newest.
    """
    with duckdb.connect(warehouse / "current.duckdb", read_only=True) as con:
        con.execute("set timezone = 'UTC'")
        answers: dict[str, object] = {}
        for (view,) in con.execute(_VIEWS).fetchall():
            line = f'to_json("{view}")::varchar'
            query = f"select count(*), md5(string_agg({line}, chr(10) order by {line}))"
            columns = con.execute(f'describe "{view}"').fetchall()
            answers[view] = columns, con.execute(f'{query} from "{view}"').fetchall()
        return answers | {query: con.execute(query).fetchall() for query in _RECORDS}


def _files(archive: Path) -> dict[str, str]:
    """The hashes of an archive's ZIPs and documents; logs have times."""
    files = {
        str(path.relative_to(archive)): path.read_bytes()
        for path in archive.rglob("*")
        if path.is_file() and "_delta_log" not in path.parts
    }
    compared = without_records(without_old_shards(files))
    return {path: hashlib.sha256(data).hexdigest() for path, data in compared.items()}


def _outside_of_the_lake(files: dict[str, str]) -> dict[str, str]:
    return {path: sha256 for path, sha256 in files.items() if "/lake/" not in path}


def test_a_warehouse_made_from_a_bucket_answers_as_the_one_that_it_was_published_from(
    original: Original, bare: Path, buckets: BucketServer, tmp_path: Path
) -> None:
    """What is made from a folder and a web server is compared where something is done to it."""
    bucket = buckets.bucket()
    for path in filter(Path.is_file, bare.rglob("*")):
        buckets.client.upload_file(str(path), bucket, f"some/{path.relative_to(bare)}")
    address, endpoint = f"s3://{bucket}/some", {"AWS_ENDPOINT_URL": buckets.url}
    assert len(_loaded(_load(tmp_path, address, **endpoint))) == 3
    assert _answers(tmp_path / "warehouse") == _answers(Path(original.site.settings.warehouse))
    assert _loaded(_load(tmp_path, address, **endpoint)) == []


def test_what_is_published_from_it_is_the_archive_to_the_byte_and_all_of_it_verifies(
    original: Original, bare: Path, tmp_path: Path
) -> None:
    _loaded(_load(tmp_path, bare))
    assert _answers(tmp_path / "warehouse") == _answers(Path(original.site.settings.warehouse))
    (tmp_path / "source").symlink_to(original.site.settings.source)
    for command in ("load", "run", "verify"):
        done = run_strata(command, environment=_environment(tmp_path), folder=tmp_path)
        assert done.returncode == 0, done.stderr + done.stdout
    mine, theirs = _files(tmp_path / "archive"), _files(original.archive)
    assert _outside_of_the_lake(mine) == _outside_of_the_lake(theirs)
    orders = [path for path in mine if path.startswith(f"{CHAIN}/lake/orders/")]
    assert {path: mine[path] for path in orders} == {path: theirs[path] for path in orders}
    assert len(orders) == 2


def test_of_a_file_that_others_merged_only_what_lacks_is_taken(tmp_path: Path) -> None:
    site = _small_site(tmp_path / "theirs", 0, 1)
    assert _loaded(_load(tmp_path, site.settings.archive)) == ["1-10", "11-20"]
    for number in (2, 3):
        make_segment(site.settings, number)
    publish_all(site)
    assert len(site.warehouse.compact(1)) == 1
    assert not publish_missing(site)
    manifests = Path(site.settings.archive, KIT_CHAIN, "lake", "manifests")
    assert [path.name.partition(".")[0] for path in manifests.glob("1-*")]
    assert _loaded(_load(tmp_path, site.settings.archive)) == ["21-30", "31-40"]
    assert (
        _answers(tmp_path / "warehouse")["orders"]
        == _answers(Path(site.settings.warehouse))["orders"]
    )


def test_a_column_of_segments_without_rows_is_taken_with_them_and_not_with_others(
    tmp_path: Path,
) -> None:
    """A file that was merged has it, though only what is loaded already does; others lack it."""
    for name in ("one", "all"):
        (tmp_path / name).mkdir()
    later = {"orders": ((*columns("orders"), "novelty"), ())}
    site = _small_site(tmp_path / "theirs", 0, tables=later)
    assert _loaded(_load(tmp_path / "one", site.settings.archive)) == ["1-10"]
    make_segment(site.settings, 1, tables={"orders": table_rows("orders", {}, first=11)})
    publish_all(site)
    assert _loaded(_load(tmp_path / "all", site.settings.archive)) == ["1-10", "11-20"]
    assert len(site.warehouse.compact(1)) == 1
    assert not publish_missing(site)
    assert _loaded(_load(tmp_path / "one", site.settings.archive)) == ["11-20"]
    orders = _answers(Path(site.settings.warehouse))["orders"]
    assert _answers(tmp_path / "one" / "warehouse")["orders"] == orders
    assert _answers(tmp_path / "all" / "warehouse")["orders"] == orders


def test_rows_of_a_table_that_its_publisher_did_not_know_are_not_in_the_archive(
    tmp_path: Path,
) -> None:
    """Its release loaded them as texts, and had no such table in its lake."""
    site = _small_site(tmp_path / "theirs", 0, tables={"surprises": b"a,b\n1,2\n"})
    assert "surprises" in _answers(Path(site.settings.warehouse))
    assert _loaded(_load(tmp_path, site.settings.archive)) == ["1-10"]
    answers = _answers(tmp_path / "warehouse")
    assert "surprises" not in answers
    assert answers["orders"] == _answers(Path(site.settings.warehouse))["orders"]


def _small_site(folder: Path, *numbers: int, **kit: Any) -> Site:
    site = Site(replace(site_settings(folder), lake=True))
    for number in numbers:
        make_segment(site.settings, number, **kit)
    publish_all(site)
    return site


# --- damage


def _data_file(archive: Path, table: str, blocks: str) -> Path:
    (path,) = (archive / CHAIN / "lake" / table).glob(f"{blocks}.*.parquet")
    return path


def test_a_flipped_bit_is_refused_and_named_and_the_rest_is_loaded(
    original: Original, tmp_path: Path
) -> None:
    archive = Path(shutil.copytree(original.archive, tmp_path / "copy"))
    path = _data_file(archive, "orders", NEWEST)
    sound = path.read_bytes()
    path.write_bytes(sound[:500] + bytes([sound[500] ^ 1]) + sound[501:])
    done = _load(tmp_path, archive)
    assert done.returncode == 5
    report = json.loads(done.stdout)
    assert len(report["loaded"]) == 2
    ((what, reason),) = [(row["file"], row["reason"]) for row in report["quarantined"]]
    assert what == f"blocks {NEWEST}"
    assert str(path) in reason
    path.write_bytes(sound)
    assert _loaded(_load(tmp_path, archive)) == [NEWEST]


def test_rows_that_are_not_those_of_the_published_csv_are_refused(
    original: Original, before_the_last: Path
) -> None:
    """A file under its right name, which its log names, with another row."""
    archive = Path(shutil.copytree(original.archive, before_the_last / "copy"))
    path = _data_file(archive, "trades", NEWEST)
    other = before_the_last / "other.parquet"
    with duckdb.connect() as con:
        rows = f"select * replace (size + (_row = 1)::int as size) from '{path}'"
        con.execute(f"copy ({rows}) to '{other}' (format parquet)")
    name = f"{NEWEST}.{hashlib.sha256(other.read_bytes()).hexdigest()[:16]}.parquet"
    other.rename(path.with_name(name))
    for log in (path.parent / "_delta_log").glob("*.json"):
        text = re.sub(r',"sha256":"[0-9a-f]{64}"', "", log.read_text(), count=1)  # of the lines
        log.write_text(text.replace(path.name, name))
    done = _load(before_the_last, archive)
    assert done.returncode == 5
    (refused,) = json.loads(done.stdout)["quarantined"]
    assert re.search(f"table trades of segment {NEWEST} no longer renders to", refused["reason"])


# --- what does not fit


def test_an_archive_of_another_chain_is_refused(before_the_last: Path) -> None:
    other = _small_site(before_the_last / "other", 0)
    done = _load(before_the_last, other.settings.archive)
    assert done.returncode == 2
    assert f"there is no chain '{CHAIN}' here" in done.stderr
    done = _load(before_the_last, other.settings.archive, "--chain", KIT_CHAIN)
    assert done.returncode == 2
    assert "give each chain a warehouse of its own" in done.stderr


def test_an_archive_that_contradicts_what_is_loaded_is_refused_and_changes_nothing(
    tmp_path: Path,
) -> None:
    mine = _small_site(tmp_path / "mine", 0)
    rows = table_rows("orders", {"price": "7"})
    theirs = _small_site(tmp_path / "theirs", 0, tables={"orders": rows})
    before = (Path(mine.settings.warehouse) / "current.json").read_bytes()
    done = _load(tmp_path, theirs.settings.archive, STRATA_WAREHOUSE=str(mine.settings.warehouse))
    assert done.returncode == 5
    assert "contradicts what is loaded: segment 1-10 has the id" in done.stderr
    assert (Path(mine.settings.warehouse) / "current.json").read_bytes() == before


def test_a_state_after_another_segment_than_the_loaded_one_is_refused(tmp_path: Path) -> None:
    """The index has the id of the last segment alone, of which the manifest is damaged."""
    mine = _small_site(tmp_path / "mine", 0, omit=("accounts",))
    theirs = _small_site(tmp_path / "theirs", 0)
    (first,) = theirs.loaded_catalog().segments()
    make_segment(theirs.settings, 1, omit=("accounts",), previous_id=first.segment_id)
    publish_all(theirs)
    lake = Path(theirs.settings.archive, KIT_CHAIN, "lake")
    (manifest,) = (lake / "manifests").glob("11-20.*.parquet")
    manifest.unlink()
    done = _load(tmp_path, theirs.settings.archive, STRATA_WAREHOUSE=str(mine.settings.warehouse))
    assert done.returncode == 5
    assert "contradicts what is loaded: segment 1-10 has the id" in done.stderr
    assert mine.loaded_catalog().snapshot.states == ()


def test_an_archive_without_a_lake_is_refused(original: Original, tmp_path: Path) -> None:
    lake = shutil.ignore_patterns("lake", "*.zip")
    archive = shutil.copytree(original.archive, tmp_path / "copy", ignore=lake)
    done = _load(tmp_path, archive)
    assert done.returncode == 2
    assert "has no manifests that can be read, so no warehouse can be made" in done.stderr


# --- kills and networks


@contextmanager
def _door(archive: Path) -> Iterator[FaultProxy]:
    with web_server(archive, ranges=False) as url:
        door = FaultProxy(url)
        yield door
        door.stop()


def _fetched(door: FaultProxy, action: Callable[[str], str] = lambda _: "") -> list[str]:
    """The data files that are asked for from now on, to each of which `action` may do something."""
    asked: list[str] = []

    def note(request: Request) -> str:
        if not re.search(r"/lake/[a-z_]+/[^/]+\.parquet$", request.path):
            return ""
        asked.append(request.path.rpartition("/")[2])
        return action(asked[-1])

    door.on_request = note
    return asked


def test_a_load_that_is_killed_in_the_middle_goes_on_where_it_was(
    original: Original, tmp_path: Path
) -> None:
    last = _data_file(original.archive, "trades", NEWEST).name
    with _door(original.archive) as door:
        asked = _fetched(door, lambda name: STALL if name == last else "")
        program = (*_STRATA, "load", "--archive", door.url)
        with subprocess.Popen(program, env=_environment(tmp_path)) as killed:
            wait_until(lambda: last in asked)
            killed.send_signal(signal.SIGKILL)
        again = _fetched(door)
        assert _loaded(_load(tmp_path, door.url)) == [NEWEST]
        assert last in again
        firsts = {name.partition(".")[0] for name in again if len(name) < 64}  # of history
        assert firsts == {NEWEST}
    assert _answers(tmp_path / "warehouse") == _answers(Path(original.site.settings.warehouse))


def test_a_file_that_does_not_arrive_whole_is_fetched_again(
    original: Original, tmp_path: Path
) -> None:
    """One after the other is cut, or has another bit, when it is asked for the first time."""
    with _door(original.archive) as door:
        disturbed: list[str] = []

        def once(name: str) -> str:
            if name in disturbed:
                return ""
            disturbed.append(name)
            return (CUT_THE_ANSWER, FLIP_THE_ANSWER)[len(disturbed) % 2]

        _fetched(door, once)
        assert len(_loaded(_load(tmp_path, door.url))) == 3


# --- the current state


def _state_file(site: Site, table: str) -> Path:
    (path,) = Path(site.settings.archive, KIT_CHAIN, "lake", table).glob("*.parquet")
    return path


def test_a_damaged_current_state_is_named_and_comes_when_it_is_mended(tmp_path: Path) -> None:
    site = _small_site(tmp_path / "theirs", 0)
    path = _state_file(site, "accounts")
    data = path.read_bytes()
    path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
    done = _load(tmp_path, site.settings.archive)
    assert done.returncode == 5
    report = json.loads(done.stdout)
    assert [row["segment"] for row in report["loaded"]] == ["1-10"]
    assert str(path) in report["quarantined"][0]["reason"]
    path.write_bytes(data)
    assert _loaded(_load(tmp_path, site.settings.archive)) == []
    theirs = _answers(Path(site.settings.warehouse))
    assert _answers(tmp_path / "warehouse") == theirs


def test_a_damaged_manifest_of_the_state_is_found_and_made_again(tmp_path: Path) -> None:
    site = _small_site(tmp_path, 0)
    path = _state_file(site, "state_manifest")
    data = path.read_bytes()
    path.unlink()  # the warehouse has it, too
    path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
    (finding,) = verify_site(site)
    assert str(finding).startswith(f"{Problem.DAMAGED.value}: {path}: it ")
    assert finding.remedy.commands == (f"rm {path}", "strata publish")
    path.unlink()
    publish_all(site)
    assert [*verify_site(site)] == []


def test_a_damaged_manifest_of_the_state_is_not_published(tmp_path: Path) -> None:
    site = _small_site(tmp_path, 0)
    shutil.rmtree(_state_file(site, "state_manifest").parent)
    path = Path(site.settings.warehouse, site.loaded_catalog().snapshot.states[0].key)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-cpp-arrov"))
    with pytest.raises(IntegrityError, match=f"{path} is damaged"):
        publish_missing(Site(site.settings))


def test_a_state_that_is_just_being_published_is_left_out(tmp_path: Path) -> None:
    """A table has newer rows than the manifest's, which comes after it."""
    site = _small_site(tmp_path / "theirs", 0)
    manifest = _state_file(site, "state_manifest").parent
    shutil.copytree(manifest, tmp_path / "before")
    make_segment(site.settings, 1, tables={"accounts": table_rows("accounts", {}, {})})
    publish_all(site)
    shutil.rmtree(manifest)
    (tmp_path / "before").rename(manifest)
    done = _load(tmp_path, site.settings.archive)
    assert done.returncode == 5
    (refused,) = json.loads(done.stdout)["quarantined"]
    assert refused["file"] == "blocks 1-10"
    assert "accounts has not the current state after segment 1-10" in refused["reason"]
    publish_all(site)
    assert _loaded(_load(tmp_path, site.settings.archive)) == []
    assert _answers(tmp_path / "warehouse") == _answers(Path(site.settings.warehouse))


def test_cells_of_a_state_that_no_type_holds_come_back(tmp_path: Path) -> None:
    times = ("infinity", "10000-01-01 00:00:00+00")
    odd = table_rows("accounts", *({"vega_time": time} for time in times))
    site = _small_site(tmp_path / "theirs", 0, tables={"accounts": odd})
    _loaded(_load(tmp_path, site.settings.archive))
    texts = "select * exclude (_segment) from exact.accounts order by all"
    for warehouse in (tmp_path / "warehouse", Path(site.settings.warehouse)):
        with duckdb.connect(warehouse / "current.duckdb", read_only=True) as con:
            rows = con.execute(texts).fetchall()
            assert any("infinity" in row for row in rows)
            assert con.execute("from strata.unfit").fetchall() == [("accounts", "vega_time", 2)]
