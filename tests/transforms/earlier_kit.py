"""A warehouse as the release before the log left it: numbered catalogs, and links to the newest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import duckdb

from transforms.blocks import BlockRange
from transforms.segments.quarantine import QuarantinedFile
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
        inputs = con.execute("select zip_sha256 from strata.segments order by 1").fetchall()
    digest = hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]
    end = ".sorted.duckdb" if volume.is_sorted else ".duckdb"
    renamed = path.with_name(f"{volume.blocks.key}.{digest}{end}")
    path.rename(renamed)
    return renamed.relative_to(root).as_posix()


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
