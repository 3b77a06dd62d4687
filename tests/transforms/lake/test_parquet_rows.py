"""The same segments are the same Parquet bytes, whatever writes them, and render to their CSVs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.segments_kit import table_rows
from tests.transforms.warehouse_kit import history_segment, load_folder
from transforms.duck import working_connection
from transforms.errors import IntegrityError
from transforms.lake.parquet_rows import readable_file, write_file
from transforms.warehouse.load.rendering import rendering_problem
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

_ROOT = Path(__file__).resolve().parents[3]
_TABLES = ("balances", "withdrawals", "blocks")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two segments with more rows of balances than a row group has, and others that are sorted."""
    folder = tmp_path_factory.mktemp("files")
    for first in (1, 11):
        balances = [
            {"account_id": f"\\x{n * 7919 % 70001:08x}", "balance": f"{n}"} for n in range(70_000)
        ]
        withdrawals = [{"party_id": f"\\x{n * 31 % 97:04x}", "amount": "1.50"} for n in range(3000)]
        history_segment(
            folder / "source",
            first=first,
            last=first + 9,
            tables={
                "balances": table_rows("balances", *balances, first=first),
                "withdrawals": table_rows("withdrawals", *withdrawals, first=first),
            },
        )
    assert load_folder(folder / "warehouse", folder / "source").failures == []
    return open_warehouse(folder / "warehouse")


def _receipts(warehouse: Warehouse, table: str) -> list[Receipt]:
    loaded = warehouse.loaded_catalog().blocks
    return [one for one in warehouse.receipts(loaded) if one.table == table]


def written(warehouse: Warehouse, folder: Path, threads: int = 1) -> dict[str, str]:
    """The SHA-256 of the file of each table, written by as many threads."""
    hashes = {}
    for table in _TABLES:
        path = _file(warehouse, folder, _receipts(warehouse, table)[0], threads)
        hashes[table] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashes


@pytest.fixture(scope="module")
def by_one(warehouse: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return written(warehouse, tmp_path_factory.mktemp("one"))


@pytest.mark.parametrize("threads", [2, 4])
def test_any_number_of_threads_writes_the_same_bytes(
    warehouse: Warehouse, by_one: dict[str, str], tmp_path: Path, threads: int
) -> None:
    assert written(warehouse, tmp_path, threads) == by_one


def test_another_process_writes_the_same_bytes(
    warehouse: Warehouse, by_one: dict[str, str], tmp_path: Path
) -> None:
    program = (
        "import sys; from pathlib import Path; "
        "from tests.transforms.lake import test_parquet_rows as t; "
        "from transforms.warehouse.warehouse_address import open_warehouse; "
        "print(t.written(open_warehouse(Path(sys.argv[1])), Path(sys.argv[2]), 3))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program, warehouse.cache, tmp_path],
        env={**os.environ, "PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo"},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == str(by_one)


def _file(warehouse: Warehouse, folder: Path, receipt: Receipt, threads: int = 1) -> Path:
    table, local = receipt.table, warehouse.backing.files.path
    data = [local(volume.data[table]) for volume in warehouse.loaded_catalog().snapshot.history]
    rows, path = rows_sql(table, receipt.schema.columns, data), folder / f"{table}.parquet"
    with working_connection(folder, threads=threads) as con:
        write_file(con, f"{rows} where _segment = {receipt.blocks.first}", receipt, path)
    return path


def test_a_file_of_other_rows_than_its_receipt_is_found(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    first, second = _receipts(warehouse, "withdrawals")
    path = _file(warehouse, tmp_path, first)

    with working_connection(tmp_path) as con:
        assert rendering_problem(con, path, [first], tmp_path) == ""
        assert f"segment {second.blocks} no longer renders" in rendering_problem(
            con, path, [second], tmp_path
        )


def test_a_file_that_is_cut_short_cannot_be_read(warehouse: Warehouse, tmp_path: Path) -> None:
    (first, _) = _receipts(warehouse, "withdrawals")
    path = _file(warehouse, tmp_path, first)
    path.write_bytes(path.read_bytes()[:-100])

    with (
        pytest.raises(IntegrityError, match=r"withdrawals.parquet of the lake cannot be read"),
        working_connection(tmp_path) as con,
        readable_file(path, tmp_path),
    ):
        rendering_problem(con, path, [first], tmp_path)
