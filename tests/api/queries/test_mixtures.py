"""One answer from pages, from tables without pages, and from mixtures of both.

The rows are such as no network writes: hundreds in one block, ids and parties that begin alike, the
same withdrawal in several volumes, rows written again under the same key, volumes whose times
overlap. What is right is computed here from the rows themselves.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.core.open_snapshots import OpenSnapshots, Reading
from api.queries.cursors import ID, TIME, CursorFormat
from tests.api.answers_kit import ask, load, page
from tests.api.chain_kit import order_row, provision_row, withdrawal_row
from tests.segments_kit import Cell, build_segment, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES
from transforms.warehouse.warehouse_address import open_warehouse

_SEGMENTS = 3
_GENESIS = datetime(2023, 1, 1, tzinfo=UTC)
_ALIKE = "ab" * 31
_PARTIES = ["c1" * 32, f"{_ALIKE}01", f"{_ALIKE}02", "03", "c9" * 32]
_IDS = [*(f"{_ALIKE}{n:02x}" for n in range(60)), *(f"{n * 40503:08x}" * 8 for n in range(1, 400))]
_MARKETS = ["e1" * 32, f"{_ALIKE}e2"]
_WITHDRAWALS = CursorFormat(("vegaTime", TIME), ("id", ID), ("partyId", ID), extra=1)
_PROVISIONS = CursorFormat(("vegaTime", TIME), ("id", ID))

_Key = tuple[int | str, ...]


@dataclass
class _History:
    """What was written: rows by what tells them apart, with a serial number each."""

    withdrawals: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    provisions: dict[tuple[int, str], tuple[str, str, int]] = field(default_factory=dict)
    orders: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Warehouses:
    """The same history, in several forms."""

    history: _History
    readings: Mapping[str, Reading]

    def __repr__(self) -> str:
        return "the warehouses"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Warehouses]:
    folder = tmp_path_factory.mktemp("mixtures")
    history = _History()
    chance = random.Random(11)
    for number in range(_SEGMENTS):
        tables = {
            "withdrawals": table_rows("withdrawals", *_withdrawals(chance, number, history)),
            "liquidity_provisions": table_rows(
                "liquidity_provisions", *_provisions(chance, number, history)
            ),
            "orders": table_rows("orders", *_orders(chance, number, history)),
        }
        first = 10 * number + 1
        build_segment(
            folder / f"source{number}",
            first=first,
            last=first + 9,
            tables=tables,
            omit=STATE_TABLES,
        )
    with ExitStack() as kept:
        readings = {}
        for form in _make(folder):
            snapshots = kept.enter_context(OpenSnapshots.open(open_warehouse(folder / form)))
            readings[form] = kept.enter_context(snapshots.reading())
        yield _Warehouses(history, readings)


def _make(folder: Path) -> list[str]:
    """Warehouses of the segments in several forms, each in a folder of its name."""
    for number in range(_SEGMENTS):
        load(folder / f"source{number}", folder / "loaded")
        if number == 1:
            shutil.copytree(folder / "loaded", folder / "partly merged", symlinks=True)
    shutil.copytree(folder / "loaded", folder / "merged", symlinks=True)
    open_warehouse(folder / "merged").compact(most_partial=1)
    open_warehouse(folder / "partly merged").compact(most_partial=1)
    load(folder / f"source{_SEGMENTS - 1}", folder / "partly merged")
    return ["loaded", "partly merged", "merged"]


def _moment(chance: random.Random, number: int) -> int:
    """Microseconds since the first block: often the same moment, sometimes one out of order."""
    segment = number if chance.random() < 0.9 else chance.randrange(_SEGMENTS)
    return segment * 10_000_000 + int(chance.choice([1, 1, 1, 2, *range(100, 160)]))


def _text(moment: int) -> str:
    when = _GENESIS + timedelta(microseconds=moment)
    return f"{when:%Y-%m-%d %H:%M:%S}.{when.microsecond:06d}".rstrip("0").rstrip(".") + "+00"


def _micros(moment: int) -> int:
    return int(_GENESIS.timestamp()) * 10**6 + moment


def _withdrawals(
    chance: random.Random, number: int, history: _History
) -> Iterator[Mapping[str, Cell]]:
    keys = set[_Key]()
    for _ in range(500):
        id_, party = chance.choice(_IDS), chance.choice(_PARTIES[:4])
        moment = _moment(chance, number)
        if history.withdrawals and chance.random() < 0.2:
            (id_, party), (moment, _) = chance.choice([*history.withdrawals.items()])
        if (id_, party, moment) in keys:
            continue
        keys.add((id_, party, moment))
        known = history.withdrawals.get((id_, party))
        serial = len(history.withdrawals) * 1000 + chance.randrange(1000)
        if known is None or known[0] <= moment:
            history.withdrawals[id_, party] = (moment, serial)
        yield {**withdrawal_row(id_, party, 1), "vega_time": _text(moment), "amount": str(serial)}


def _provisions(
    chance: random.Random, number: int, history: _History
) -> Iterator[Mapping[str, Cell]]:
    keys = set[_Key]()
    for serial in range(300):
        id_, moment = chance.choice(_IDS), _moment(chance, number)
        if history.provisions and chance.random() < 0.2:
            moment, id_ = chance.choice([*history.provisions])
        if (moment, id_) in keys:
            continue
        keys.add((moment, id_))
        fresh = chance.choice(_PARTIES[:4]), chance.choice(_MARKETS), 0
        party, market, _ = history.provisions.get((moment, id_), fresh)
        history.provisions[moment, id_] = (party, market, number * 1000 + serial)
        row = provision_row(id_, party, market, 1, "ACTIVE")
        amount = str(number * 1000 + serial)
        yield {**row, "vega_time": _text(moment), "commitment_amount": amount, "reference": "r"}


def _orders(chance: random.Random, number: int, history: _History) -> Iterator[Mapping[str, Cell]]:
    keys = set[_Key]()
    for serial in range(1500):
        # One of the orders has more rows than are fetched at once.
        id_ = _IDS[0] if chance.random() < 0.3 else chance.choice(_IDS)
        version, moment = chance.randrange(400 if id_ == _IDS[0] else 4), _moment(chance, number)
        known = history.orders.get((id_, version))
        place = (moment, chance.randrange(100))
        if known is not None and chance.random() < 0.2:
            place = known[:2]
        if place in keys:
            continue
        keys.add(place)
        price = number * 10_000 + serial
        if known is None or known[:2] <= place:
            history.orders[id_, version] = (*place, price)
        row = {**order_row(id_, version, 1), "seq_num": str(place[1]), "price": str(price)}
        yield {**row, "vega_time": _text(place[0])}


def test_the_forms_are_what_they_are_called(made: _Warehouses) -> None:
    held = {
        form: len(reading.snapshot.history("orders")) for form, reading in made.readings.items()
    }
    assert held == {"loaded": 3, "partly merged": 2, "merged": 1}


_SIZES = st.sampled_from([1, 2, 20, 63, 64, 65, 200, 5000])
_ENDS = st.sampled_from(["first", "last"])
_MOMENTS = st.integers(0, _SEGMENTS).flatmap(
    lambda segment: st.sampled_from([0, 1, 2, 101, 130, 200]).map(lambda at: segment * 10**7 + at)
)


def _path(path: str, wanted: Mapping[str, str | int | None]) -> str:
    given = (f"{name}={quote(str(value))}" for name, value in wanted.items() if value is not None)
    return f"{path}?{'&'.join(given)}"


def _cut(keys: list[_Key], cursor: _Key | None, size: int, end: str, newest: str) -> list[_Key]:
    """The keys of a page, by the words of the specification."""
    shown = sorted(keys, reverse=newest == "true")
    if end == "first":
        begin = 0
        if cursor is not None:
            begin = sum(k >= cursor if newest == "true" else k <= cursor for k in shown)
        return shown[begin : begin + size]
    stop = len(shown)
    if cursor is not None:
        stop = sum(k > cursor if newest == "true" else k < cursor for k in shown)
    return shown[max(0, stop - size) : stop]


@given(
    party=st.sampled_from(["", *_PARTIES]),
    place=st.none() | st.tuples(_MOMENTS, st.sampled_from(_IDS), st.sampled_from(_PARTIES)),
    size=_SIZES,
    end=_ENDS,
    newest=st.sampled_from(["true", "false"]),
    period=st.tuples(st.none() | _MOMENTS, st.none() | _MOMENTS),
)
@example(  # more is fetched from a row on that a volume without pages has in another state
    party=_PARTIES[0],
    place=(1, "0045d647" * 8, _PARTIES[0]),
    size=65,
    end="first",
    newest="false",
    period=(None, None),
)
@example(  # behind the place of another party's row with the same time and id, and before one
    party=_PARTIES[1],
    place=(20_000_002, _IDS[1], _PARTIES[0]),
    size=1,
    end="first",
    newest="false",
    period=(None, None),
)
@example(
    party=_PARTIES[1],
    place=(20_000_002, _IDS[1], "03"),
    size=1,
    end="first",
    newest="true",
    period=(None, None),
)
@settings(max_examples=60, deadline=None)
def test_withdrawals_are_the_same_from_every_form(
    made: _Warehouses,
    party: str,
    place: tuple[int, str, str] | None,
    size: int,
    end: str,
    newest: str,
    period: tuple[int | None, int | None],
) -> None:
    begin, until = period
    if begin is not None and until is not None and begin > until:
        begin, until = until, begin
    keys: list[_Key] = [
        (moment, id_, of)
        for (id_, of), (moment, _) in made.history.withdrawals.items()
        if party in ("", of)
        and (begin is None or moment >= begin)
        and (until is None or moment < until)
    ]
    serials = [
        str(made.history.withdrawals[str(id_), str(of)][1])
        for _, id_, of in _cut(keys, place, size, end, newest)
    ]
    cursor = None if place is None else _WITHDRAWALS.encode((_micros(place[0]), *place[1:]))
    path = _path(
        "/api/v2/withdrawals",
        {
            "partyId": ("network" if party == "03" else party) or None,
            f"pagination.{end}": size,
            f"pagination.{'after' if end == 'first' else 'before'}": cursor,
            "pagination.newestFirst": newest,
            "dateRange.startTimestamp": None if begin is None else _micros(begin) * 1000,
            "dateRange.endTimestamp": None if until is None else _micros(until) * 1000,
        },
    )
    answers = {form: page(reading, path) for form, reading in made.readings.items()}
    edges, _ = answers["merged"]
    assert [edge["node"]["amount"] for edge in edges] == serials
    assert all(answer == answers["merged"] for answer in answers.values())


@given(
    party=st.sampled_from([None, *_PARTIES]),
    market=st.sampled_from([None, *_MARKETS, "e9" * 32]),
    place=st.none() | st.tuples(_MOMENTS, st.sampled_from(_IDS)),
    size=_SIZES,
    end=_ENDS,
    newest=st.sampled_from(["true", "false"]),
)
@settings(max_examples=50, deadline=None)
def test_provisions_are_the_same_from_every_form(
    made: _Warehouses,
    party: str | None,
    market: str | None,
    place: tuple[int, str] | None,
    size: int,
    end: str,
    newest: str,
) -> None:
    if party is None and market is None:
        market = _MARKETS[0]
    keys: list[_Key] = [
        key
        for key, (by, in_, _) in made.history.provisions.items()
        if party in (None, by) and market in (None, in_)
    ]
    serials = [
        str(made.history.provisions[int(moment), str(id_)][2])
        for moment, id_ in _cut(keys, place, size, end, newest)
    ]
    cursor = None if place is None else _PROVISIONS.encode((_micros(place[0]), place[1]))
    path = _path(
        "/api/v2/liquidity/provisions",
        {
            "partyId": party,
            "marketId": market,
            f"pagination.{end}": size,
            f"pagination.{'after' if end == 'first' else 'before'}": cursor,
            "pagination.newestFirst": newest,
        },
    )
    answers = {form: page(reading, path) for form, reading in made.readings.items()}
    edges, _ = answers["merged"]
    assert [edge["node"]["commitmentAmount"] for edge in edges] == serials
    assert all(answer == answers["merged"] for answer in answers.values())


@given(id_=st.sampled_from(_IDS) | st.just("99" * 32), size=_SIZES, end=_ENDS)
@settings(max_examples=50, deadline=None)
def test_orders_and_single_withdrawals_are_the_same_from_every_form(
    made: _Warehouses, id_: str, size: int, end: str
) -> None:
    versions = sorted(version for of, version in made.history.orders if of == id_)[::-1]
    shown = versions[:size] if end == "first" else versions[max(0, len(versions) - size) :]
    path = f"/api/v2/order/versions/{id_}?pagination.{end}={size}"
    answers = {form: page(reading, path) for form, reading in made.readings.items()}
    edges, _ = answers["merged"]
    prices = [str(made.history.orders[id_, version][2]) for version in shown]
    assert [edge["node"]["price"] for edge in edges] == prices
    assert all(answer == answers["merged"] for answer in answers.values())

    written = [(at, of, n) for (i, of), (at, n) in made.history.withdrawals.items() if i == id_]
    for reading in made.readings.values():
        status, body = ask(reading, f"/api/v2/withdrawal/{id_}")
        assert status == (200 if written else 404)
        if written:
            assert body["withdrawal"]["amount"] == str(max(written)[2])


def test_one_order_has_more_rows_than_are_fetched_at_once(made: _Warehouses) -> None:
    (held,) = made.readings["merged"].snapshot.history("orders")
    counted = f"select count(*) from {held.source} where id = '{_IDS[0]}'"
    ((rows,),) = made.readings["merged"].rows(counted)
    assert rows > 1000


def test_of_many_rows_that_nobody_wants_few_are_in_memory(made: _Warehouses) -> None:
    """A filter that hardly any row passes reads all pages, some at a time."""
    reading = made.readings["merged"]
    path = f"/api/v2/liquidity/provisions?marketId={_MARKETS[0]}&reference=nobody"
    assert page(reading, path) == page(made.readings["merged"], path)
    assert page(reading, path)[0] == []
