"""An archive behind a web server, asked with one ATTACH: `strata.duckdb` and `strata.sql`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from exporters.fetching.mirror import mirror
from pipelines.commands.group import strata
from pipelines.sample_history import copy_sample
from pipelines.settings import Settings
from pipelines.site.lake_publishing import publish_missing
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.api.server_kit import serving, settings
from tests.fault_proxy import FaultProxy, Request
from tests.pipelines.kit import load, site_settings
from tests.web_files_kit import WebFiles
from transforms.lake.public_views import file_lists

_ROOT = Path(__file__).parents[2]
_WITH_HTTPFS = _ROOT / ".venv" / "duckdb-extensions"
_QUERIES: dict[str, str] = dict(
    re.findall(
        r"^### (.*?)$.*?^```sql$\n(.*?)^```$",
        (_ROOT / "docs" / "cookbook.md").read_text("utf-8"),
        re.S | re.M,
    )
)
_CHAIN = "sample-chain-001"
_NAMES = ("strata.duckdb", "strata.sql")

# Texts, as clients of two releases make other values of some types.
_ASK = """
import json, sys
from pathlib import Path
import duckdb

con = duckdb.connect()
extension, = Path(duckdb.__file__).parents[1].glob("duckdb_extension_httpfs/**/*.duckdb_extension")
con.execute(f"load '{extension}'")
con.execute(f"attach '{sys.argv[1]}' as vega (read_only)")
con.execute("use vega")
con.execute("set timezone = 'Asia/Kolkata'")
rows = [con.execute(query).fetchall() for query in json.load(sys.stdin)]
print(json.dumps([duckdb.__version__, rows], default=str))
"""


@dataclass(frozen=True)
class Published:
    """A site with an archive that has a public address."""

    site: Site

    @property
    def folder(self) -> Path:
        return Path(self.site.settings.archive, _CHAIN)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def copied(self, folder: Path) -> Published:
        """The same in another folder, to be changed; the address stays."""
        given = self.site.settings
        for place in (given.source, given.warehouse, given.archive):
            shutil.copytree(place, folder / Path(place).name)
        places = site_settings(folder)
        changed = replace(
            given,
            source=places.source,
            warehouse=places.warehouse,
            archive=places.archive,
        )
        return Published(Site(changed))


@dataclass(frozen=True)
class Shown(Published):
    """One that a server shows there, which counts the requests."""

    door: FaultProxy


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """The sample, published in two batches, behind `strata serve`."""
    places = site_settings(tmp_path_factory.mktemp("sample"))
    copy_sample(Path(places.source))
    load(Site(places))
    publish_segments(Site(places), Site(places).loaded_catalog().blocks)
    with serving(settings(places)) as served:
        door = FaultProxy(served.url)
        given = replace(places, lake=True, batch=4, public_url=f"{door.url}/archive")
        site = Site(given)
        assert not publish_missing(site).refused
        yield Shown(site, door)
        door.stop()


def _asked_15(published: Shown, queries: Sequence[str]) -> list[Any]:
    """What DuckDB 1.5 with httpfs alone answers."""
    if not _WITH_HTTPFS.exists():
        pytest.fail(f"{_WITH_HTTPFS} is not there: run `make .venv/duckdb-extensions/.installed`")
    done = subprocess.run(
        [sys.executable, "-c", _ASK, f"{published.door.url}/archive/{_CHAIN}/strata.duckdb"],
        env={**os.environ, "PYTHONPATH": str(_WITH_HTTPFS)},
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    version, rows = json.loads(done.stdout)
    assert version.startswith("1.5.")
    return list(rows)


@pytest.fixture(scope="module")
def local(published: Published) -> Iterator[duckdb.DuckDBPyConnection]:
    with published.site.warehouse.connect():
        pass  # the file of views is there, and new
    with duckdb.connect(published.site.warehouse.current, read_only=True) as con:
        con.execute("set timezone = 'Asia/Kolkata'")
        yield con


def test_every_query_of_the_cookbook_answers_over_http_as_in_the_warehouse(
    published: Shown, local: duckdb.DuckDBPyConnection
) -> None:
    queries = list(_QUERIES.values())
    here = [local.execute(query).fetchall() for query in queries]
    assert len(queries) >= 20
    assert _asked_15(published, queries) == json.loads(json.dumps(here, default=str))


@pytest.mark.parametrize("has_file", [True, False], ids=["attached", "statements"])
def test_views_of_tables_have_the_rows_and_columns_of_the_warehouse_in_2_0(
    published: Published,
    local: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    *,
    has_file: bool,
) -> None:
    with duckdb.connect() as con:
        con.register_filesystem(WebFiles())
        con.execute("set timezone = 'Asia/Kolkata'")
        if has_file:
            shutil.copy(published.folder / "strata.duckdb", tmp_path)
            con.execute(f"attach '{tmp_path / 'strata.duckdb'}' as vega (read_only); use vega")
        else:
            con.execute(published.read("strata.sql").decode())
        views = "select schema_name, view_name from duckdb_views() where not internal order by all"
        there = con.execute(views).fetchall()
        # A table that history took over: its last copy is of an older current state.
        assert {*local.execute(views).fetchall()} - {*there} == {
            ("main", "oracle_data_current"),
            ("exact", "oracle_data_current"),
        }
        compared = [view for view in there if view[1] not in ("receipts", "segments")]
        assert len(compared) > 100
        for schema, view in compared:
            assert _content(con, schema, view) == _content(local, schema, view), (schema, view)
        counts = (
            "select table_name, first_block, rows, bytes, sha256 from strata.receipts order by all"
        )
        assert con.execute(counts).fetchall() == local.execute(counts).fetchall()
        generation = "select last_block, age(now(), time) < interval 1 day from strata.generation"
        assert con.execute(generation).fetchall() == [(7000, True)]


def _content(con: duckdb.DuckDBPyConnection, schema: str, view: str) -> Any:
    columns = con.execute(f'describe {schema}."{view}"').fetchall()
    texts = ", ".join(f'"{column[0]}"::varchar' for column in columns)
    query = f'select to_json([{texts}])::varchar as line from {schema}."{view}"'
    rows = con.execute(f"select count(*), md5(string_agg(line, '' order by line)) from ({query})")
    return [column[:2] for column in columns], rows.fetchall()


def test_an_answer_takes_a_dozen_requests_and_not_the_tables(published: Shown) -> None:
    sizes: list[int] = []

    def note(request: Request) -> str:
        first, _, last = request.header("Range").removeprefix("bytes=").partition("-")
        sizes.append(int(last) - int(first) + 1 if last else 0)
        return ""

    published.door.on_request = note
    asked = []
    for query in ("select 1", "select count(*) from orders", _SUM):
        sizes.clear()
        _asked_15(published, [query])
        asked.append((len(sizes), sum(sizes)))
    published.door.on_request = lambda _: None
    (attach, attach_bytes), *answers = asked
    assert attach <= 12
    assert attach_bytes <= 2 * len(published.read("strata.duckdb")) + 100_000
    for requests, size in answers:
        assert requests - attach <= 8
        assert size - attach_bytes <= 200_000


_SUM = "select sum(size) from trades where vega_time >= '2023-06-01 01:00:00+00'"


def test_what_a_table_means_is_said_there(published: Published, tmp_path: Path) -> None:
    shutil.copy(published.folder / "strata.duckdb", tmp_path)
    with duckdb.connect(tmp_path / "strata.duckdb", read_only=True) as con:
        comments = "select column_name, comment from duckdb_columns() where schema_name = 'main'"
        assert sum(bool(comment) for _, comment in con.execute(comments).fetchall()) > 500
        tags = "select tags['storage_version'] from duckdb_databases() where not internal"
        assert con.execute(tags).fetchall() == [("v1.5.0+",)]


# --- damage


def _findings(published: Published) -> list[str]:
    return [str(finding) for finding in verify_site(Site(published.site.settings))]


def _publish(published: Published) -> None:
    """`strata publish`, as the message of a finding names it."""
    given = published.site.settings
    environment = {
        "STRATA_SOURCE": given.source,
        "STRATA_WAREHOUSE": given.warehouse,
        "STRATA_ARCHIVE": given.archive,
        "STRATA_PUBLIC_URL": given.public_url,
    }
    done = CliRunner().invoke(strata, ["publish"], env=environment)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("name", "place"),
    [("strata.duckdb", 0.9999), ("strata.sql", 0.5)],
)
def test_a_foreign_byte_is_found_and_mended_by_the_remedy_that_is_named(
    published: Published, tmp_path: Path, name: str, place: float
) -> None:
    copy = published.copied(tmp_path)
    data = bytearray(copy.read(name))
    data[int(len(data) * place)] ^= 1
    (copy.folder / name).write_bytes(data)
    (finding,) = [text for text in _findings(copy) if name in text]
    assert finding.endswith("run strata publish; with STRATA_PUBLIC_URL set")
    _publish(copy)
    assert _findings(copy) == []


@pytest.mark.parametrize("names", [_NAMES[:1], _NAMES[1:]])
def test_what_is_gone_is_made_again(
    published: Published, tmp_path: Path, names: Sequence[str]
) -> None:
    copy = published.copied(tmp_path)
    for name in names:
        (copy.folder / name).unlink()
    assert _findings(copy)
    _publish(copy)
    assert _findings(copy) == []
    assert all((copy.folder / name).exists() for name in _NAMES)


def test_statements_that_the_lake_no_longer_serves_are_found(
    published: Published, tmp_path: Path
) -> None:
    copy = published.copied(tmp_path)
    listed = next(file_lists(copy.read("strata.sql").decode()))
    (copy.folder / "lake" / listed.table / listed.files[0]).unlink()
    path = f"lake/{listed.table}/{listed.files[0]}"
    assert any(f"it names {path}, which is not there" in text for text in _findings(copy))


# --- when they are written


def test_both_stay_as_they_are_until_the_lake_has_other_files(
    published: Published, tmp_path: Path
) -> None:
    copy = published.copied(tmp_path)
    before = [copy.read(name) for name in _NAMES]
    _publish(copy)
    assert [copy.read(name) for name in _NAMES] == before
    moved = replace(copy.site.settings, public_url="https://example.org/archive")
    assert not publish_missing(Site(moved)).refused
    assert b"'https://example.org/archive/sample-chain-001/lake/orders/" in copy.read("strata.sql")
    assert all(copy.read(name) != data for name, data in zip(_NAMES, before, strict=True))
    assert _findings(copy) == []


def test_a_new_segment_changes_both_and_leaves_the_files_that_the_last_ones_name(
    tmp_path: Path,
) -> None:
    places = site_settings(tmp_path)
    copy_sample(Path(places.source))
    late = sorted(Path(places.source).glob("*6451-7000.zip"))[0]
    late.rename(tmp_path / late.name)
    copy = Published(Site(replace(places, lake=True, public_url="https://example.org/archive")))
    listed = []
    for number in range(2):
        if number:
            (tmp_path / late.name).rename(late)
        site = Site(copy.site.settings)
        load(site)
        publish_segments(site, site.loaded_catalog().blocks)
        assert not publish_missing(site).refused
        listed.append([*file_lists(copy.read("strata.sql").decode())])
    first, second = ({(one.table, f) for one in lists for f in one.files} for lists in listed)
    assert first != second
    assert all((copy.folder / "lake" / table / file).exists() for table, file in first | second)
    assert _findings(copy) == []


def test_nothing_is_written_without_an_address(tmp_path: Path) -> None:
    places = site_settings(tmp_path)
    copy_sample(Path(places.source))
    site = Site(replace(places, lake=True))
    load(site)
    publish_segments(site, site.loaded_catalog().blocks)
    assert not publish_missing(site).refused
    folder = Path(places.archive, _CHAIN)
    assert [*folder.glob("strata*")] == []
    assert "strata" not in (folder / "SHA256SUMS").read_text()


# --- what follows


def test_the_list_of_hashes_names_both_and_a_mirror_has_them_to_the_byte(
    published: Published, tmp_path: Path
) -> None:
    sums = published.read("SHA256SUMS").decode().splitlines()
    for name in _NAMES:
        assert f"{hashlib.sha256(published.read(name)).hexdigest()}  {name}" in sums
    out = tmp_path / "mirror"
    mirror(published.site.archive(_CHAIN), out)
    for name in _NAMES:
        assert (out / _CHAIN / name).read_bytes() == published.read(name)
    # The index of a mirror says that it has no lake; all other lines are the same.
    mirrored = (out / _CHAIN / "SHA256SUMS").read_text().splitlines()
    others = [line.split("  ")[1] for line in sums if line not in mirrored]
    assert others == ["index.json", "latest.json"]
    copy = Settings(source="", warehouse=str(tmp_path / "none"), archive=str(out), lake=False)
    found = verify_site(Site(copy), archive_alone=True)
    assert [str(finding) for finding in found if "strata." in finding.place] == []
