"""The queries of docs/cookbook.md with their results on the sample, which `make docs` writes.

Those of `strata.conditions` are asked of an archive, all others of a warehouse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from pipelines.sample_history import copy_sample
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.pipelines.kit import load, site_settings
from transforms.lake.public_views import conditions_view
from transforms.warehouse.questions.queries import query_rows

PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
_ENTRY = re.compile(r"^### (.*?)$(.*?)^```sql$\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?", re.S | re.M)
_OF_ARCHIVE = "strata.conditions"
_SHOWN = 3  # rows of a result that has more than one above this
_ID = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
_ZEROS = re.compile(r"(\.\d*?)0{6,}$")


def queries() -> dict[str, str]:
    """The SQL of each question that a warehouse answers."""
    return {title: sql for title, sql in _queries().items() if _OF_ARCHIVE not in sql}


def archive_queries() -> dict[str, str]:
    """The SQL of each question that only an archive answers."""
    return {title: sql for title, sql in _queries().items() if _OF_ARCHIVE in sql}


def _queries() -> dict[str, str]:
    return {title: sql for title, _, sql, _ in _ENTRY.findall(PAGE.read_text("utf-8"))}


def results() -> dict[str, str]:
    """The result of each question as the page shows it; empty where it shows none."""
    return {title: result for title, _, _, result in _ENTRY.findall(PAGE.read_text("utf-8"))}


def result(site: Site, query: str) -> str:
    """A result as the page shows it, from a site's warehouse, or its archive."""
    if _OF_ARCHIVE in query:
        chain_id = site.loaded_catalog().snapshot.chain_id
        return _shown(*_archive_rows(Path(site.settings.archive, chain_id), query))
    with query_rows(site.warehouse, query) as (names, rows):
        return _shown(names, rows)


def _archive_rows(folder: Path, query: str) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
    """What the view over the document in a chain's folder answers."""
    with duckdb.connect() as con:
        con.execute("create schema strata")
        for statement in conditions_view(f"'{folder}/conditions.json'"):
            con.execute(statement)
        rows = con.execute(query).fetchall()
        return [column[0] for column in con.description or ()], rows


def _shown(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The first rows of a result, and how many there are.

    Ids are cut to eight digits, and amounts lose most of their last zeros.
    """
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


def page(site: Site) -> str:
    """The page with the results that the queries have on a site, whose archive is published."""

    def entry(match: re.Match[str]) -> str:
        title, before, sql, _ = match.groups()
        return f"### {title}{before}```sql\n{sql}```\n\n```\n{result(site, sql)}```"

    return _ENTRY.sub(entry, PAGE.read_text("utf-8"))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        sample = Site(site_settings(Path(folder)))
        copy_sample(Path(sample.settings.source))
        load(sample)
        publish_segments(sample, sample.loaded_catalog().blocks)
        PAGE.write_text(page(sample), "utf-8")
