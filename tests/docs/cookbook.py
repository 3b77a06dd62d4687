"""The queries of docs/cookbook.md with their results on the sample, which `make docs` writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from pipelines.sample_history import copy_sample
from tests.transforms.warehouse_kit import load_folder
from transforms.warehouse.queries import query_rows
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse

PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
_ENTRY = re.compile(r"^### (.*?)$(.*?)^```sql$\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?", re.S | re.M)
_SHOWN = 3  # rows of a result that has more than one above this
_ID = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
_ZEROS = re.compile(r"(\.\d*?)0{6,}$")


def queries() -> dict[str, str]:
    """The SQL of each question."""
    return {title: sql for title, _, sql, _ in _ENTRY.findall(PAGE.read_text("utf-8"))}


def results() -> dict[str, str]:
    """The result of each question as the page shows it; empty where it shows none."""
    return {title: result for title, _, _, result in _ENTRY.findall(PAGE.read_text("utf-8"))}


def result(warehouse: Warehouse, query: str) -> str:
    """A result as the page shows it: its first rows, and how many there are.

    Ids are cut to eight digits, and amounts lose most of their last zeros.
    """
    with query_rows(warehouse, query) as (names, rows):
        texts = [[_text(cell) for cell in row] for row in rows]
    shown = texts if len(texts) <= _SHOWN + 1 else texts[:_SHOWN]
    lines = [*_table([list(names), *shown])]
    if len(shown) < len(texts):
        lines.append(f"... {len(texts)} rows")
    return "".join(f"{line}\n" for line in lines) if texts else f"{lines[0]}\nNo rows.\n"


def _text(cell: object) -> str:
    if isinstance(cell, Decimal):
        return _ZEROS.sub(r"\1", f"{cell:f}").rstrip(".")
    return "NULL" if cell is None else _ID.sub(r"\1…", str(cell))


def _table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def page(warehouse: Warehouse) -> str:
    """The page with the results that the queries have."""

    def entry(match: re.Match[str]) -> str:
        title, before, sql, _ = match.groups()
        return f"### {title}{before}```sql\n{sql}```\n\n```\n{result(warehouse, sql)}```"

    return _ENTRY.sub(entry, PAGE.read_text("utf-8"))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        copy_sample(Path(folder, "source"))
        load_folder(Path(folder, "warehouse"), Path(folder, "source"))
        PAGE.write_text(page(open_warehouse(Path(folder, "warehouse"))), "utf-8")
