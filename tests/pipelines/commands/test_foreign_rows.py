"""Rows whose time belongs to no block of their segment are loaded, counted and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.pipelines.command_kit import Answer, call, places
from tests.pipelines.kit import make_segment, site_settings
from tests.segments_kit import block_time, table_rows

_WARNING = "rows with a time that belongs to no block of their segment"
_NAMED = f"warning: {_WARNING}: 1 of orders in segment 1-10, 2 of trades in segment 11-20"


def strata(settings: Settings, *arguments: str) -> Answer:
    answer = call({**places(settings), "STRATA_LAKE": "0"}, *arguments)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two published segments: trades of the first are in the second again, an order is of none."""
    settings = site_settings(tmp_path_factory.mktemp("foreign"))
    times = [{"vega_time": block_time(height)} for height in (4, 5, 11, 20)]
    orders = [{"vega_time": block_time(3, microseconds)} for microseconds in (0, 1)]
    make_segment(settings, 0, tables={"orders": table_rows("orders", *orders)})
    make_segment(settings, 1, tables={"trades": table_rows("trades", *times, first=11)})
    assert _NAMED in strata(settings, "load").stderr
    strata(settings, "publish")
    return settings


@pytest.mark.parametrize(
    "command", [("status",), ("status", "--check"), ("verify",), ("verify", "--quick")]
)
def test_commands_warn_of_foreign_rows_and_end_with_their_usual_code(
    settings: Settings, command: tuple[str, ...]
) -> None:
    assert _NAMED in strata(settings, *command).stdout


@pytest.mark.parametrize("command", ["status", "verify"])
def test_programs_get_table_segment_and_number(settings: Settings, command: str) -> None:
    assert strata(settings, command, "--json").json["foreign_rows"] == [
        {"table": "orders", "segment": "1-10", "rows": 1},
        {"table": "trades", "segment": "11-20", "rows": 2},
    ]


def test_foreign_rows_are_counted_in_sql_too(settings: Settings) -> None:
    query = "select foreign_rows from strata.segments order by first_block"
    rows = strata(settings, "sql", "--json", query).json["rows"]
    assert rows == [['{"orders": 1}'], ['{"trades": 2}']]
    assert strata(settings, "sql", "--json", "select count(*) from trades").json["rows"] == [[4]]


def test_a_load_warns_of_its_own_segments_alone(settings: Settings, tmp_path: Path) -> None:
    again = site_settings(tmp_path)
    make_segment(again, 0, tables={"trades": table_rows("trades", {"vega_time": block_time(11)})})
    assert "1 of trades in segment 1-10" in strata(again, "load").stderr
    make_segment(again, 1)
    assert _WARNING not in strata(again, "load").stderr
    assert "1 of trades in segment 1-10" in strata(again, "status").stdout


def test_many_places_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    settings = site_settings(tmp_path)
    tables = ("balances", "deposits", "ledger", "orders", "positions", "rewards", "trades")
    row = {"vega_time": block_time(11)}
    make_segment(settings, 0, tables={table: table_rows(table, row) for table in tables})
    strata(settings, "load")
    status = strata(settings, "status", "--json").json
    assert [place["table"] for place in status["foreign_rows"]] == [*tables]
    (sentence,) = (x for x in strata(settings, "status").stdout.splitlines() if _WARNING in x)
    assert sentence.endswith(
        "1 of positions in segment 1-10, and 2 more places, which strata status --json names"
    )
