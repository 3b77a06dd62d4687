"""Strata in notebooks and programs: ask a warehouse, read published ZIPs, fetch them.

    import strata

    history = strata.open("strata-data/warehouse")
    history.table("orders", blocks=(1, 5000)).polars()
    strata.read_export("sample-chain-001-orders-1-7000.zip").arrow()
    strata.fetch("https://example.org/archive", "orders", out="got")

Nothing is rounded: amounts are decimals and never floats, times are UTC, NULL is not the empty
string, and a cell that fits no type is NULL with its text in the row's `_raw`. It takes what
`pip install 'strata[notebook]'` brings, `fetch` only what `strata` itself does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

# What these need is imported when they are called: the command `strata` starts with this module.
if TYPE_CHECKING:
    from strata.exports import Export
    from strata.history import History

__all__ = ["fetch", "open", "read_export"]


def open(warehouse: str | Path | None = None) -> History:
    """Open a warehouse, a folder or `s3://` address, to read from; close it, or use `with`.

    Without one it is that of `STRATA_WAREHOUSE`, else `strata-data/warehouse`. What is opened stays
    as it is, whatever is loaded meanwhile. Raises `ConfigError` where nothing is loaded there.

    >>> with open() as history:
    ...     orders = history.table("orders", blocks=(1, 5000))
    ...     print(orders.arrow().num_rows, orders.arrow().schema.field("price").type)
    3106 decimal128(38, 0)
    """
    from strata.history import open_history

    return open_history(warehouse)


def read_export(place: str | Path) -> Export:
    """Read a published ZIP, as `fetch` brings it, with exact types.

    CSVs of several schemas become one table with the columns of all, NULL where a CSV has none.
    Close it, or use `with`. Raises `ConfigError` where it is no published ZIP, `IntegrityError`
    where it is damaged, `FileNotFoundError`.

    >>> path = fetch("strata-data/archive", "deposits", out="got")
    >>> with read_export(path) as export:
    ...     print(export.table, export.arrow().num_rows, export.columns[:2])
    deposits 364 ['id', 'status']
    """
    from strata.exports import open_export

    return open_export(place)


def fetch(
    archive: str | Path,
    table: str,
    first: int | str | None = None,
    last: int | str | None = None,
    *,
    out: str | Path = ".",
    chain: str | None = None,
) -> Path:
    """Fetch a table from `first` to `last`, both included, as `strata fetch` does.

    These are blocks, or dates or times in UTC as text; the range snaps outwards to whole segments,
    and without ends goes as far as the table. `archive` is a folder, `s3://` or `https://`. Returns
    the path of the ZIP in the folder `out`. Raises `RangeError` where nothing of the range is there
    or not all of it, `ConfigError` where there is no archive, `IntegrityError` where what is
    there is damaged.

    >>> fetch("strata-data/archive", "trades", 5, 1500, out="got").name
    'sample-chain-001-trades-1-2000.zip'
    >>> fetch("strata-data/archive", "trades", "2023-06-01", "2023-06-01", out="got").name
    'sample-chain-001-trades-1-7000.zip'
    """
    from exporters.fetching.fetch_folder import choose_chain, opened_archive
    from exporters.fetching.range_fetch import fetch_range
    from exporters.fetching.range_plan import choose_blocks
    from transforms.bounds import lower_bound, upper_bound

    start = None if first is None else lower_bound(str(first))
    end = None if last is None else upper_bound(str(last))
    with opened_archive(str(archive)) as store:
        source = choose_chain(store, chain)
        blocks = choose_blocks(source, table, start, end)
        return fetch_range(source, table, blocks, Path(out)).path
