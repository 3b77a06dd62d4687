"""What an analyst's client cannot get wrong: dates, names, and what is missing in the views."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import transforms.warehouse
from tests.segments_kit import build_segment, table_rows
from tests.transforms.warehouse_kit import (
    STATE_TABLES,
    Held,
    cells_without_value,
    history_segment,
    load_folder,
    query,
)
from transforms.warehouse.warehouse_address import open_warehouse

_ASK = """
import sys
import duckdb

class NoZones:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pytz":
            raise ModuleNotFoundError(name, name="pytz")

sys.meta_path.insert(0, NoZones())
with duckdb.connect(sys.argv[1], read_only=True) as con:
    print(con.execute("select current_setting('TimeZone')").fetchone()[0])
    print(con.execute(sys.argv[2]).fetchall())
"""


def _asked(views: Path, query: str, zone: str) -> list[str]:
    """What a client in a time zone is told, whose Python lacks pytz."""
    command = [sys.executable, "-c", _ASK, str(views), query]
    environment = {**os.environ, "TZ": zone}
    return subprocess.check_output(command, env=environment, text=True).splitlines()


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_dates_and_times_in_utc_are_the_same_in_every_time_zone(tmp_path: Path, zone: str) -> None:
    times = ["2023-06-01 00:00:00+00", "2023-06-01 23:59:59.999999+00", "infinity"]
    cells = [{"expires_at": time} for time in times]
    history_segment(
        tmp_path / "source", last=10, tables={"orders": table_rows("orders", *cells, first=1)}
    )
    load_folder(tmp_path / "warehouse", tmp_path / "source")
    told = _asked(
        tmp_path / "warehouse" / "current.duckdb",
        "select expires_at_date::varchar, utc(expires_at)::varchar from orders order by expires_at",
        zone,
    )
    day = "2023-06-01"
    assert told == [
        zone,
        str(
            [
                (day, f"{day} 00:00:00"),
                (day, f"{day} 23:59:59.999999"),
                (None, None),
            ]
        ),
    ]


def test_dates_and_times_in_utc_need_no_pytz(held: Held) -> None:
    asked = "select vega_time_date, utc(vega_time) from blocks limit 1"
    _, row = _asked(held.warehouse.current, asked, "America/New_York")
    assert row.startswith("[(datetime.date(")


def test_dates_and_utc_are_found_where_the_views_are_attached(held: Held) -> None:
    with duckdb.connect() as con:
        con.execute(f"attach '{held.warehouse.current}' as history (read_only)")
        asked = "from history.blocks where vega_time_date = history.utc(vega_time)::date"
        assert con.sql(f"select count(*) {asked}").fetchall() == [(30,)]


def test_unfit_lists_the_cells_that_are_null_in_the_views(held: Held) -> None:
    assert query(held.warehouse, "from strata.unfit") == [
        ("orders", "expires_at", 7),
        ("orders", "price", 1),
        ("withdrawals", "amount", 1),
    ]
    for table, column in (("orders", "price"), ("withdrawals", "amount")):
        missing = f"select count(*) from {table} where {column} is null"
        assert query(held.warehouse, missing) == [(1,)]


def test_unfit_counts_history_and_the_newest_copy_of_the_current_state(tmp_path: Path) -> None:
    great = {"balance": "9" * 39}
    for first, balances in ((1, [great, great, {}]), (11, [great, {}])):
        tables = {
            table: table_rows(table, *balances, first=first)
            for table in ("balances", "current_balances")
        }
        build_segment(
            tmp_path / "source",
            first=first,
            last=first + 9,
            tables=tables,
            omit=set(STATE_TABLES) - {"current_balances"},
        )
        load_folder(tmp_path / "warehouse", tmp_path / "source")
    assert query(open_warehouse(tmp_path / "warehouse"), "from strata.unfit") == [
        ("balances", "balance", 3),
        ("current_balances", "balance", 1),
    ]


def test_unfit_counts_unbounded_numerics_that_the_views_do_not_show(tmp_path: Path) -> None:
    cells = (
        {"loss": "1" + "0" * 28, "adjustment": "NaN"},
        {"loss": "9" * 28 + ".00000000004", "adjustment": "-" + "9" * 40},
        {"loss": None, "adjustment": "0.123456789012345"},
    )
    names = ("positions", "positions_current")
    for first in (1, 11):
        build_segment(
            tmp_path / "source",
            first=first,
            last=first + 9,
            tables={table: table_rows(table, *cells, first=first) for table in names},
            omit=set(STATE_TABLES) - {*names},
        )
        load_folder(tmp_path / "warehouse", tmp_path / "source")
    expected = [
        ("positions", "adjustment", 4),
        ("positions", "loss", 2),
        ("positions_current", "adjustment", 2),
        ("positions_current", "loss", 1),
    ]
    warehouse = open_warehouse(tmp_path / "warehouse")
    assert query(warehouse, "from strata.unfit") == expected
    with warehouse.connect() as con:
        assert cells_without_value(con) == expected


def test_nothing_is_unfit_where_every_cell_fits(tmp_path: Path) -> None:
    history_segment(tmp_path / "source", last=10)
    load_folder(tmp_path / "warehouse", tmp_path / "source")
    assert query(open_warehouse(tmp_path / "warehouse"), "from strata.unfit") == []


def test_decimals_stay_exact_in_polars_and_arrow(held: Held) -> None:
    asked = "select price from orders where price > 10 ** 37"
    with held.warehouse.connect() as con:
        relation = con.sql(asked)
        assert str(relation.pl().item()) == "9" * 38
        assert str(relation.to_arrow_table().column(0)[0].as_py()) == "9" * 38


def test_names_stand_beside_labels_as_beside_numbers(held: Held) -> None:
    for table in ("orders", "withdrawals"):
        ((named,),) = query(
            held.warehouse, f"select count(*) from {table} where status_name like 'STATUS_%'"
        )
        assert named


def test_the_file_of_an_earlier_release_is_made_again(held: Held, tmp_path: Path) -> None:
    history_segment(tmp_path / "source", last=10)
    load_folder(tmp_path / "warehouse", tmp_path / "source")
    warehouse = open_warehouse(tmp_path / "warehouse")
    made = warehouse.current.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transforms.warehouse.views.catalog_file._format", lambda: "an earlier one")
        warehouse.show()
        assert warehouse.current.read_bytes() != made
    earlier = warehouse.current.stat().st_ino
    warehouse.show()
    assert warehouse.current.stat().st_ino != earlier


def test_other_code_of_the_views_makes_the_file_again(tmp_path: Path) -> None:
    history_segment(tmp_path / "source", last=10)
    load_folder(tmp_path / "warehouse", tmp_path / "source")
    folder = Path(transforms.warehouse.__file__).parents[1]
    shutil.copytree(folder, tmp_path / "release" / "transforms")
    joins = tmp_path / "release" / "transforms" / "warehouse" / "views" / "derived_views.py"
    views = tmp_path / "warehouse" / "current.duckdb"
    show = (
        "from pathlib import Path; "
        "from transforms.warehouse.warehouse_address import open_warehouse; "
        f"open_warehouse(Path({str(tmp_path / 'warehouse')!r})).show()"
    )

    def shown() -> int:
        at = {**os.environ, "PYTHONPATH": str(tmp_path / "release")}
        subprocess.run([sys.executable, "-c", show], env=at, cwd=tmp_path / "release", check=True)
        return views.stat().st_ino

    before = views.stat().st_ino
    assert shown() == before
    joins.write_text(joins.read_text() + "\n# A view that this release adds.\n")
    assert shown() != before
