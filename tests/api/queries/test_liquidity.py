"""Liquidity provisions: the list, and what the stream says (spec 4.4; decisions 11 and 24)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from api.core.api_errors import InvalidArgumentError
from api.core.descriptors import Request
from api.core.open_snapshots import OpenSnapshots
from api.queries import liquidity
from api.queries.liquidity import (
    ProvisionFilter,
    changed_provisions,
    current_provisions,
)
from api.queries.pagination import Record
from api.queries.provision_feed import batches, encoded, present
from tests.api.answers_kit import Json, ask, load, page
from tests.api.chain_kit import (
    ALICE,
    BOB,
    CANCELLED,
    EARLY,
    MARKET,
    OTHER_MARKET,
    PROVISION,
    chain_folder,
    provision_row,
    small_chain,
)
from tests.api.message_types import OBSERVE_PROVISIONS
from tests.cases import each_of
from tests.segments_kit import build_segment, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES
from transforms.warehouse.warehouse_address import open_warehouse

_PATH = "/api/v2/liquidity/provisions"
_ANY = ProvisionFilter()


def _shown(edges: list[Json]) -> list[tuple[str, str]]:
    return [(edge["node"]["id"][:2], edge["node"]["status"]) for edge in edges]


_MARKET_HISTORY = [
    ("f2", "STATUS_CANCELLED"),
    ("f1", "STATUS_ACTIVE"),
    ("f2", "STATUS_ACTIVE"),
    ("f1", "STATUS_PENDING"),
]


@each_of(
    ("query", "shown"),
    [
        (f"marketId={MARKET}", _MARKET_HISTORY),
        (f"market_id={MARKET.upper()}&partyId=", _MARKET_HISTORY),
        (f"partyId={ALICE}", [_MARKET_HISTORY[1], _MARKET_HISTORY[3]]),
        (f"partyId={BOB}&marketId={MARKET}", [_MARKET_HISTORY[0], _MARKET_HISTORY[2]]),
        (f"marketId={MARKET}&reference=ref f1", [_MARKET_HISTORY[1], _MARKET_HISTORY[3]]),
        (f"marketId={MARKET}&reference=nobody's", []),
        (f"marketId={OTHER_MARKET}", []),
        (f"partyId={ALICE}&live=true", [("f1", "STATUS_ACTIVE"), ("f3", "STATUS_ACTIVE")]),
        (f"partyId={BOB}&live=true", []),
    ],
)
def test_every_row_of_a_market_or_party_is_listed_or_the_live_ones(
    query: str, shown: list[tuple[str, str]]
) -> None:
    edges, _ = page(small_chain(), f"{_PATH}?{query}")
    assert _shown(edges) == shown
    edges, _ = page(small_chain(), f"{_PATH}?{query}&pagination.newestFirst=false")
    assert _shown(edges) == shown[::-1]


@pytest.mark.parametrize("query", ["", "?reference=ref f1", "?live=true", "?marketId=&partyId="])
def test_a_market_or_a_party_must_be_named(query: str) -> None:
    status, body = ask(small_chain(), f"{_PATH}{query}")
    (detail,) = body["details"]
    assert (status, body["code"], detail["code"]) == (400, 3, 280001)
    assert detail["inner"].endswith("market or party filters are required")


def test_what_is_no_id_is_refused() -> None:
    status, body = ask(small_chain(), f"{_PATH}?marketId=zz")
    assert (status, body["details"][0]["code"]) == (400, 280001)
    with pytest.raises(InvalidArgumentError, match="'zz': not a valid hex id"):
        ProvisionFilter.of(OBSERVE_PROVISIONS(party_id="zz"))


def _current(wanted: ProvisionFilter) -> list[tuple[str, str]]:
    current = current_provisions(small_chain())
    return [(record[0][:2], record[10]) for record in current if wanted.matches(record)]


def test_current_is_the_last_row_of_each_provision_also_from_before_the_first_segment() -> None:
    assert _current(_ANY) == [
        (EARLY[:2], "STATUS_ACTIVE"),
        (PROVISION[:2], "STATUS_ACTIVE"),
        (CANCELLED[:2], "STATUS_CANCELLED"),
    ]


@each_of(
    ("asked", "ids"),
    [
        (OBSERVE_PROVISIONS(), ["f3", "f1", "f2"]),
        (OBSERVE_PROVISIONS(market_id=MARKET), ["f1", "f2"]),
        (OBSERVE_PROVISIONS(market_id=MARKET.upper()), ["f1", "f2"]),
        (OBSERVE_PROVISIONS(party_id=BOB), ["f2"]),
        (OBSERVE_PROVISIONS(market_id=OTHER_MARKET, party_id=ALICE), ["f3"]),
        (OBSERVE_PROVISIONS(market_id=OTHER_MARKET, party_id=BOB), []),
        (OBSERVE_PROVISIONS(market_id=""), []),
        (OBSERVE_PROVISIONS(party_id="network"), []),
    ],
)
def test_a_stream_is_about_a_market_a_party_both_or_all(asked: Request, ids: list[str]) -> None:
    assert [id_ for id_, _ in _current(ProvisionFilter.of(asked))] == ids


def test_a_snapshot_tells_what_changed_in_its_segments_and_nothing_else(tmp_path: Path) -> None:
    source = chain_folder(tmp_path / "source", 0, 2)
    load(source, tmp_path / "warehouse")
    with OpenSnapshots.open(open_warehouse(tmp_path / "warehouse")) as snapshots:
        with snapshots.reading() as reading:
            before = reading.snapshot.catalog.snapshot.history
            everything = changed_provisions(reading, ())
            assert changed_provisions(reading, before) == []
        assert _states(everything) == [
            ("f3", "STATUS_ACTIVE"),
            ("f1", "STATUS_PENDING"),
            ("f2", "STATUS_ACTIVE"),
            ("f1", "STATUS_ACTIVE"),
            ("f2", "STATUS_CANCELLED"),
        ]

        # The gap is filled: one provision's last row is there, the other has a newer one.
        chain_folder(source, 1)
        load(source, tmp_path / "warehouse")
        assert snapshots.refresh()
        with snapshots.reading() as reading:
            changed = changed_provisions(reading, before)
    assert _states(changed) == [("f1", "STATUS_ACTIVE")]
    assert ProvisionFilter(market_id=MARKET).matches(changed[0])
    assert not ProvisionFilter(party_id=BOB).matches(changed[0])


def test_a_newer_state_after_a_gap_is_sent_and_an_older_one_is_not(tmp_path: Path) -> None:
    source = chain_folder(tmp_path / "source", 0)
    load(source, tmp_path / "warehouse")
    with OpenSnapshots.open(open_warehouse(tmp_path / "warehouse")) as snapshots:
        with snapshots.reading() as reading:
            before = reading.snapshot.catalog.snapshot.history
        chain_folder(source, 2)
        load(source, tmp_path / "warehouse")
        snapshots.refresh()
        with snapshots.reading() as reading:
            changed = changed_provisions(reading, before)
    assert _states(changed) == [("f1", "STATUS_ACTIVE"), ("f2", "STATUS_CANCELLED")]


def test_every_state_between_is_sent_in_order(tmp_path: Path) -> None:
    def load_segment(first: int, *states: tuple[int, str, int]) -> None:
        rows = [provision_row(f"{n:064x}", ALICE, MARKET, at, status) for n, status, at in states]
        tables = {"liquidity_provisions": table_rows("liquidity_provisions", *rows)}
        source = tmp_path / "source"
        build_segment(source, first=first, last=first + 9, tables=tables, omit=STATE_TABLES)
        load(source, tmp_path / "warehouse")

    load_segment(1, (1, "PENDING", 5))
    with OpenSnapshots.open(open_warehouse(tmp_path / "warehouse")) as snapshots:
        with snapshots.reading() as reading:
            before = reading.snapshot.catalog.snapshot.history
        load_segment(11, (1, "ACTIVE", 12), (2, "PENDING", 12), (1, "UNDEPLOYED", 14))
        load_segment(21, (1, "CANCELLED", 22))
        snapshots.refresh()
        with snapshots.reading() as reading:
            changed = changed_provisions(reading, before)
    assert [(record[0][-1], record[10]) for record in changed] == [
        ("1", "STATUS_ACTIVE"),
        ("2", "STATUS_PENDING"),
        ("1", "STATUS_UNDEPLOYED"),
        ("1", "STATUS_CANCELLED"),
    ]


def _states(records: Iterable[Record]) -> list[tuple[str, str]]:
    return [(record[0][:2], record[10]) for record in records]


def _encoded(record: Record) -> bytes:
    return f"{record[0]} {record[10]}".encode()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSnapshots]:
    """120 provisions of one block, every other one of another market."""
    root = tmp_path_factory.mktemp("many")
    rows = [
        provision_row(f"{n:064x}", ALICE, (MARKET, OTHER_MARKET)[n % 2], 5, "ACTIVE")
        for n in range(120)
    ]
    tables = {"liquidity_provisions": table_rows("liquidity_provisions", *rows)}
    build_segment(root / "source", last=10, tables=tables, omit=STATE_TABLES)
    load(root / "source", root / "warehouse")
    with OpenSnapshots.open(open_warehouse(root / "warehouse")) as snapshots:
        yield snapshots


@pytest.mark.parametrize(
    ("wanted", "sizes"),
    [
        (_ANY, [50, 50, 20]),
        (ProvisionFilter(market_id=MARKET), [50, 10]),
        (ProvisionFilter(party_id=BOB), []),
    ],
)
def test_batches_hold_at_most_fifty(
    many: OpenSnapshots, wanted: ProvisionFilter, sizes: list[int]
) -> None:
    with many.reading() as reading:
        messages = [*batches(present(reading, _encoded), wanted)]
        every = changed_provisions(reading, ())
    assert [len(message) for message in messages] == sizes
    assert messages == [*batches(encoded(every, _encoded), wanted)]
    assert liquidity.BATCH == 50


def test_provisions_of_one_block_are_paged_by_their_id(many: OpenSnapshots) -> None:
    with many.reading() as reading:
        edges, info = page(reading, f"{_PATH}?partyId={ALICE}&pagination.first=100")
    ids = [edge["node"]["id"] for edge in edges]
    assert ids == [f"{n:064x}" for n in range(119, 19, -1)]
    assert info["hasNextPage"]
