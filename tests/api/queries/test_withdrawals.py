"""Withdrawals over generated segments (spec 4.7; decision 20)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from api.core.open_snapshots import OpenSnapshots, Reading
from api.queries.latest_rows import written_again
from api.queries.withdrawals import LATEST, prepare
from tests.api.answers_kit import Json, ask, load, page
from tests.api.chain_kit import ALICE, BOB, small_chain, withdrawal_row
from tests.cases import each_of
from tests.segments_kit import block_time, build_segment, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES
from transforms.warehouse.warehouse_address import open_warehouse

_PATH = "/api/v2/withdrawals"
_SECOND = 10**9
_GENESIS = 1672531200 * _SECOND  # 2023-01-01, where the kit's blocks begin, one a second


@pytest.fixture
def chain() -> Reading:
    return small_chain()


def _shown(edges: list[Json]) -> list[tuple[str, str]]:
    return [(edge["node"]["id"][:2], edge["node"]["partyId"][:2]) for edge in edges]


_ALL = [
    ("06", "ne"),
    ("03", "c2"),
    ("05", "c2"),
    ("05", "c1"),
    ("01", "c1"),
    ("04", "c1"),
    ("02", "c1"),
]
"""Newest first by the time when they were last written."""


def test_of_each_withdrawal_of_a_party_the_last_row_counts(chain: Reading) -> None:
    edges, _ = page(chain, _PATH)
    assert _shown(edges) == _ALL
    statuses = {edge["node"]["id"][:2]: edge["node"]["status"] for edge in edges}
    assert statuses["01"] == "STATUS_FINALIZED"
    assert statuses["03"] == "STATUS_REJECTED"


def test_oldest_first_turns_them_round(chain: Reading) -> None:
    edges, _ = page(chain, f"{_PATH}?pagination.newestFirst=false")
    assert _shown(edges) == _ALL[::-1]


@pytest.mark.parametrize(
    ("party", "shown"),
    [
        (ALICE, "c1"),
        (ALICE.upper(), "c1"),
        (BOB, "c2"),
        ("network", "ne"),
        ("9" * 64, "none"),
    ],
)
def test_a_party_has_its_own(chain: Reading, party: str, shown: str) -> None:
    edges, _ = page(chain, f"{_PATH}?partyId={party}")
    assert _shown(edges) == [row for row in _ALL if row[1] == shown]


def test_an_empty_party_is_all_of_them(chain: Reading) -> None:
    assert page(chain, f"{_PATH}?partyId=") == page(chain, _PATH)


def test_amounts_are_exact_whatever_their_size(chain: Reading) -> None:
    edges, _ = page(chain, f"{_PATH}?partyId={ALICE}")
    amounts = {edge["node"]["id"][:2]: edge["node"]["amount"] for edge in edges}
    assert amounts["04"] == "1" + "0" * 60
    assert amounts["02"] == "5.5"


@pytest.mark.parametrize(
    ("start", "end", "ids"),
    [
        (14, None, ["06", "03", "05", "05"]),
        (None, 14, ["01", "04", "02"]),
        (4, 14, ["01", "04"]),
        (14, 14, []),
        (2, 3, []),  # withdrawal 01 was written then, but not for the last time
        (12, 13, ["01"]),
    ],
)
def test_a_range_of_dates_is_about_the_last_row_and_leaves_out_its_end(
    chain: Reading, start: int | None, end: int | None, ids: list[str]
) -> None:
    given = (("startTimestamp", start), ("endTimestamp", end))
    query = "&".join(
        f"dateRange.{name}={_GENESIS + block * _SECOND}"
        for name, block in given
        if block is not None
    )
    edges, info = page(chain, f"{_PATH}?{query}")
    assert [id_ for id_, _ in _shown(edges)] == ids
    assert (info["hasNextPage"], info["hasPreviousPage"]) == (False, False)
    first, _ = page(chain, f"{_PATH}?{query}&pagination.first=1")
    assert first == edges[:1]


def test_dates_are_cut_to_microseconds(chain: Reading) -> None:
    at = _GENESIS + 12 * _SECOND
    edges, _ = page(chain, f"{_PATH}?dateRange.startTimestamp={at + 999}")
    assert "01" in dict(_shown(edges))
    edges, _ = page(chain, f"{_PATH}?dateRange.startTimestamp={at + 1000}")
    assert "01" not in dict(_shown(edges))


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("partyId=zz", 10000),
        ("partyId=ab", 10000),
        ("partyId=VOTE", 10000),
        ("dateRange.startTimestamp=2&dateRange.endTimestamp=1", 10000),
        ("pagination.after=zzz", 10028),
    ],
)
def test_what_cannot_be_right_is_refused(chain: Reading, query: str, code: int) -> None:
    status, body = ask(chain, f"{_PATH}?{query}")
    assert (status, body["code"], body["details"][0]["code"]) == (400, 3, code)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 9])
@pytest.mark.parametrize("newest", ["true", "false"])
@pytest.mark.parametrize(
    ("asked", "flag", "place", "cursor"),
    [
        ("first", "hasNextPage", "after", "endCursor"),
        ("last", "hasPreviousPage", "before", "startCursor"),
    ],
)
def test_walking_visits_every_withdrawal_once(
    chain: Reading, asked: str, flag: str, place: str, cursor: str, newest: str, size: int
) -> None:
    seen: list[tuple[str, str]] = []
    query = f"pagination.{asked}={size}&pagination.newestFirst={newest}"
    at = ""
    while True:
        edges, info = page(chain, f"{_PATH}?{query}{at}")
        seen = [*seen, *_shown(edges)] if asked == "first" else [*_shown(edges), *seen]
        if not info[flag]:
            break
        at = f"&pagination.{place}={quote(info[cursor])}"
    assert seen == (_ALL if newest == "true" else _ALL[::-1])


def test_only_a_shared_id_has_its_party_in_the_cursor(chain: Reading) -> None:
    edges, _ = page(chain, _PATH)
    cursors = [json.loads(base64.b64decode(edge["cursor"])) for edge in edges]
    assert [cursor.get("partyId", "")[:2] for cursor in cursors] == ["", "", "c2", "c1", "", "", ""]


def test_one_withdrawal_is_found_by_its_id(chain: Reading) -> None:
    status, body = ask(chain, f"/api/v2/withdrawal/{'01' * 32}")
    edges, _ = page(chain, _PATH)
    assert (status, body["withdrawal"]) == (200, edges[4]["node"])
    assert body["withdrawal"]["withdrawnTimestamp"] == str(_GENESIS + 12 * _SECOND)


@pytest.mark.parametrize(
    ("id_", "status", "code", "message"),
    [
        ("", 400, 80003, "missing withdrawal ID"),
        ("ab", 400, 10000, "invalid withdrawal ID"),
        ("9" * 64, 404, 150001, "failed to get withdrawal"),
    ],
)
def test_a_withdrawal_that_is_not_there_is_an_error(
    chain: Reading, id_: str, status: int, code: int, message: str
) -> None:
    got, body = ask(chain, f"/api/v2/withdrawal/{id_}")
    (detail,) = body["details"]
    assert (got, detail["code"], detail["message"]) == (status, code, message)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5,000 withdrawals in one volume, a tenth of them at the same time."""
    folder = tmp_path_factory.mktemp("many")
    rows = [
        {
            "id": f"\\x{number:064x}",
            "party_id": f"\\x{(ALICE, BOB)[number % 2]}",
            "vega_time": block_time(1, number // 10 * 10),
        }
        for number in range(5000)
    ]
    tables = {"withdrawals": table_rows("withdrawals", *rows)}
    build_segment(folder / "source", last=10, tables=tables, omit=STATE_TABLES)
    load(folder / "source", folder / "warehouse")
    return folder / "warehouse"


_FROM, _TO = (1_672_531_201_000_000_000 + micros * 1000 for micros in (1_000, 4_000))
_RANGES = {
    "all": "",
    "a third": f"&dateRange.startTimestamp={_FROM}&dateRange.endTimestamp={_TO}",
    "from": f"&dateRange.startTimestamp={_TO}",
    "until": f"&dateRange.endTimestamp={_FROM}",
    "none": f"&dateRange.startTimestamp={_FROM}&dateRange.endTimestamp={_FROM}",
}


@each_of("within", _RANGES)
@each_of("of", ["", f"&partyId={ALICE}"])
@each_of("newest", ["true", "false"])
def test_walking_over_many_reads_what_is_near_and_misses_nothing(
    many: Path, within: str, of: str, newest: str
) -> None:
    first, last = {"all": (0, 5000), "a third": (1000, 4000), "from": (4000, 5000)}.get(
        within, (0, 1000 if within == "until" else 0)
    )
    wanted = [n for n in range(first, last) if not of or n % 2 == 0]
    path = f"{_PATH}?pagination.newestFirst={newest}{of}{_RANGES[within]}"
    seen: list[int] = []
    at = ""
    with OpenSnapshots.open(open_warehouse(many)) as snapshots, snapshots.reading() as reading:
        while True:
            edges, info = page(reading, f"{path}&pagination.first=700{at}")
            seen += [int(edge["node"]["id"], 16) for edge in edges]
            if not info["hasNextPage"]:
                break
            at = f"&pagination.after={quote(info['endCursor'])}"
        if not seen:
            assert wanted == []
            return
        before = quote(edges[0]["cursor"])
        edges, _ = page(reading, f"{path}&pagination.last=300&pagination.before={before}")
    assert seen == (wanted[::-1] if newest == "true" else wanted)
    start = (len(seen) - 1) // 700 * 700
    assert [int(edge["node"]["id"], 16) for edge in edges] == seen[max(0, start - 300) : start]


def test_volumes_whose_rows_are_not_in_the_order_of_their_blocks_are_mixed(tmp_path: Path) -> None:
    blocks = [(5, 25, 15), (20, 30, 10), (40, 35, 31)]
    for number, written in enumerate(blocks):
        rows = [withdrawal_row(f"{block:02}" * 32, ALICE, block) for block in written]
        # This one is in all three volumes, and newest in the second.
        rows.append(withdrawal_row("99" * 32, ALICE, (1, 33, 32)[number], amount=str(number)))
        tables = {"withdrawals": table_rows("withdrawals", *rows)}
        first, last = 10 * number + 1, 10 * number + 10
        source = tmp_path / "source"
        build_segment(source, first=first, last=last, tables=tables, omit=STATE_TABLES)
        load(source, tmp_path / "warehouse")
    _check_mixed(tmp_path / "warehouse")


def _check_mixed(root: Path) -> None:
    wanted = ["40", "35", "99", "31", "30", "25", "20", "15", "10", "05"]
    with OpenSnapshots.open(open_warehouse(root)) as snapshots, snapshots.reading() as reading:
        for order in (wanted, wanted[::-1]):
            newest = str(order is wanted).lower()
            for asked in ("", f"&partyId={ALICE}"):
                path = f"{_PATH}?pagination.newestFirst={newest}{asked}"
                assert [id_ for id_, _ in _shown(page(reading, path)[0])] == order
                seen: list[tuple[str, str]] = []
                at = ""
                while True:
                    edges, info = page(reading, f"{path}&pagination.first=1{at}")
                    seen += _shown(edges)
                    if not info["hasNextPage"]:
                        break
                    at = f"&pagination.after={quote(info['endCursor'])}"
                assert [id_ for id_, _ in seen] == order
        edges, _ = page(reading, f"{_PATH}?pagination.first=3")
        assert edges[2]["node"]["amount"] == "1"
        _, body = ask(reading, f"/api/v2/withdrawal/{'99' * 32}")
        assert body["withdrawal"]["amount"] == "1"


def test_the_kit_and_this_test_agree_on_time() -> None:
    assert block_time(0) == "2023-01-01 00:00:00+00"


def test_what_is_written_again_is_found_of_each_snapshot(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    sizes = []
    with OpenSnapshots.open(open_warehouse(root), prepare=prepare) as kept:
        for number, ids in enumerate((["01", "02", "03"], ["02", "04"], ["03", "02"], ["05"])):
            source = tmp_path / f"source{number}"
            rows = [withdrawal_row(id_ * 32, ALICE, 10 * number + 1) for id_ in ids]
            tables = {"withdrawals": table_rows("withdrawals", *rows)}
            first = 10 * number + 1
            build_segment(source, first=first, last=first + 9, tables=tables, omit=STATE_TABLES)
            load(source, root)
            if number == 3:
                open_warehouse(root).compact(most_partial=1)
            kept.refresh()
            with kept.reading() as reading:
                sizes.append(len(written_again(reading, LATEST)))
                assert reading.snapshot.former is None  # it would keep all that were before it
    assert sizes == [0, 1, 2, 0]
