"""`strata` in this process, which has imported all of it; and what a place holds, as facts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, tzinfo
from importlib import import_module
from pathlib import Path
from typing import Any

import pipelines.commands.publish
import pipelines.running
import transforms.stores.s3
from pipelines.cli import main
from pipelines.commands.group import COMMANDS
from tests.faults.children import run_main
from tests.transforms.warehouse_kit import verify
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

MOST_PARTIAL = 2
"""`strata compact` would leave volumes as few and small as ours alone."""

_IMPORTED = (pipelines.running, transforms.stores.s3)


class _Noon(datetime):
    """A clock that stands still: a correction is recorded with its time."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> _Noon:
        return cls(2026, 1, 1, 12, tzinfo=tz or UTC)


def import_everything() -> None:
    """Import what the commands would import when they are called."""
    for name in COMMANDS:
        import_module(f"pipelines.commands.{name}")


def run_strata(arguments: list[str]) -> int:
    """Run a command of `strata` in this process; returns its exit code."""
    vars(pipelines.commands.publish)["datetime"] = _Noon
    Warehouse.compact.__defaults__ = (MOST_PARTIAL,)
    return run_main(main, arguments)


def facts(
    warehouse_place: str, cache: Path | None = None, *, proven: bool = False
) -> dict[str, Any]:
    """What a warehouse holds, without times and ids: receipts, captures, refused files.

    With `proven`, every table is rendered again, and compared with what was loaded.
    """
    warehouse = open_warehouse(warehouse_place, cache)
    catalog = warehouse.catalog()
    if not catalog.snapshot.volumes:
        return {"receipts": [], "quarantine": _quarantine(warehouse)}
    with warehouse.connect() as con:
        counted = con.execute("select count(*), count(distinct height) from blocks").fetchone()
        captures = []
        if catalog.snapshot.captures:
            captures = con.execute("from main.spam_captures order by all").fetchall()
    return {
        "receipts": [_facts(receipt) for receipt in warehouse.receipts()],
        "damage": [str(one) for one in verify(warehouse)] if proven else [],
        "blocks": counted,
        "captures": [str(row) for row in captures],
        "quarantine": _quarantine(warehouse),
        "scratch": sorted(path.name for path in (warehouse.cache / "scratch").iterdir()),
    }


def write_facts(path: Path, found: dict[str, Any]) -> None:
    """Keep them for another process."""
    path.write_text(json.dumps(found, default=str, indent=1))


def _quarantine(warehouse: Warehouse) -> list[str]:
    return [refused.key for refused in warehouse.snapshot().quarantine]


def _facts(receipt: Receipt) -> list[object]:
    return [str(receipt.blocks), receipt.table, receipt.rows, receipt.bytes, receipt.sha256]
