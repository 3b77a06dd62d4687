"""Writes docs/tables from the schema reference: `make docs`; a test says when it is due."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from transforms.tables.reference import ColumnReference, TableReference, schema_reference

FOLDER = Path(__file__).parents[2] / "docs" / "tables"

_INDEX = """\
# Tables

All tables of the network's database, as history segments carry them and the warehouse shows them: what a row is, every
column with its type, unit and meaning, and what it joins to. These pages are made from the code that loads the tables
(`make docs`); the warehouse has the same texts as comments (`duckdb_columns()`, `duckdb_views()`). Queries:
[cookbook](../cookbook.md).

- *History* has the rows that each segment's blocks wrote; the first 15 tables below are published as CSV. *Current
  state* is the whole table as of the newest block.
- *Key* identifies a row. *About* names what several rows may tell of: the latest of them by `vega_time`, and where there
  is one by `seq_num`, says how it is now.
- *Type* is the column's in the warehouse, in brackets that of the network's database. Ids and hashes are lower-case hex,
  without the `\\x` of the CSV. The warehouse has the name of an enum's value as `<column>_name`, number or name in the
  source, and the UTC date of a time as `<column>_date`.
- *Unit*: an amount in an asset's smallest unit is divided by 10^`assets.decimals`, a price by
  10^`markets.decimal_places`, a size by 10^`markets.position_decimal_places`.
- *Joins to* names the column with the same value. `assets` and `markets` have a row per change; `markets_current` has the
  latest of each market. `vega_time` joins to `blocks.vega_time` everywhere, which gives the height.
- *Versions* are schema versions of the database. Each segment has one, in its name and in that of its CSVs. Older segments
  lack the columns that came later: the warehouse shows NULL there.
- In the warehouse every row also has `_segment`, the first block of its segment, `_row`, its place in the segment's CSV,
  and `_raw`, the exact text of cells that the type cannot hold.
"""


def pages() -> dict[str, str]:
    """File name to text of every page."""
    reference = schema_reference()
    texts = {f"{table.name}.md": _page(table) for table in reference.values()}
    texts["README.md"] = "\n".join([_INDEX, *_index(list(reference.values()))])
    return texts


def _index(tables: list[TableReference]) -> Iterator[str]:
    for title, chosen in (
        ("Published history", [table for table in tables if table.exported]),
        ("All others", [table for table in tables if not table.exported]),
    ):
        yield f"## {title}\n"
        yield "| table | what it holds | kind | versions |"
        yield "|---|---|---|---|"
        for table in chosen:
            kinds = ", then ".join(kind for _, kind in table.kinds)
            name = f"[{table.name}]({table.name}.md)"
            yield f"| {name} | {table.meaning} | {kinds} | {_lifetime(table)} |"
        yield ""


def _lifetime(table: TableReference) -> str:
    first, last = table.kinds[0][0].first, table.kinds[-1][0].last
    return f"{first} and later" if last is None else f"{first} to {last}"


def _page(table: TableReference) -> str:
    return "\n".join([*_head(table), *_columns(table), *_values(table)])


def _head(table: TableReference) -> Iterator[str]:
    yield f"# {table.name}\n"
    yield f"{table.meaning}\n"
    names = {"history": "history", "current": "current state"}
    kinds = "; ".join(
        f"{names[kind]} at schema versions {versions}" for versions, kind in table.kinds
    )
    yield f"- Kind: {kinds}.{' Published as CSV.' if table.exported else ''}"
    yield f"- Key: {_names(table.key)}."
    if table.identity:
        yield f"- About: {_names(table.identity)}."
    for name, what in ((table.latest, "Latest rows"), (table.history, "Its history")):
        if name:
            yield f"- {what}: [{name}]({name}.md). {schema_reference()[name].meaning}"
    yield ""


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(f"`{column}`" for column in columns)


def _columns(table: TableReference) -> Iterator[str]:
    yield "| column | type | meaning | unit | joins to | versions |"
    yield "|---|---|---|---|---|---|"
    for column in table.columns:
        cells = (
            f"`{column.name}`",
            f"{column.type} ({column.source_type})",
            column.meaning,
            column.unit or "",
            _target(column),
            ", ".join(map(str, column.versions)),
        )
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
    yield ""


def _target(column: ColumnReference) -> str:
    if column.target is None:
        return ""
    return f"[{column.target}]({column.target.partition('.')[0]}.md)"


def _values(table: TableReference) -> Iterator[str]:
    named = [column for column in table.columns if column.values]
    if not named:
        return
    yield "## Values\n"
    for column in named:
        label = f" (names in `{column.name}_name`)" if column.values[0][0] is not None else ""
        values = ", ".join(
            name if number is None else f"{number} {name}" for number, name in column.values
        )
        yield f"- `{column.name}`{label}: {values}."
    yield ""


def main() -> None:
    """Write the pages, and remove those of tables that are none."""
    FOLDER.mkdir(exist_ok=True)
    texts = pages()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for path in FOLDER.iterdir():
        if path.name not in texts:
            path.unlink()


if __name__ == "__main__":
    main()
