"""Blocks of any time that PostgreSQL knows are loaded, published, listed and served."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import strata
from pipelines.settings import Settings
from tests.api.server_kit import serving, settings
from tests.pipelines.command_kit import Answer, call, places
from tests.pipelines.kit import site_settings
from tests.segments_kit import KIT_CHAIN, table_rows
from tests.transforms.warehouse_kit import history_segment

TIMES = [
    *("0001-01-01 00:00:01+00", "0001-01-02 00:00:00+00"),
    *("0044-03-15 12:00:00+00 BC", "2023-05-31 00:00:00+00"),
    *("2023-06-01 00:00:01+00", "9999-12-31 23:59:59.999999+00"),
    *("12345-01-01 00:00:00+00", "infinity"),
    *("-infinity", "4713-01-01 00:00:00+00 BC"),
    *("2023-06-03 00:00:01+00", "2023-06-03 00:00:02+00"),
]
"""The time of each block from 1 on; a segment has two."""


def write_segment(folder: Path, first: int, times: list[str]) -> None:
    """Blocks of these times from a height on, each with an order of its time."""
    blocks = [{"height": str(first + n), "vega_time": time} for n, time in enumerate(times)]
    orders = [{"vega_time": time, "seq_num": str(n)} for n, time in enumerate(times)]
    tables = {"blocks": table_rows("blocks", *blocks), "orders": table_rows("orders", *orders)}
    last = first + len(times) - 1
    history_segment(folder, first=first, last=last, tables=tables)


def strata_on(site: Settings, *arguments: str) -> Answer:
    return call({**places(site), "STRATA_LAKE": "1"}, *arguments)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """All times, loaded and published, the oldest segment first and alone, as a node goes on."""
    site = site_settings(tmp_path_factory.mktemp("extreme"))
    for at in (0, 2):
        for first in range(at, 2 if not at else len(TIMES), 2):
            write_segment(Path(site.source), first + 1, TIMES[first : first + 2])
        for command in ("load", "publish"):
            answer = strata_on(site, command)
            assert answer.returncode == 0, answer.stderr
    return site


def test_days_of_all_blocks_are_listed(site: Settings) -> None:
    text = Path(site.archive, KIT_CHAIN, "conditions.json").read_text()
    days = {row["date"]: row for row in json.loads(text)["days"]}
    assert [*days] == [
        *("0001-01-01", "0001-01-02", "2023-05-31"),
        *("2023-06-01", "2023-06-02", "2023-06-03", "9999-12-31"),
    ]
    assert [day for day, row in days.items() if row["condition"] == "pending"] == ["2023-06-03"]
    assert "9999-12-31" in Path(site.archive, KIT_CHAIN, "index.html").read_text()


@pytest.mark.parametrize(
    "command", [("status", "--check"), ("verify",), ("load",), ("publish",), ("repair",)]
)
def test_commands_find_nothing_wrong(site: Settings, command: tuple[str, ...]) -> None:
    answer = strata_on(site, *command)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("start", "end", "blocks"),
    [
        ("2023-06-03", "2023-06-04", "5-12"),  # block 6 is of the year 9999
        ("0001-01-01", "0001-12-31", "1-2"),
        ("9999-01-01", "9999-12-31", "5-12"),
    ],
)
def test_ranges_by_time_are_answered(
    site: Settings, tmp_path: Path, start: str, end: str, blocks: str
) -> None:
    bounds = ("--from", start, "--to", end, "--out", str(tmp_path))
    answer = strata_on(site, "fetch", site.archive, "--table", "orders", *bounds)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (found,) = tmp_path.glob("*.zip")
    assert found.name == f"{KIT_CHAIN}-orders-{blocks}.zip"


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:00:00-05:00"])
def test_a_time_before_year_1_or_after_9999_in_utc_is_no_bound(
    site: Settings, tmp_path: Path, time: str
) -> None:
    bounds = ("--from", time, "--out", str(tmp_path))
    answer = strata_on(site, "fetch", site.archive, "--table", "orders", *bounds)
    assert "is neither a block nor a time" in answer.stderr


def test_python_gives_the_rows_of_blocks_of_any_time(site: Settings) -> None:
    with strata.open(site.warehouse) as history:
        for first in range(1, len(TIMES), 2):
            rows = history.table("orders", blocks=(first, first + 1)).arrow()
            assert len(rows) == 2, TIMES[first - 1 : first + 1]
        assert len(history.table("orders", days=("0001-01-01", "0001-01-01")).arrow()) == 1


@pytest.mark.parametrize(
    ("newest", "nanos"),
    [
        ("infinity", 0),
        ("0001-01-01 00:00:01+00", -62135596799 * 10**9),
        ("9999-12-31 23:59:59+00", 253402300799 * 10**9),
        ("12345-01-01 00:00:00+00", 0),
    ],
)
def test_a_server_tells_the_time_of_any_newest_block(
    tmp_path: Path, newest: str, nanos: int
) -> None:
    """What 64 bits do not hold wraps, as in the network's answers."""
    site = site_settings(tmp_path)
    write_segment(Path(site.source), 1, ["2023-01-01 00:00:01+00", newest])
    assert strata_on(site, "load").returncode == 0
    wrapped = str((nanos + 2**63) % 2**64 - 2**63)
    with serving(settings(site)) as served, served.client() as client:
        answer = client.get("/api/v2/networkhistory/segments")
        assert answer.status_code == 200
        headers: Mapping[str, str] = answer.headers
        assert (headers["x-block-height"], headers["x-block-timestamp"]) == ("2", wrapped)
        assert client.get("/ready").status_code == 200
        assert client.get("/api/v2/vega/time").json()["timestamp"] == wrapped
        assert client.get("/metrics").status_code == 200
