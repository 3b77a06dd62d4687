"""`strata fetch` from all kinds of places, by its real command, without the server's packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strata as strata_package
from exporters.archive.archive import Archive
from exporters.fetching.range_plan import choose_blocks
from exporters.locations import Locations
from tests.api.server_kit import ServerProcess
from tests.command_kit import run_strata
from tests.pipelines.kit import make_segment, site_settings
from tests.s3_kit import BucketServer, bucket_server
from tests.segments_kit import KIT_CHAIN, block_time
from tests.web_kit import web_server
from transforms.bounds import both_bounds
from transforms.errors import RangeError
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import content_sha256

NAME = f"{KIT_CHAIN}-trades-1-20.zip"

# A finder before all others, so that whoever imports one of these fails as if it were not there.
CLIENT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    names = {"api", "boto3", "botocore", "dagster", "deltalake", "duckdb", "google", "grpc",
             "orjson", "polars", "prometheus_client", "pyarrow", "pydantic", "starlette", "uvicorn"}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from pipelines.cli import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments, published, and trades over both as `strata export` writes them."""
    place = tmp_path_factory.mktemp("site")
    settings = site_settings(place)
    for number in (0, 1):
        make_segment(settings, number)
    for command in ("load", "publish", f"export trades 1 20 --out {place}/exports"):
        strata(place, *command.split())
    return place


def strata(place: Path, *arguments: str) -> str:
    names = ("source", "warehouse", "archive")
    places = {f"STRATA_{name.upper()}": str(place / name) for name in names}
    environment = {**os.environ, **places, "STRATA_LAKE": "0"}
    done = run_strata(*arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def client(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command line where only what fetching needs is installed."""
    given = [sys.executable, "-c", CLIENT, *map(str, arguments)]
    return subprocess.run(given, capture_output=True, text=True, check=False)


def fetched(address: str, out: Path) -> Any:
    done = client("fetch", address, "--table", "trades", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_fetch_gives_the_bytes_of_export_without_the_servers_packages(
    site: Path, tmp_path: Path
) -> None:
    right = content_sha256(site / "exports" / NAME)
    with web_server(site / "archive") as url:
        found = fetched(url, tmp_path / "web")
    assert (found["sha256"], found["chain_id"], found["blocks"]) == (right, KIT_CHAIN, "1-20")
    assert content_sha256(tmp_path / "web" / NAME) == right
    assert found["fetched_bytes"] == sum(one["bytes"] for one in found["zips"])
    assert fetched(str(site / "archive"), tmp_path / "folder")["sha256"] == right


def test_fetch_takes_the_address_of_strata_serve(site: Path, tmp_path: Path) -> None:
    places = Locations(
        source=str(site / "source"),
        warehouse=str(site / "warehouse"),
        archive=str(site / "archive"),
    )
    right = content_sha256(site / "exports" / NAME)
    with ServerProcess(places, "--no-grpc") as served:
        assert fetched(f"{served.url}/archive/", tmp_path / "out")["sha256"] == right


def test_a_range_snaps_outwards_to_segments_by_blocks_and_by_times(
    site: Path, tmp_path: Path
) -> None:
    archive = Archive(FolderStore(site / "archive"), KIT_CHAIN)

    def chosen(start: str | None, end: str | None) -> str:
        return str(choose_blocks(archive, "trades", *both_bounds(start, end)))

    time = {height: block_time(height).replace("+00", "Z") for height in (1, 5, 10, 11, 15, 20)}
    assert chosen(None, None) == chosen("1", "20") == chosen("5", "11") == "1-20"
    assert chosen("5", "6") == chosen(time[1], time[10]) == chosen(time[5], time[5]) == "1-10"
    assert chosen(time[11], None) == chosen(time[15], "99") == chosen("20", time[20]) == "11-20"
    assert chosen(time[10], time[11]) == chosen(time[1][:10], time[20][:10]) == "1-20"
    for start, end in (("21", None), ("2100-01-01", None), (None, "1999-01-01"), ("15", "5")):
        with pytest.raises(RangeError, match=r"is nothing; the archive of .* blocks 1 to 20, "):
            chosen(start, end)

    given = ("--table", "trades", "--from", time[15], "--out", tmp_path)
    done = client("fetch", site / "archive", *given)
    assert done.stderr == "trades over blocks 11-20\n"
    assert (tmp_path / f"{KIT_CHAIN}-trades-11-20.zip").is_file()


def test_a_mirror_is_fetched_verified_and_fetched_from(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "mirror"
    with web_server(site / "archive") as url:
        first = client("fetch", url, "--all", "--out", out, "--json")
        again = client("fetch", url, "--all", "--out", out)
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    (chain,) = json.loads(first.stdout)["chains"]
    assert chain["zips"] == len(chain["fetched"]) == 30
    (heading, row) = again.stdout.strip().splitlines()
    assert heading.split() == ["chain", "ZIPs", "bytes", "fetched", *heading.split()[4:]]
    assert row.split()[:6] == [KIT_CHAIN, "30", f"{chain['bytes']:,}", "0", "0", "0"]
    strata(site, "verify", "--archive", str(out))
    right = content_sha256(site / "exports" / NAME)
    assert fetched(str(out), tmp_path / "range")["sha256"] == right


def test_a_mirror_is_verified_where_nothing_else_is(site: Path, tmp_path: Path) -> None:
    assert client("fetch", site / "archive", "--all", "--out", tmp_path / "mirror").returncode == 0
    environment = {name: v for name, v in os.environ.items() if not name.startswith("STRATA_")}

    def verified(archive: str) -> tuple[int, str]:
        done = run_strata("verify", "--archive", archive, environment=environment, folder=tmp_path)
        return done.returncode, done.stdout + done.stderr

    code, text = verified("mirror")
    assert code == 0, text
    assert "There is no warehouse: " in text
    (path,) = (tmp_path / "mirror" / KIT_CHAIN / "trades").glob("*-trades-1-10.zip")
    whole = path.read_bytes()
    for damaged in (whole[:-1], bytes([whole[0] ^ 1]) + whole[1:], None):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        code, text = verified("mirror")
        assert code == 5
        assert path.name in text
    path.write_bytes(whole)
    assert verified("mirror")[0] == 0
    (tmp_path / "empty").mkdir()
    for nothing in ("empty", "absent"):
        assert verified(nothing)[0] in (2, 5)
    assert not (tmp_path / "strata-data").exists()


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


def test_fetch_takes_a_bucket(
    site: Path, tmp_path: Path, server: BucketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = FolderStore(site / "archive")
    with server.store() as bucket:
        for info in folder.list():
            path = folder.path(info.key)
            bucket.put_if_absent(
                info.key,
                path,
                content_type="application/octet-stream",
                sha256=content_sha256(path),
                immutable=True,
            )
        address = bucket.describe()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    strata(site, "fetch", address, "--table", "trades", "--out", str(tmp_path))

    assert content_sha256(tmp_path / NAME) == content_sha256(site / "exports" / NAME)
    with strata_package.read_export(tmp_path / NAME) as export:
        assert export.table == "trades"
    assert "this needs botocore, which is not installed: pip install 'strata[s3]'" in (
        client("fetch", address, "--table", "trades", "--out", tmp_path).stderr
    ).replace("boto3", "botocore")


def test_what_goes_wrong_is_a_sentence_and_an_exit_code(site: Path, tmp_path: Path) -> None:
    archive = str(site / "archive")
    range_ = client("fetch", archive, "--table", "trades", "--from", 500, "--out", tmp_path)
    nothing = client("fetch", str(tmp_path), "--table", "trades", "--out", tmp_path)
    usage = client("fetch", archive, "--out", tmp_path)
    assert (range_.returncode, nothing.returncode, usage.returncode) == (3, 2, 2)
    assert range_.stderr.startswith("strata: trades from 500: there is nothing; the archive of ")
    assert nothing.stderr.startswith(f"strata: there is no archive at {tmp_path}: ")


def test_what_is_not_installed_is_said_with_what_to_install() -> None:
    done = client("run")
    assert done.returncode == 2
    assert "which is not installed: pip install 'strata[pipeline]'" in done.stderr
