"""`strata fetch --all`: a mirror has the lake of its archive, and is as good as it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from exporters.lake.lake_files import Lake
from exporters.mirroring.mirror import mirror
from pipelines.site.lake_publishing import publish_missing
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.archive_kit import list_documents, resealed, verify_archive
from tests.command_kit import run_strata
from tests.fault_proxy import FLIP_THE_ANSWER, FaultProxy, Request
from tests.lake_readers import age
from tests.model.disturbing import NAME, Disturbance, KilledError, disturbed
from tests.pipelines.kit import blocks, load, make_segment, site_settings
from tests.s3_kit import bucket_server
from tests.segments_kit import KIT_CHAIN, table_rows
from tests.web_kit import web_server
from transforms.stores.folder_store import FolderStore
from transforms.verifying.findings import Problem

DAY = 24 * 3600


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of three segments with a lake."""
    folder = tmp_path_factory.mktemp("template")
    for number in range(3):
        _make_segment(_site(folder), number)
    _publish(_site(folder))
    return folder


@pytest.fixture
def site(template: Path, tmp_path: Path) -> Site:
    return _site(shutil.copytree(template, tmp_path / "site"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


def _site(folder: Path) -> Site:
    return Site(replace(site_settings(folder), lake=True))


def _make_segment(site: Site, number: int) -> None:
    (span,) = blocks(number)
    tables = {table: table_rows(table, {}, {}, first=span.first) for table in ("orders", "trades")}
    make_segment(site.settings, number, tables=tables)


def _publish(site: Site) -> None:
    load(site)
    publish_segments(site, site.loaded_catalog().blocks)
    assert not publish_missing(site)


def _archive(folder: Path | str) -> Archive:
    return Archive(FolderStore(Path(folder)), KIT_CHAIN)


def _lake_files(folder: Path | str) -> dict[str, bytes]:
    """The data files of the lake's tables. Of their logs a mirror has the newest part."""
    lake = Path(folder, KIT_CHAIN, "lake")
    paths = filter(Path.is_file, lake.glob("*/*"))
    return {path.relative_to(lake).as_posix(): path.read_bytes() for path in paths}


def _tables(folder: Path | str) -> Mapping[str, object]:
    """What each table is made of, as deltalake reads its log."""
    archive = _archive(folder)
    names = sorted(path.name for path in Path(folder, KIT_CHAIN, "lake").iterdir())
    versions = {name: Lake(archive).table(name).version() for name in names}
    return {name: version.by_name.keys() for name, version in versions.items()}


def _assert_same(mirror: Path, archive: str) -> None:
    assert _tables(mirror) == _tables(archive)
    assert _lake_files(archive).items() >= _lake_files(mirror).items()
    assert [(f.place, f.what) for f in verify_archive(_archive(mirror))] == []
    names = ("index.json", "index.html", "latest.json")
    for name in names:
        assert (
            Path(mirror, KIT_CHAIN, name).read_bytes()
            == Path(archive, KIT_CHAIN, name).read_bytes()
        ), name


@pytest.fixture
def bucket(site: Site) -> Iterator[str]:
    """The archive in a bucket; those in a folder and behind a web server are mirrored below."""
    folder = Path(site.settings.archive)
    with bucket_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        bucket = server.bucket()
        for path in filter(Path.is_file, folder.rglob("*")):
            server.client.upload_file(str(path), bucket, str(path.relative_to(folder)))
        yield f"s3://{bucket}"


def test_a_mirror_has_the_lake_to_the_byte_and_a_warehouse_is_made_of_it(
    site: Site, bucket: str, out: Path, tmp_path: Path
) -> None:
    done = run_strata("fetch", bucket, "--all", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    (chain,) = json.loads(done.stdout)["chains"]
    assert chain["lake_files"] == len(_lake_files(out))
    assert chain["lake_refused"] == []
    _assert_same(out, site.settings.archive)

    warehouse = tmp_path / "warehouse"
    environment = {**os.environ, "STRATA_WAREHOUSE": str(warehouse)}
    loaded = run_strata("load", "--archive", str(out), "--json", environment=environment)
    assert loaded.returncode == 0, loaded.stderr
    assert len(json.loads(loaded.stdout)["loaded"]) == 3


def test_a_table_that_only_the_release_of_the_archive_knows_is_mirrored(
    site: Site, out: Path
) -> None:
    chain = Path(site.settings.archive, KIT_CHAIN)
    shutil.copytree(chain / "lake" / "trades", chain / "lake" / "of_tomorrow")
    before, after = (chain / "schema.json").read_bytes().split(b'"tables":', 1)
    more = b'{"name":"of_tomorrow"},{"name":"../orders"},'
    described = after.replace(b"[", b"[" + more, 1)
    (chain / "schema.json").write_bytes(resealed(before + b'"tables":' + described))
    list_documents(_archive(site.settings.archive))
    assert mirror(_archive(site.settings.archive), out).lake_refused == []
    files = [path.name for path in (chain / "lake" / "trades").glob("*.parquet")]
    own = (out / KIT_CHAIN / "lake" / "of_tomorrow").glob("*.parquet")
    assert sorted(path.name for path in own) == sorted(files) != []


def test_run_again_it_fetches_what_is_new_and_sweeps_what_was_merged(site: Site, out: Path) -> None:
    source = _archive(site.settings.archive)
    mirror(source, out)
    again = mirror(source, out)
    assert (again.lake_files, again.fetched) == (0, [])
    for number in (3, 4):
        _make_segment(site, number)
    _publish(site)
    assert site.warehouse.compact(1)
    assert not publish_missing(site)
    before = set(_lake_files(out))

    assert mirror(source, out).lake_files
    _assert_same(out, site.settings.archive)
    assert before <= set(_lake_files(out)), "who reads an earlier version still can"

    for folder in (out, site.settings.archive):
        age(Path(folder, KIT_CHAIN, "lake"), 8)
    assert not Lake(source).sweep()
    mirror(source, out)
    _assert_same(out, site.settings.archive)
    assert not before <= set(_lake_files(out))


def test_what_is_damaged_in_the_mirror_is_fetched_again(site: Site, out: Path) -> None:
    source = _archive(site.settings.archive)
    mirror(source, out)
    lake = Path(out, KIT_CHAIN, "lake")
    for pattern in ("orders/*.parquet", "state_manifest/*.parquet"):
        path = next(lake.glob(pattern))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)
    shutil.rmtree(lake / "trades")
    next((lake / "blocks" / "_delta_log").glob("*.json")).write_bytes(b"{}")

    assert mirror(source, out).lake_files > 2
    _assert_same(out, site.settings.archive)


def test_a_table_that_is_damaged_in_the_archive_costs_that_table_alone(
    site: Site, out: Path
) -> None:
    source = _archive(site.settings.archive)
    mirror(source, out)
    before = _tables(out)
    _make_segment(site, 3)
    _publish(site)
    lake = Path(site.settings.archive, KIT_CHAIN, "lake")
    (path,) = lake.glob("orders/31-40.*.parquet")
    path.unlink()
    (lake / "trades" / "_delta_log" / f"{1:020}.json").write_bytes(b"no log")

    done = run_strata("fetch", site.settings.archive, "--all", "--out", str(out))
    assert done.returncode == 5
    assert f"{path} is gone" in done.stderr
    assert f"{1:020}.json cannot be read" in done.stderr
    now = _tables(out)
    changed = {name for name in now if now[name] != before[name]}
    assert changed == {"blocks", "state_manifest"}, "manifests tell what all tables have"


def test_a_connection_that_flips_a_bit_once_changes_nothing(site: Site, out: Path) -> None:
    flipped: list[str] = []

    def on_request(request: Request) -> str | None:
        if request.path.endswith(".parquet") and request.path not in flipped and len(flipped) < 3:
            flipped.append(request.path)
            return FLIP_THE_ANSWER
        return None

    with web_server(Path(site.settings.archive), ranges=False) as url:
        proxy = FaultProxy(url)
        proxy.on_request = on_request
        done = run_strata("fetch", proxy.url, "--all", "--out", str(out))
        proxy.stop()
    assert done.returncode == 0, done.stderr
    assert len(flipped) == 3
    _assert_same(out, site.settings.archive)


@pytest.mark.parametrize("step", [1, 3, 57, 171, 285])
def test_killed_anywhere_it_has_nothing_wrong_and_the_next_run_ends_it(
    site: Site, out: Path, step: int
) -> None:
    source = _archive(site.settings.archive)
    _make_segment(site, 3)
    mirror(source, out)
    _publish(site)
    with suppress(KilledError), disturbed(Disturbance(out, NAME, step)):
        mirror(source, out)
    findings = list(verify_archive(_archive(out)))
    # What follows from shards is written after them; a log is away while another takes its place.
    late = {Problem.NOT_PUBLISHED, Problem.DAMAGED}
    others = [finding for finding in findings if finding.problem not in late]
    assert all(finding.place.endswith("_delta_log") for finding in others), others
    assert len(others) <= 1
    mirror(source, out)
    _assert_same(out, site.settings.archive)
