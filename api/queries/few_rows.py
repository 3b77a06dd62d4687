"""The rows of one id in an index file, nearly always few."""

from __future__ import annotations

from contextlib import closing

from api.queries.pagination import Row
from transforms.lookups.index_file import IndexFile
from transforms.lookups.key_pages import PageTable

FEW_ROWS = 1000
"""Nearly every id has fewer: then all of them are fetched at once, which is fastest."""


def few_rows(index: IndexFile, pages: PageTable, id_: str, place: int) -> list[Row]:
    """The rows of an id, which is at a place in them, ascending; or more than a few of them.

    Raises `UnreadableIndexError`.
    """
    rows: list[Row] = []
    # Descending, as the page to begin with is then found by one statement.
    with closing(index.pages(pages, (id_,), (id_,), descending=True)) as found:
        for page_rows in found:
            rows[:0] = (tuple(row) for row in page_rows if row[place] == id_)
            if len(rows) > FEW_ROWS:
                break
    return rows
