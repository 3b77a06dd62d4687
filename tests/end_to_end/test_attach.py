"""An archive behind a web server, asked with one ATTACH: `strata.duckdb` and `strata.sql`."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from exporters.mirroring.mirror import mirror
from pipelines.commands.group import strata
from pipelines.settings import Settings
from pipelines.site.lake_publishing import publish_missing
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.api.server_kit import serving, settings
from tests.docs.cookbook import archive_queries, queries
from tests.duckdb15_kit import asked_over_http
from tests.exporters.lake.lake_kit import named_files, odd_start
from tests.fault_proxy import FaultProxy, Request
from tests.pipelines.kit import site_settings
from tests.shared_folders import add_last, publish_all, published_sample
from tests.transforms.warehouse_kit import cells_without_value
from tests.web_files_kit import WebFiles
from transforms.verifying.verification import Verification

_CHAIN = "sample-chain-001"
_LISTS = (
    "select function_name, macro_definition from duckdb_functions() "
    "where schema_name = 'strata' and function_name like 'files%' order by all"
)
_VIEWS = "select schema_name, view_name from duckdb_views() where not internal order by all"
_COLUMNS = (
    "select schema_name, table_name, column_name, data_type from duckdb_columns() "
    "where database_name = current_database() and not internal order by 1, 2, column_index"
)
_NAMES = ("strata.duckdb", "strata.sql")
_NOT_THE_SAME = ("conditions",)
"""Views that a warehouse has not."""


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
    """One that a server shows there, which counts the requests.

    Besides what its folder and its list of hashes had before it was given an address, and the
    files that `strata.sql` named before the last segment came.
    """

    door: FaultProxy
    folder_without_address: Sequence[str]
    sums_without_address: str
    first_files: frozenset[tuple[str, str]]

    @property
    def address(self) -> str:
        """Of the database."""
        return f"{self.door.url}/archive/{_CHAIN}/strata.duckdb"


def _named_files(published: Published) -> frozenset[tuple[str, str]]:
    """The table and the name of each file of the lake that `strata.sql` names."""
    return frozenset(named_files(published.read("strata.sql").decode()))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """The sample behind `strata serve`, its last segment published after the others."""
    folder = tmp_path_factory.mktemp("sample")
    bare = Published(published_sample(folder))
    places = bare.site.settings
    names = sorted(path.name for path in bare.folder.iterdir())
    sums = bare.read("SHA256SUMS").decode()
    with serving(settings(places)) as served:
        door = FaultProxy(served.url)
        site = Site(replace(places, public_url=f"{door.url}/archive"))
        assert not publish_missing(site)
        first_files = _named_files(Published(site))
        add_last(site)
        publish_all(site)
        yield Shown(site, door, names, sums, first_files)
        door.stop()


@pytest.fixture(scope="module")
def local(published: Published) -> Iterator[duckdb.DuckDBPyConnection]:
    with published.site.warehouse.connect():
        pass  # the file of views is there, and new
    with duckdb.connect(published.site.warehouse.current, read_only=True) as con:
        con.execute("set timezone = 'Asia/Kolkata'")
        yield con


@pytest.fixture(scope="module")
def contents(local: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], Any]:
    """Columns, count and hash of the rows of each view of the warehouse, by schema and name."""
    return _contents(local, local.execute(_VIEWS).fetchall())


def test_every_query_of_the_cookbook_answers_over_http_as_in_the_warehouse(
    published: Shown, local: duckdb.DuckDBPyConnection
) -> None:
    asked = list(queries().values())
    here = [local.execute(query).fetchall() for query in asked]
    assert len(asked) >= 20
    assert asked_over_http(published.address, asked) == json.loads(json.dumps(here, default=str))


def test_what_the_cookbook_asks_of_an_archive_is_answered_over_http(published: Shown) -> None:
    ((rows,),) = [
        asked_over_http(published.address, [query]) for query in archive_queries().values()
    ]
    (day,) = json.loads(published.read("conditions.json"))["days"]
    assert rows == [[day[name] for name in ("date", "condition", "from", "to", "reason")]]
    assert day["reason"].startswith("newest block 7000")


def test_views_of_tables_have_the_rows_and_columns_of_the_warehouse_in_2_0(
    published: Published,
    local: duckdb.DuckDBPyConnection,
    contents: dict[tuple[str, str], Any],
) -> None:
    with duckdb.connect() as con:
        con.register_filesystem(WebFiles())
        con.execute("set timezone = 'Asia/Kolkata'")
        con.execute(published.read("strata.sql").decode())
        there = con.execute(_VIEWS).fetchall()
        # A table that history took over: its last copy is of an older current state.
        assert {*contents} - {*there} == {
            ("main", "oracle_data_current"),
            ("exact", "oracle_data_current"),
        }
        compared = [view for view in there if view[1] not in _NOT_THE_SAME]
        assert len(compared) > 100
        for view, content in _contents(con, compared).items():
            assert content == contents[view], view
        snapshot = "select last_block, age(now(), time) < interval 1 day from strata.snapshot"
        assert con.execute(snapshot).fetchall() == [(7000, True)]


def test_what_is_attached_in_2_0_has_the_same_views_and_answers(
    published: Published, contents: dict[tuple[str, str], Any], tmp_path: Path
) -> None:
    """Of one view in eight the rows: those of all are compared where the statements are run."""
    shutil.copy(published.folder / "strata.duckdb", tmp_path)
    with duckdb.connect() as made, duckdb.connect() as con:
        for each in (made, con):
            each.register_filesystem(WebFiles())
        made.execute(published.read("strata.sql").decode())
        con.execute(f"attach '{tmp_path / 'strata.duckdb'}' as vega (read_only); use vega")
        con.execute("set timezone = 'Asia/Kolkata'")
        there = con.execute(_VIEWS).fetchall()
        assert there == made.execute(_VIEWS).fetchall()
        assert con.execute(_LISTS).fetchall() == made.execute(_LISTS).fetchall() != []
        compared = [view for view in there if view[1] not in _NOT_THE_SAME]
        for view, content in _contents(con, compared[::8]).items():
            assert content == contents[view], view


def _contents(
    con: duckdb.DuckDBPyConnection, views: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Any]:
    """Columns with their types, count and hash of the rows of each of these views."""
    columns: dict[tuple[str, str], list[tuple[str, str]]] = {view: [] for view in views}
    for schema, view, *column in con.execute(_COLUMNS).fetchall():
        if (schema, view) in columns:
            columns[schema, view].append(tuple(column))
    return {view: (columns[view], _rows(con, view, columns[view])) for view in views}


def _rows(
    con: duckdb.DuckDBPyConnection, view: tuple[str, str], columns: Sequence[tuple[str, str]]
) -> Any:
    texts = ", ".join(f'"{column}"::varchar' for column, _ in columns)
    query = f'select to_json([{texts}])::varchar as line from {view[0]}."{view[1]}"'
    query = f"select count(*), md5(string_agg(line, '' order by line)) from ({query})"
    return con.execute(query).fetchall()


def test_unfit_counts_the_cells_that_are_null_there(tmp_path: Path) -> None:
    address = "https://example.org/archive"
    site = Site(replace(site_settings(tmp_path), lake=True, batch=8, public_url=address))
    odd_start(Path(site.settings.source))
    publish_all(site)
    (statements,) = Path(site.settings.archive).glob("*/strata.sql")
    with duckdb.connect() as con:
        con.execute(statements.read_text().replace(address, site.settings.archive))
        unfit = con.execute("from strata.unfit order by all").fetchall()
        assert unfit == cells_without_value(con)
        assert ("positions", "loss") in {cells[:2] for cells in unfit}


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
        asked_over_http(published.address, [query])
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
    """What a check of the hashes finds; of documents all are read."""
    check = Verification(is_quick=True)
    return [str(finding) for finding in verify_site(Site(published.site.settings), check)]


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


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * (0.9999 if path.suffix == ".duckdb" else 0.5))] ^= 1
    path.write_bytes(data)


def test_what_is_damaged_or_gone_is_found_and_mended_by_the_remedy_that_is_named(
    published: Published, tmp_path: Path
) -> None:
    copy = published.copied(tmp_path)
    for name, other in permutations(_NAMES):
        sound = (copy.folder / name).read_bytes()
        _flip(copy.folder / name)
        (finding,) = (text for text in _findings(copy) if name in text)
        assert finding.endswith("run strata publish; with STRATA_PUBLIC_URL set")
        (copy.folder / name).write_bytes(sound)
        (copy.folder / other).unlink()
        assert _findings(copy)  # that the statements are gone is seen where all files are listed
        _flip(copy.folder / name)
        _publish(copy)
        assert _findings(copy) == []


def test_a_file_that_the_statements_name_and_that_is_gone_is_found(
    published: Published, tmp_path: Path
) -> None:
    copy = published.copied(tmp_path)
    path = "lake/{}/{}".format(*named_files(copy.read("strata.sql").decode())[0])
    (copy.folder / path).unlink()
    assert any(path in text for text in _findings(copy))


# --- when they are written


def test_both_stay_as_they_are_until_the_lake_has_other_files(
    published: Published, tmp_path: Path
) -> None:
    copy = published.copied(tmp_path)
    before = [copy.read(name) for name in _NAMES]
    _publish(copy)
    assert [copy.read(name) for name in _NAMES] == before
    moved = replace(copy.site.settings, public_url="https://example.org/archive")
    assert not publish_missing(Site(moved))
    assert b"'https://example.org/archive/sample-chain-001/lake/orders/" in copy.read("strata.sql")
    assert all(copy.read(name) != data for name, data in zip(_NAMES, before, strict=True))
    assert _findings(copy) == []


def test_a_new_segment_changes_both_and_leaves_the_files_that_the_last_ones_name(
    published: Shown,
) -> None:
    files = _named_files(published)
    assert files != published.first_files
    for table, name in files | published.first_files:
        assert (published.folder / "lake" / table / name).exists()
    assert _findings(published) == []


def test_nothing_is_written_without_an_address(published: Shown) -> None:
    assert "SHA256SUMS" in published.folder_without_address
    assert not [name for name in published.folder_without_address if name.startswith("strata")]
    assert "strata" not in published.sums_without_address


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
    assert (out / _CHAIN / "SHA256SUMS").read_text().splitlines() == sums
    copy = Settings(source="", warehouse=str(tmp_path / "none"), archive=str(out), lake=False)
    found = verify_site(Site(copy), archive_alone=True)
    assert [str(finding) for finding in found if "strata." in finding.place] == []
