"""Archives on web hosts that do not answer 404 for missing files."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from exporters.archive.archive import Archive
from exporters.lake.lake_files import Lake
from exporters.lake.log.log_files import HINT, checkpoint_bytes, checkpoint_name
from pipelines.site.site import Site
from tests.command_kit import run_strata
from tests.fault_proxy import FaultProxy, Request
from tests.pipelines.kit import blocks, make_segment, site_settings
from tests.segments_kit import KIT_CHAIN, table_rows
from tests.shared_folders import publish_all
from tests.web_kit import PAGE, REDIRECT, web_server
from transforms.stores.folder_store import FolderStore

ADVICE = "give an address that may be read, with https://<user>:<password>@<host>"
LOG = "_delta_log"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with a lake, in which a checkpoint sums up the log of orders."""
    site = Site(replace(site_settings(tmp_path_factory.mktemp("site")), lake=True))
    for number in range(2):
        first = blocks(number)[0].first
        tables = {table: table_rows(table, {}, {}, first=first) for table in ("orders", "trades")}
        make_segment(site.settings, number, tables=tables)
    publish_all(site)
    archive = Path(site.settings.archive)
    table = Lake(Archive(FolderStore(archive), KIT_CHAIN)).table("orders")
    log = archive / KIT_CHAIN / "lake" / "orders" / LOG
    data, hint = checkpoint_bytes(table.version())
    (log / checkpoint_name(table.version().number)).write_bytes(data)
    (log / HINT).write_bytes(hint)
    return archive


@pytest.fixture(scope="module")
def from_folder(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, object]:
    """The results of all commands that read the archive from its folder."""
    return _results(tmp_path_factory.mktemp("folder"), str(archive))


@contextmanager
def _proxy(archive: Path) -> Iterator[FaultProxy]:
    """A proxy before a host that answers 403 for missing files."""
    with web_server(archive, missing="403") as url:
        proxy = FaultProxy(url)
        yield proxy
        proxy.stop()


def _strata(folder: Path, *arguments: str) -> CompletedProcess[str]:
    environment = {**os.environ, "STRATA_WAREHOUSE": str(folder / "warehouse")}
    return run_strata(*arguments, environment=environment, folder=folder)


def _done(folder: Path, *arguments: str) -> str:
    done = _strata(folder, *arguments)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def _results(folder: Path, address: str) -> dict[str, object]:
    """The files that arrive from an archive, the loaded segments, and the rows of a copy."""
    _done(folder, "fetch", address, "--all", "--out", "mirror")
    loaded = json.loads(_done(folder, "load", "--archive", address, "--json"))
    copy = json.loads(_done(folder, "copy", "copy.duckdb", "--archive", address, "--json"))
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in (folder / "mirror").rglob("*")
        if path.is_file() and ".strata-scratch" not in path.parts
    }
    return {**files, "loaded": loaded["loaded"], "copy": copy["tables"]}


@pytest.mark.parametrize("missing", ["403", PAGE, REDIRECT])
def test_an_archive_is_the_same_whatever_the_host_answers_for_missing_files(
    archive: Path, from_folder: Mapping[str, object], tmp_path: Path, missing: str
) -> None:
    with web_server(archive, missing=missing) as url:
        assert _results(tmp_path, url) == from_folder
    lake = tmp_path / "mirror" / KIT_CHAIN / "lake"
    assert [*lake.glob(f"orders/{LOG}/{HINT}")]
    assert [*lake.glob(f"trades/{LOG}/*.json")]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/chains.json", "403 No"),
        ("/SHA256SUMS", "403 No"),
        ("/index.json", "403 No"),
        ("/schema.json", "403 No"),
        (r"/index/0.*\.json", "403 No"),
        (r"-orders-.*\.zip", "403 No"),
        (r"/lake/trades/.*\.parquet", "403 No"),
        (r"\.checkpoint\.parquet", "403 No"),
        ("/chains.json", "401 Who"),
        (r"\.checkpoint\.parquet", "401 Who"),
    ],
)
def test_a_document_that_exists_and_is_refused_asks_for_rights(
    archive: Path, tmp_path: Path, path: str, status: str
) -> None:
    def refuse(request: Request) -> str | None:
        return status if re.search(path, request.path) else None

    with _proxy(archive) as proxy:
        proxy.on_request = refuse
        done = _strata(tmp_path, "fetch", proxy.url, "--all", "--out", "mirror")
    assert done.returncode == 2, done.stderr
    assert re.search(f"{path}.* is refused .{status}.: {ADVICE}", done.stderr)


@pytest.mark.parametrize("missing", ["403", "404"])
def test_a_lake_whose_logs_are_hidden_is_no_archive_without_a_lake(
    archive: Path, tmp_path: Path, missing: str
) -> None:
    hidden = shutil.copytree(archive, tmp_path / "hidden", ignore=shutil.ignore_patterns(LOG))
    with web_server(hidden, missing=missing) as url:
        fetched = _strata(tmp_path, "fetch", url, "--all", "--out", "mirror")
        loaded = _strata(tmp_path, "load", "--archive", url)
    assert fetched.returncode == 5, fetched.stderr
    assert f"lake/manifests/{LOG} is not there or refused" in fetched.stderr
    assert loaded.returncode == 2, loaded.stderr
    assert "has no manifests that can be read" in loaded.stderr


def _refusing_from(start: int) -> Callable[[Request], str | None]:
    return lambda request: "403 No" if request.number >= start else None


def test_a_host_that_begins_to_refuse_everything_is_never_believed(
    archive: Path, tmp_path: Path
) -> None:
    with _proxy(archive) as proxy:
        _done(tmp_path, "fetch", proxy.url, "--all", "--out", "mirror")
        count = len(proxy.requests)
        for number in range(1, count, count // 5):
            proxy.on_request = _refusing_from(len(proxy.requests) + number)
            out = tmp_path / str(number)
            done = _strata(tmp_path, "fetch", proxy.url, "--all", "--out", str(out))
            assert done.returncode == 2, (number, done.stderr)
            assert ADVICE in done.stderr
