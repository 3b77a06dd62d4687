"""`strata.duckdb` and `strata.sql` at a server's own address, where the archive has none."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import httpx2
import pytest

from api.core.open_snapshots import OpenSnapshots
from api.http import served_database
from api.http.served_database import ServedDatabase
from exporters.archive.public_sql import PUBLIC_TYPES, unsealed_sql
from pipelines.site.lake_publishing import publish_missing
from pipelines.site.site import Site
from tests.api.server_kit import ServerProcess, serving, settings
from tests.docs.cookbook import queries
from tests.duckdb15_kit import asked_over_http
from tests.mounts_kit import mounted
from tests.shared_folders import published_sample
from transforms.stores.store import content_sha256

_CHAIN = "sample-chain-001"


@dataclass(frozen=True)
class Served:
    """A site whose archive has no public address, behind a server."""

    site: Site
    archive: str

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return httpx2.get(f"{self.archive}/{path}", headers=headers, timeout=30)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    site = published_sample(tmp_path_factory.mktemp("sample"))
    given = settings(site.settings)
    hosts = ("data.example.org:8443", "other.example.org")
    with serving(replace(given, listen=replace(given.listen, hosts=hosts))) as server:
        yield Served(site, f"{server.url}/archive")


def test_queries_of_the_cookbook_answer_over_http_as_in_the_warehouse(served: Served) -> None:
    asked = [*islice(queries().values(), 8)]
    with served.site.warehouse.connect() as con:
        con.execute("set timezone = 'Asia/Kolkata'")  # that of who asks
        here = [con.execute(query).fetchall() for query in asked]
    there = asked_over_http(f"{served.archive}/{_CHAIN}/strata.duckdb", asked)
    assert there == json.loads(json.dumps(here, default=str))


def test_both_are_of_each_other_and_name_the_address_that_was_asked(served: Served) -> None:
    sql, database = (served.get(f"{_CHAIN}/{name}") for name in ("strata.sql", "strata.duckdb"))
    statements, sha256 = unsealed_sql(sql.content, "strata.sql")
    assert content_sha256(database.content) == sha256
    assert f"'{served.archive}/{_CHAIN}/lake/orders/" in statements
    assert served.get(f"{_CHAIN}/strata.duckdb").headers["etag"] == database.headers["etag"]
    other = served.get(f"{_CHAIN}/strata.sql", host="data.example.org:8443").text
    assert f"'http://data.example.org:8443/archive/{_CHAIN}/lake/orders/" in other
    assert not any(
        Path(served.site.settings.archive, _CHAIN, name).exists() for name in PUBLIC_TYPES
    )


@pytest.mark.parametrize("host", ["LOCALHOST:9000", "own"])
def test_the_server_knows_the_names_of_its_machine(served: Served, host: str) -> None:
    sql = served.get(f"{_CHAIN}/strata.sql", **({} if host == "own" else {"host": host}))
    address = served.archive if host == "own" else f"http://{host.lower()}/archive"
    assert f"'{address}/{_CHAIN}/lake/orders/" in sql.text


def test_no_other_host_makes_files(served: Served) -> None:
    folder = served.site.warehouse.cache / "served"
    before = {*folder.glob("*")}
    odd = ("a'b", "a b", "a/../b", "localhost:1'", "localhost.", "127.1", "[::]")
    for host in ("x.example.org", "y.example.org", "data.example.org", *odd):
        refused = served.get(f"{_CHAIN}/strata.sql", host=host)
        assert refused.status_code == 404
        assert "STRATA_API_HOSTS" in refused.json()["message"]
        assert served.get(f"{_CHAIN}/strata.duckdb", host=host).status_code == 404
    assert "x.example.org" not in served.get("", host="x.example.org").text
    assert {*folder.glob("*")} == before


def test_a_client_elsewhere_cannot_name_ports_of_this_machine(served: Served) -> None:
    elsewhere = {"x-forwarded-for": "203.0.113.7"}
    port = served.archive.split(":")[2].partition("/")[0]
    path = f"{_CHAIN}/strata.sql"
    assert served.get(path, host=f"127.0.0.1:{port}", **elsewhere).status_code == 200
    assert served.get(path, host="localhost:99", **elsewhere).status_code == 404


def test_another_chain_and_another_name_have_none(served: Served) -> None:
    assert served.get("other-chain/strata.sql").status_code == 404
    assert served.get(f"{_CHAIN}/strata.txt").status_code == 404


def test_a_public_address_is_named_whatever_the_host(served: Served) -> None:
    given = settings(replace(served.site.settings, public_url="https://example.org/archive"))
    with serving(given) as server:
        for host in ("x.example.org", "localhost"):
            path = f"{server.url}/archive/{_CHAIN}/strata.sql"
            sql = httpx2.get(path, headers={"host": host}, timeout=30).text
            assert f"'https://example.org/archive/{_CHAIN}/lake/orders/" in sql


def test_the_page_says_how_to_attach_it(served: Served) -> None:
    assert f"{served.archive}/{_CHAIN}/strata.duckdb" in served.get("").text


@pytest.fixture
def copied(served: Served, tmp_path: Path) -> Site:
    """The same site, to be changed."""
    given = served.site.settings
    warehouse = shutil.copytree(given.warehouse, tmp_path / "warehouse")
    archive = shutil.copytree(given.archive, tmp_path / "archive")
    return Site(replace(given, warehouse=str(warehouse), archive=str(archive)))


def test_processes_of_a_server_answer_with_the_same_bytes_and_old_ones_go(
    copied: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cache = copied.archive(_CHAIN).store, copied.warehouse.cache
    with OpenSnapshots.open(copied.warehouse) as snapshots:
        one, other = (ServedDatabase(snapshots, store, cache) for _ in range(2))
        keys = [
            each.key(f"{_CHAIN}/strata.duckdb", address)
            for each in (one, other)
            for address in ("http://a/archive", "http://b/archive", "")
        ]
        assert keys[:3] == keys[3:]
        assert len({*keys}) == 3
        monkeypatch.setattr(served_database, "_KEPT_SECONDS", -1.0)
        assert one.key(f"{_CHAIN}/strata.sql", "http://c/archive")
        assert len([*(cache / "served").iterdir()]) == 1


def test_the_files_of_all_addresses_have_a_bound_in_bytes(
    copied: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = copied.archive(_CHAIN).store, copied.warehouse.cache / "served"
    shutil.rmtree(folder, ignore_errors=True)
    for age, name in enumerate(("newest", "middle", "oldest")):
        (folder / name).mkdir(parents=True)
        (folder / name / "strata.duckdb").write_bytes(bytes(1000))
        os.utime(folder / name, (time.time() - age, time.time() - age))
    monkeypatch.setattr(served_database, "_KEPT_BYTES", 2500)
    with OpenSnapshots.open(copied.warehouse) as snapshots:
        database = ServedDatabase(snapshots, store, copied.warehouse.cache)
        key = database.key(f"{_CHAIN}/strata.sql", "http://a/archive")
        assert key
        made = (folder / key).parent
        assert {*folder.iterdir()} == {folder / "newest", folder / "middle", made}
        # What another process removed is made again, within the minute, too.
        shutil.rmtree(made)
        assert database.key(f"{_CHAIN}/strata.sql", "http://a/archive") == key
        assert made.exists()


def test_a_full_disk_is_said_to_who_wants_a_database(served: Served, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    folders = [cache / name for name in ("scratch", "served")]
    for folder in folders:
        folder.mkdir(parents=True)
    small = mounted(" && ".join(f"mount -t tmpfs -o size=4k none '{each}'" for each in folders))
    places = replace(served.site.settings, cache=cache)
    with ServerProcess(places, "--no-grpc", through=small) as process:
        answer = httpx2.get(f"{process.url}/archive/{_CHAIN}/strata.sql", timeout=60)
        assert answer.status_code == 503, answer.text
        assert "No space left on device" in answer.json()["message"]
        assert str(tmp_path) not in answer.text
        assert httpx2.get(process.url + "/ready").status_code == 200
        logged = process.logged()
    assert str(cache) in logged
    assert "Traceback" not in logged


def test_what_the_publisher_wrote_is_served_as_it_is(copied: Site) -> None:
    public = Site(replace(copied.settings, public_url="https://example.org/archive"))
    assert not publish_missing(public)
    with serving(settings(copied.settings)) as server:
        sql = httpx2.get(f"{server.url}/archive/{_CHAIN}/strata.sql").content
    assert sql == Path(copied.settings.archive, _CHAIN, "strata.sql").read_bytes()


def test_without_a_lake_there_is_none(copied: Site) -> None:
    shutil.rmtree(Path(copied.settings.archive, _CHAIN, "lake"))
    with serving(settings(copied.settings)) as server:
        assert httpx2.get(f"{server.url}/archive/{_CHAIN}/strata.sql").status_code == 404
