from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from exporters.zip_names import NameStyle
from exporters.zips.staging import PartStage
from tests import zip_readers
from tests.exporters.part_kit import contents, splice, staged
from transforms.block_range import BlockRange
from transforms.errors import ConfigError, IntegrityError
from transforms.scratch import scratch_folder
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import HISTORY_TABLES, Column, TableSchema
from transforms.warehouse.manifests.receipts import Receipt

SEGMENT = SegmentName("testnet-001", 21, BlockRange(1001, 2000))
ORDERS = TableSchema("orders", (Column("id", "bytea"), Column("size", "bigint")))
ZIP = "testnet-001/orders/testnet-001-orders-1001-2000.zip"
KEY = (SEGMENT.chain_id, "orders", SEGMENT.blocks)


def csv(rows: int, schema: TableSchema = ORDERS) -> Receipt:
    return Receipt(SEGMENT, schema, rows, 0, "")


def stage_of(root: Path) -> PartStage:
    return PartStage(root)


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_part_lies_under_its_chain_and_table_with_its_published_name(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    stage.write(csv(2), [b"1,2\n", b"3,4\n"], stage.scratch)
    assert files_below(tmp_path) == [ZIP, f"{ZIP}.sha256"]
    path = stage.path(*KEY)
    zip_readers.check(path)
    assert contents(path) == {"testnet-001-orders-21-1001-2000.csv": b"id,size\n1,2\n3,4\n"}


def test_the_reference_style_pads_both_names(tmp_path: Path) -> None:
    stage = PartStage(tmp_path, NameStyle.REFERENCE)
    stage.write(csv(0), [], stage.scratch)
    path = stage.path(*KEY)
    assert path.name == "testnet-001-orders-001001-002000.zip"
    assert list(contents(path)) == ["testnet-001-orders-021-001001-002000.csv"]


@pytest.mark.parametrize("table", HISTORY_TABLES)
def test_every_history_table_is_kept(tmp_path: Path, table: str) -> None:
    stage = stage_of(tmp_path)
    stage.write(csv(0, TableSchema(table, ORDERS.columns)), [], stage.scratch)
    assert staged(stage, SEGMENT.chain_id, table, SEGMENT.blocks)


def test_a_part_is_found_ready_to_splice(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    assert staged(stage, *KEY) is None
    stage.write(csv(1), [b"1,2\n"], stage.scratch)
    part = staged(stage, *KEY)
    assert part
    assert (part.version, part.blocks, part.member.rows) == (21, SEGMENT.blocks, 1)
    assert splice(tmp_path / "x.zip", [part]).read_bytes() == stage.path(*KEY).read_bytes()


def test_a_damaged_part_is_not_found_but_refused(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    stage.write(csv(1), [b"1,2\n"], stage.scratch)
    os.truncate(stage.path(*KEY), 50)
    with pytest.raises(IntegrityError, match=r"testnet-001-orders-1001-2000\.zip"):
        staged(stage, *KEY)


def test_a_part_is_kept_with_its_hash_as_it_was_written(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    assert stage.sha256(*KEY) is None
    stage.write(csv(1), [b"1,2\n"], stage.scratch)
    path = stage.path(*KEY)
    written = hashlib.sha256(path.read_bytes()).hexdigest()
    hash_file = tmp_path / f"{ZIP}.sha256"
    assert hash_file.read_text() == f"{written}  {path.name}\n"
    path.write_bytes(b"damaged since")
    assert stage.sha256(*KEY) == written
    for lost in (b"", None):
        hash_file.unlink() if lost is None else hash_file.write_bytes(lost)
        assert stage.sha256(*KEY) is None


def test_writing_again_gives_the_same_part_and_other_text_replaces_it(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    stage.write(csv(1), [b"1,2\n"], stage.scratch)
    first = stage.path(*KEY).read_bytes()
    stage.write(csv(1), [b"1,", b"2\n"], stage.scratch)
    assert stage.path(*KEY).read_bytes() == first
    stage.write(csv(1), [b"9,9\n"], stage.scratch)
    assert list(contents(stage.path(*KEY)).values()) == [b"id,size\n9,9\n"]


def test_text_that_fails_its_proof_is_not_kept(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"1,2\n"
        raise IntegrityError("the second row differs")

    stage = stage_of(tmp_path)
    with pytest.raises(IntegrityError, match="the second row differs"):
        stage.write(csv(2), failing(), stage.scratch)
    assert files_below(tmp_path) == []


def test_a_part_is_removed_and_removing_it_again_is_no_error(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    stage.write(csv(0), [], stage.scratch)
    stage.remove(*KEY)
    stage.remove(*KEY)
    assert files_below(tmp_path) == []


def test_what_a_dead_process_left_is_swept_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    stage.sweep()
    with scratch_folder(stage.scratch) as live:
        left = stage.scratch / "run-dead"
        left.mkdir()
        (left / "half.zip.tmp").write_bytes(b"half")
        left.with_suffix(".lock").touch()
        stage.sweep()
        assert not left.exists()
        assert live.exists()


def test_the_level_is_a_setting_and_a_wrong_one_says_so(tmp_path: Path) -> None:
    body = [b"%d,%d\n" % (row, row) for row in range(5000)]
    sizes = []
    for level in (0, 2):
        stage = PartStage(tmp_path / str(level), level=level)
        stage.write(csv(5000), body, stage.scratch)
        sizes.append(stage.path(*KEY).stat().st_size)
    assert sizes[1] < sizes[0]
    with pytest.raises(ConfigError, match="7 is not a deflate level"):
        PartStage(tmp_path, level=7).write(csv(5000), body, tmp_path)


def write_often(root: Path) -> None:
    stage = stage_of(root)
    for _ in range(20):
        stage.write(csv(1000), [b"1,2\n" * 1000], stage.scratch)


def test_processes_that_write_the_same_part_at_once_leave_one_whole_part(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(write_often, [tmp_path] * 2))
    assert files_below(tmp_path) == [ZIP, f"{ZIP}.sha256"]
    assert list(contents(stage_of(tmp_path).path(*KEY)).values()) == [
        b"id,size\n" + b"1,2\n" * 1000
    ]
