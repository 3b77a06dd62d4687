"""Checking the lake: every kind of damage is found, and what the finding says mends it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction, RemoveAction
from duckdb import DuckDBPyConnection

from exporters.verifying import named_files
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.damage_kit import replace_table
from tests.pipelines.kit import load, make_segment, site_settings
from tests.pipelines.place_kit import Place, advised, flip, follow, mended, one, placed, remedied
from tests.s3_kit import bucket_server
from tests.segments_kit import KIT_CHAIN, table_rows
from transforms.tables.registry import HISTORY_TABLES, known_tables
from transforms.verifying.verification import Verification
from transforms.warehouse.checks import file_check
from transforms.warehouse.load.rendering import rendering_problem
from transforms.warehouse.manifests.receipts import Receipt

CHECK = ("verify",)
WEEK = 7 * 24 * 3600.0


def rows_of(first: int) -> dict[str, object]:
    """Orders and deposits of a segment, with an amount that no decimal of 38 digits holds."""
    orders = [{"id": f"\\x{first:04d}{number:060x}", "size": str(number)} for number in range(5)]
    deposits = [{"amount": amount} for amount in ("12", "9" * 60)]
    return {
        "orders": table_rows("orders", *orders, first=first),
        "deposits": table_rows("deposits", *deposits, first=first),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments, published: the first two at once, the third one later."""
    folder = tmp_path_factory.mktemp("model")
    settings = replace(site_settings(folder), lake=True)
    with pytest.MonkeyPatch.context() as patch:
        place = placed(settings, patch)
        for numbers in ((0, 1), (2,)):
            for number in numbers:
                make_segment(settings, number, tables=rows_of(number * 10 + 1))
            load(Site(settings))
            place.run("publish")
        assert place.verify()[1]["findings"] == []
    return folder


@pytest.fixture
def place(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the model."""
    folder = tmp_path / "copy"
    shutil.copytree(model, folder)
    settings = replace(site_settings(tmp_path / "x"), lake=True, **_places(folder))
    monkeypatch.chdir(tmp_path)
    return placed(settings, monkeypatch)


def _places(folder: Path) -> dict[str, Any]:
    return {name: str(folder / name) for name in ("source", "warehouse", "archive")}


def found(place: Place, *options: str) -> list[tuple[str, str]]:
    """The problems, and where they are in the lake."""
    return problems(place, place.json(*CHECK, *options)[1]["findings"])


def problems(place: Place, rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["problem"], row["where"].removeprefix(f"{place.lake}/")) for row in rows]


def orders(place: Place) -> Path:
    return one(place.lake, "orders/1-20.*.parquet")


def _state(place: Place) -> Path:
    """The newest file of current state: its name has the hash of its CSV, too."""
    files = [path for path in place.lake.glob("*/*.parquet") if path.name.count(".") == 3]
    return max(files, key=lambda path: int(path.name.split("-")[0]))


FILES: dict[str, Callable[[Place], Path]] = {
    "rows": orders,
    "manifests": lambda place: one(place.lake, "manifests/1-20.*.parquet"),
    "current state": _state,
}
DAMAGES: dict[str, Callable[[Path], object]] = {"gone": Path.unlink, "flipped": flip}


def test_all_of_a_sound_lake_is_read_and_counted(place: Place) -> None:
    code, said = place.json(*CHECK)
    read = said["read"]
    # Two of each table with rows, and of manifests; of current state a table and its manifest.
    files = 2 * 4 + 2
    assert (code, said["findings"]) == (0, [])
    assert all(count["read"] == count["expected"] for count in read.values())
    assert read["lake_files"]["read"] == files
    assert "archive, index, lake, warehouse" in place.run(*CHECK)[1]


def test_each_damaged_file_is_found_and_its_remedy_mends_it(place: Place) -> None:
    """One after the other: of what is mended, the next check finds nothing.

    Manifests alone, as the other files are held to them. Current state is written as of now.
    """
    for damage in DAMAGES:
        for names in (("rows", "current state"), ("manifests",)):
            whole = {path: path.read_bytes() for path in (FILES[name](place) for name in names)}
            for path in whole:
                DAMAGES[damage](path)
            wheres = {row["where"] for row in remedied(place, *CHECK)}
            assert wheres == {str(path) for path in whole}, damage
            history = whole.keys() - {path for path in whole if path.name.count(".") == 3}
            assert {path: path.read_bytes() for path in history} == {
                path: whole[path] for path in history
            }
    assert place.verify()[1]["findings"] == []


def test_a_file_that_rots_for_warehouse_and_lake_alike_is_loaded_and_published_again(
    place: Place,
) -> None:
    path = orders(place)
    place.run("publish", "--replace", "WHY")
    shutil.rmtree(place.lake / "orders")
    place.run("publish")
    path = orders(place)
    data = one(Path(place.settings.warehouse), f"data/orders/*.{path.name.split('.')[1]}*.parquet")
    assert path.samefile(data)
    mode = path.stat().st_mode
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    path.chmod(mode)

    places = {row["where"] for row in mended(place, path)}

    assert {str(path), str(data)} <= places
    assert place.verify()[1]["findings"] == []


def test_a_quick_check_misses_no_file_that_is_gone(place: Place) -> None:
    assert place.verify("--quick")[0] == 0
    code, said = place.json(*CHECK, "--quick")
    assert (code, said["read"]["lake_files"]["read"]) == (0, 0)
    for path in [choose(place) for choose in FILES.values()]:
        path.unlink()
    assert [problem for problem, _ in found(place, "--quick")] == ["missing"] * 3


# --- logs ----------------------------------------------------------------------------------------


def committed(
    place: Place, table: str, change: Callable[[pa.Table], pa.Table], *, statistics: str = ""
) -> Path:
    """Put other rows in the place of a table's first file, as Strata would: by the right name."""
    old = one(place.lake, f"{table}/1-20.*.parquet")
    new = old.with_name("new.parquet")
    pq.write_table(change(pq.read_table(old)), new)
    digest = hashlib.sha256(new.read_bytes()).hexdigest()
    new = new.rename(old.with_name(f"1-20.{digest[:16]}.parquet"))
    name(place, table, new, statistics or stored_statistics(place, table, old.name), old)
    return new


def name(place: Place, table: str, path: Path, statistics: str, old: Path | None = None) -> None:
    held = DeltaTable(place.lake / table)
    now = int(time.time() * 1000)
    gone = [RemoveAction(old.name, True, now, old.stat().st_size, {})] if old else []
    added = AddAction(path.name, path.stat().st_size, {}, now, True, statistics)
    last = held.transaction_version("strata") or 0
    held.create_write_transaction(
        [*gone, added],
        "append",
        held.schema(),
        commit_properties=CommitProperties(app_transactions=[Transaction("strata", last + 1, now)]),
    )


def stored_statistics(place: Place, table: str, file: str) -> str:
    for path in sorted((place.lake / table / "_delta_log").glob("*.json"), reverse=True):
        for line in path.read_text().splitlines():
            added = json.loads(line).get("add")
            if added and added["path"] == file:
                return str(added["stats"])
    raise AssertionError(file)


def test_other_rows_than_those_published_are_found_and_replaced(place: Place) -> None:
    def change(rows: pa.Table) -> pa.Table:
        at = rows.column_names.index("size")
        return rows.set_column(at, rows.schema.field(at), pa.array([7] * 10, rows.schema[at].type))

    assert pq.read_table(orders(place)).schema.field("size").type == pa.int64()
    path = committed(place, "orders", change)
    where = str(path.relative_to(place.lake))
    assert ("disagreement", where) in problems(place, mended(place, path, *CHECK))
    assert place.verify()[0] == 0


def test_a_table_that_has_blocks_twice_is_found_and_corrected(place: Place) -> None:
    path = orders(place)
    other = path.with_name("1-20.0123456789abcdef.parquet")
    shutil.copyfile(path, other)
    name(place, "orders", other, stored_statistics(place, "orders", path.name))
    findings = mended(place, place.lake / "orders", *CHECK)
    assert ("damaged", "orders/_delta_log") in problems(place, findings)
    assert {file.name for file in _active(place, "orders")} == {
        path.name,
        one(place.lake, "orders/21-30.*").name,
    }


def _active(place: Place, table: str) -> list[Path]:
    return [Path(uri) for uri in DeltaTable(place.lake / table).file_uris()]


@pytest.mark.parametrize("table", ["orders", "manifests"])
def test_what_a_foreign_writer_added_is_found_and_named_no_longer(place: Place, table: str) -> None:
    rows = pq.read_table(one(place.lake, f"{table}/21-30.*.parquet"))
    write_deltalake(place.lake / table, rows, mode="append")
    findings = mended(place, place.lake / table, *CHECK)
    assert problems(place, findings) == [("damaged", f"{table}/_delta_log")]
    assert len(_active(place, table)) == 2


def test_what_a_foreign_writer_compacted_is_put_back_from_the_warehouse(place: Place) -> None:
    assert DeltaTable(place.lake / "orders").optimize.compact()["numFilesRemoved"] == 2
    findings = mended(place, place.lake / "orders", *CHECK)
    assert ("damaged", "orders/_delta_log") in problems(place, findings)
    assert sum(pq.read_metadata(file).num_rows for file in _active(place, "orders")) == 15


def test_a_foreign_file_in_a_table_of_current_state_is_named_no_longer(place: Place) -> None:
    path = _state(place)
    write_deltalake(path.parent, pq.read_table(path), mode="overwrite")
    findings = mended(place, path.parent, *CHECK)
    assert problems(place, findings) == [("damaged", f"{path.parent.name}/_delta_log")]
    assert _active(place, path.parent.name) == [_state(place)]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Lakes of the same chain with other rows, whose only volume has so many segments."""

    state = next(table for table in known_tables(1) if table not in HISTORY_TABLES)

    @cache
    def made(segments: int) -> Path:
        settings = replace(site_settings(tmp_path_factory.mktemp("foreign")), lake=True)
        with pytest.MonkeyPatch.context() as patch:
            place = placed(settings, patch)
            for number in range(segments):
                rows = rows_of(number * 10 + 501)
                rows[state] = table_rows(state, {}, {})
                make_segment(settings, number, tables=rows)
            load(Site(settings))
            place.run("publish")
        return place.lake

    return made


@pytest.mark.parametrize("segments", [1, 3, 4])
@pytest.mark.parametrize("tables", [("orders",), ("deposits", "manifests"), ("state",), ("all",)])
def test_a_table_of_another_lake_is_found_and_replaced(
    place: Place, foreign: Callable[[int], Path], segments: int, tables: Sequence[str]
) -> None:
    before = contents_of(place)
    names = [path.parent.name for path in place.lake.glob("*/_delta_log")]
    history = [name for name in names if _is_history(place, name)]
    states = [name for name in names if name not in (*history, "state_manifest")]
    tables = {"all": history, "state": states}.get(tables[0], tables)
    segments = min(segments, 3) if tables == states else segments  # a newer state may be right
    for table in tables:
        replace_table(place.lake, foreign(segments), table)
    alone = ("--archive", str(place.archive))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("STRATA_WAREHOUSE")
        patch.delenv("STRATA_SOURCE")
        for options in ((*alone, "--quick"), alone):
            assert place.verify(*options)[0] == 5, options
    assert place.verify("--quick")[0] == 5
    mended(place, place.lake / tables[0])
    assert contents_of(place) == before


def _is_history(place: Place, table: str) -> bool:
    return all(path.name.count(".") == 2 for path in (place.lake / table).glob("*.parquet"))


def contents_of(place: Place) -> dict[str, list[str]]:
    """The names of the active files of each table of history, which have their hashes."""
    tables = [path.parent.name for path in place.lake.glob("*/_delta_log")]
    return {
        table: sorted(path.name for path in _active(place, table))
        for table in tables
        if _is_history(place, table)
    }


def _cut_short(log: Path) -> None:
    path = max(log.glob("*.json"))
    path.write_bytes(path.read_bytes()[:-9])


def _without_a_commit(log: Path) -> None:
    assert not [*log.glob("*.checkpoint.parquet")]  # with one nobody needs the commit
    (log / f"{0:020}.json").unlink()


LOGS: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("orders", _cut_short),
    ("deposits", _without_a_commit),
    ("orders", shutil.rmtree),
    ("manifests", shutil.rmtree),
)


def test_a_log_that_is_lost_or_damaged_is_made_again(place: Place) -> None:
    """One after the other: all that a check finds is of the table that has just been damaged."""
    for table, damage in LOGS:
        log = place.lake / table / "_delta_log"
        damage(log)
        findings = mended(place, log, *CHECK)
        tables = {where.partition("/")[0] for _, where in problems(place, findings)}
        assert tables - {""} == {log.parent.name}
    assert place.verify()[0] == 0


def test_rows_that_another_engine_deleted_by_a_vector_are_found_and_come_back(
    place: Place,
) -> None:
    path, log = orders(place), place.lake / "orders" / "_delta_log"
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    added = {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": stored_statistics(place, "orders", path.name),
        "deletionVector": {**vector, "sizeInBytes": 40, "cardinality": 6},
    }
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    removed = {"path": path.name, "deletionTimestamp": 1, "dataChange": True}
    number = int(max(log.glob("*.json")).stem) + 1
    actions = [{"protocol": protocol}, {"remove": removed}, {"add": added}]
    (log / f"{number:020}.json").write_text("".join(f"{json.dumps(one)}\n" for one in actions))
    findings = mended(place, log, *CHECK)
    assert ("damaged", "orders/_delta_log") in problems(place, findings)


@pytest.mark.parametrize("seed", range(2))
def test_a_bit_that_flips_in_a_log_is_found_or_changes_nothing_for_its_readers(
    place: Place, seed: int
) -> None:
    chance = random.Random(seed)
    log = place.lake / "orders" / "_delta_log"
    before = _seen(place)
    for _ in range(8):
        path = chance.choice(sorted(log.glob("*.json")))
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        if not found(place):
            assert _seen(place) == before
        path.write_bytes(whole)


def _seen(place: Place) -> tuple[Any, ...]:
    table = DeltaTable(place.lake / "orders")
    actions = table.get_add_actions(flatten=True)
    kept = [one for one in actions.schema.names if one != "modification_time"]
    rows = [actions.column(one).to_pylist() for one in kept]
    schema = json.loads(table.schema().to_json())  # its notes come in any order
    return table.version(), schema, dict(zip(kept, rows, strict=True))


# --- segments ------------------------------------------------------------------------------------


def test_no_lake_is_a_finding_where_one_is_wanted_and_nothing_otherwise(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(place.lake)
    said = place.verify()[1]
    rows = [row for row in said["findings"] if row["problem"] == "not published"]
    assert {row["what"] for row in rows} == {"blocks 1-30 are published, and not in the lake"}
    assert {str(place.lake / table) for table in ("orders", "manifests")} < {
        row["where"] for row in rows
    }
    place.run("publish")
    assert place.verify()[0] == 0
    shutil.rmtree(place.lake)
    monkeypatch.setenv("STRATA_LAKE", "0")
    place.run("publish")
    assert place.verify()[0] == 0


def test_published_segments_that_a_table_lacks_are_found_and_added(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_segment(place.settings, 3)
    load(place.site)
    monkeypatch.setenv("STRATA_LAKE", "0")
    place.run("publish")
    assert "blocks 31-40 are published" in str(place.verify()[1]["findings"])
    monkeypatch.setenv("STRATA_LAKE", "1")
    mended(place, place.lake, *CHECK)


def test_segments_of_the_lake_that_are_not_published_are_found_and_published(
    place: Place,
) -> None:
    before = place.archive.parent / "before"
    shutil.copytree(place.chain, before, ignore=shutil.ignore_patterns("lake"))
    make_segment(place.settings, 3)
    load(place.site)
    place.run("publish")
    place.lake.rename(before / "lake")
    shutil.rmtree(place.chain)
    before.rename(place.chain)  # the ZIPs are those of an older backup
    assert "blocks 31-40 are loaded" in str(place.json(*CHECK)[1]["findings"])
    mended(place, place.chain)


def test_receipts_that_are_not_those_of_the_warehouse_are_found_and_replaced(place: Place) -> None:
    def change(rows: pa.Table) -> pa.Table:
        lists = rows["receipts"].to_pylist()
        (receipt,) = (item for item in lists[0] if item["table_name"] == "orders")
        receipt["sha256"] = "0" * 64
        index = rows.column_names.index("receipts")
        field = rows.schema.field(index)
        return rows.set_column(index, field, pa.array(lists, field.type))

    committed(place, "manifests", change)
    findings = problems(place, remedied(place, *CHECK))
    assert {problem for problem, _ in findings} == {"disagreement"}
    assert place.verify()[0] == 0


def test_a_mirror_without_a_warehouse_is_checked_and_says_what_can_be_done(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STRATA_SOURCE", "STRATA_WAREHOUSE"):
        monkeypatch.delenv(name)
    mirror = ("--archive", str(place.archive))
    assert found(place, *mirror) == []
    flip(orders(place))
    ((problem, _),) = found(place, *mirror)
    (row,) = place.json(*CHECK, *mirror)[1]["findings"]
    assert (problem, row["commands"]) == ("damaged", [])
    assert "with the warehouse of this chain" in row["remedy"]


def test_what_is_not_there_is_not_sound(place: Place, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert place.json(*CHECK, "--archive", str(tmp_path / "empty"))[0] == 5
    assert place.json(*CHECK, "--archive", str(tmp_path / "typo"))[0] == 5


# --- leftovers -----------------------------------------------------------------------------------


def aged(path: Path, seconds: float) -> Path:
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def test_what_no_version_names_is_no_finding_and_the_next_publish_removes_it(place: Place) -> None:
    orphan = place.lake / "orders" / "31-40.0123456789abcdef.parquet"
    orphan.write_bytes(b"x")
    aged(orphan, 1.5 * WEEK)
    assert found(place) == []
    place.run("publish")
    assert not orphan.exists()


def test_files_that_strata_never_writes_are_strangers_after_an_hour(place: Place) -> None:
    names = ("orders/copy of 1-20.parquet", "notes.txt", "junk/1-20.0123456789abcdef.parquet")
    paths = [place.lake / name for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    assert place.verify()[0] == 0
    for path in paths:
        aged(path, 2 * 3600)
    assert sorted(row["where"] for row in remedied(place)) == sorted(map(str, paths))
    assert [path for path in paths if path.exists()] == []
    assert place.verify()[0] == 0


def test_a_foreign_file_that_no_log_names_any_more_is_a_stranger_after_an_hour(
    place: Place,
) -> None:
    write_deltalake(place.lake / "orders", pq.read_table(orders(place)), mode="append")
    follow(place, place.json(*CHECK)[1])
    (foreign,) = place.lake.glob("orders/part-*.parquet")
    assert place.verify()[0] == 0
    aged(foreign, 3 * 3600)
    mended(place, foreign)


# --- buckets -----------------------------------------------------------------------------------


def test_a_lake_in_a_bucket_is_read_and_corrected_likewise(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bucket_server() as server:
        bucket = server.bucket()
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("STRATA_ARCHIVE", f"s3://{bucket}/exports")
        for path in sorted(place.archive.rglob("*")):
            if path.is_file():
                key = f"exports/{path.relative_to(place.archive)}"
                server.client.upload_file(str(path), bucket, key)
        assert place.json(*CHECK)[1]["findings"] == []
        keys = [
            item["Key"]
            for table in ("orders", "manifests")
            for item in server.client.list_objects_v2(
                Bucket=bucket, Prefix=f"exports/{KIT_CHAIN}/lake/{table}/21-30."
            )["Contents"]
        ]
        server.client.delete_object(Bucket=bucket, Key=keys[0])
        server.client.put_object(Bucket=bucket, Key=keys[1], Body=b"PAR1")
        said = place.json(*CHECK)[1]
        places = {row["problem"]: row["where"] for row in said["findings"]}
        assert places["missing"] == f"s3://{bucket}/{keys[0]}"
        assert places["damaged"] == f"s3://{bucket}/{keys[1]}"
        for command in advised(said):
            if command[0] == "strata":
                place.run(*command[1:])
            else:
                assert command == ["aws", "s3", "rm", f"s3://{bucket}/{keys[1]}"]
                server.client.delete_object(Bucket=bucket, Key=keys[1])
        assert place.json(*CHECK)[1]["findings"] == []
        monkeypatch.setattr(named_files, "YOUNG_SECONDS", -60.0)
        assert place.json(*CHECK)[1]["findings"] == []  # all that is there is named
        for name in (f"{KIT_CHAIN}/lake/a file", "old/x", "old/y"):
            server.client.put_object(Bucket=bucket, Key=f"exports/{name}", Body=b"x")
        where = f"s3://{bucket}/exports"
        assert sorted(map(shlex.join, advised(place.json(*CHECK)[1]))) == [
            f"aws s3 mv '{where}/{KIT_CHAIN}/lake/a file' .",
            f"aws s3 mv --recursive {where}/old ./old",
        ]


def test_what_lies_in_warehouse_and_lake_is_rendered_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[Path] = []

    def problem(
        con: DuckDBPyConnection, path: Path, receipts: Sequence[Receipt], scratch: Path
    ) -> str:
        rendered.append(path)
        return rendering_problem(con, path, receipts, scratch)

    monkeypatch.setattr(file_check, "rendering_problem", problem)
    assert list(verify_site(place.site, Verification())) == []
    assert {path.parent.name for path in rendered} == {"blocks", "orders", "deposits", "state"}
    assert len(rendered) == len({*rendered}) == 2 * 3 + 1
