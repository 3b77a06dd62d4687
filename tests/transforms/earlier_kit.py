"""A warehouse as the release before the log left it: numbered catalogs, and links to the newest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from transforms.blocks import BlockRange
from transforms.objects import StoredFile
from transforms.segments.quarantine import QuarantinedFile
from transforms.stores.store import content_sha256
from transforms.warehouse.document import Document
from transforms.warehouse.opening import open_warehouse
from transforms.warehouse.shapes import Volume


def make_earlier(root: Path) -> None:
    """Turn a warehouse that was just loaded into one of the earlier release."""
    document = open_warehouse(root).document()
    assert document is not None
    for path in [*root.glob("log/*"), *root.glob("records/*")]:
        path.unlink()
    for folder in ("log", "records"):
        (root / folder).rmdir()
    (root / "seen.json").unlink()
    (root / "current.duckdb").unlink(missing_ok=True)
    named = [(volume, _earlier_volume(root, volume)) for volume in document.volumes]
    for refused in document.quarantine:
        _earlier_refusal(root, refused)
    if document.captures:
        (root / document.captures.key).rename(root / "spam" / "00000003.duckdb")
        (root / "spam" / "current.duckdb").symlink_to("00000003.duckdb")
    (root / "catalog").mkdir()
    (root / "catalog" / ".lock").touch()
    for number in (6, 7):
        _earlier_catalog(root / "catalog" / f"{number:08d}.duckdb", root, document, named)
    (root / "current.duckdb").symlink_to("catalog/00000007.duckdb")


def _earlier_volume(root: Path, volume: Volume) -> str:
    """Give a volume the name of before, of its input, and take its origin from it."""
    path = root / volume.key
    with duckdb.connect(path) as con:
        con.execute("drop table strata.origin")
        _forget_ids(con)
        inputs = con.execute("select zip_sha256 from strata.segments order by 1").fetchall()
    digest = hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]
    end = ".sorted.duckdb" if volume.is_sorted else ".duckdb"
    renamed = path.with_name(f"{volume.blocks.key}.{digest}{end}")
    path.rename(renamed)
    return renamed.relative_to(root).as_posix()


def forget_ids(root: Path) -> None:
    """Turn the volumes and records of a warehouse into those of a release that computed no ids."""
    warehouse = open_warehouse(root)

    def changed(newest: Document) -> Document:
        volumes = [_without_ids(root, volume) for volume in newest.volumes]
        return newest.with_volumes(volumes)

    warehouse.backing.log.commit(changed)


def _without_ids(root: Path, volume: Volume) -> Volume:
    path = root / volume.key
    with duckdb.connect(path) as con:
        _forget_ids(con)
    if volume.record is None:
        return replace(volume, file=_renamed(root, path))
    record = root / volume.record.key
    table = pq.read_table(record)
    place = table.schema.get_field_index("segment_id")
    table = table.set_column(place, "segment_id", table["index_id"]).drop_columns(["index_id"])
    pq.write_table(table, record)
    return replace(volume, file=_renamed(root, path), record=_renamed(root, record))


def _forget_ids(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("update strata.segments set segment_id = index_id")
    con.execute("alter table strata.segments drop column index_id")


def _renamed(root: Path, path: Path) -> StoredFile:
    """A file that was changed, under the name of its bytes."""
    sha256 = content_sha256(path)
    renamed = path.with_name(f"{path.name.partition('.')[0]}.{sha256}{path.suffix}")
    path.rename(renamed)
    return StoredFile(renamed.relative_to(root).as_posix(), renamed.stat().st_size, sha256)


def _earlier_refusal(root: Path, refused: QuarantinedFile) -> None:
    info = refused.refusal.info
    digest = hashlib.sha256(info.key.encode()).hexdigest()[:8]
    record = root / "quarantine" / f"{info.key.removesuffix('.zip')}.{digest}.json"
    row = {"key": info.key, "size": info.size, "version": info.version, "reason": refused.reason}
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps(row, indent=1) + "\n")
    if refused.copy:
        (root / refused.copy.key).rename(record.with_suffix(".zip"))


def _earlier_catalog(
    path: Path, root: Path, document: Document, named: list[tuple[Volume, str]]
) -> None:
    rows = [
        (volume.kind, key, *_ends(volume.blocks), volume.version, _shapes(volume))
        for volume, key in named
    ]
    with duckdb.connect(path) as con:
        con.execute("create schema strata")
        con.execute(
            "create table strata.volumes (kind varchar, file varchar, first_block bigint, "
            "last_block bigint, schema_version integer, shapes varchar)"
        )
        con.executemany("insert into strata.volumes values (?, ?, ?, ?, ?, ?)", rows)
        con.execute(
            "create table strata.generation as select ? as generation, ? as chain_id, "
            "? as warehouse",
            [int(path.stem), document.chain_id, str(root)],
        )
        for number, (volume, key) in enumerate(named):
            if volume.kind == "history":
                con.execute(f"attach '{root / key}' as v{number} (read_only)")
                source = f"v{number}.strata.segments"
                con.execute(f"create table if not exists strata.segments as from {source} limit 0")
                con.execute(f"insert into strata.segments from {source}")
                con.execute(f"detach v{number}")


def _ends(blocks: BlockRange) -> tuple[int, int]:
    return blocks.first, blocks.last


def _shapes(volume: Volume) -> str:
    return json.dumps(
        {
            table: {"columns": shape.columns, "raw": sorted(shape.raw)}
            for table, shape in sorted(volume.shapes.items())
        }
    )
