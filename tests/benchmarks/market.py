"""A made-up history of any length for benchmarks, written by DuckDB, as dense as a busy market's.

Each segment of 1,000 blocks has 10,000 rows of orders (four versions of each), 500 of withdrawals
(two of each) and 20 of liquidity provisions; the last one has the current state as well.

Of every five withdrawals two are of a heavy party, which has 1,250 of them, and three of a light
one, which has 38 (one in a thousand has 39). Each takes its turn, so that what a party has is
spread evenly over the whole history: nothing is harder to look up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import duckdb

from tests.segments_kit import build_segment
from tests.transforms.warehouse_kit import STATE_TABLES
from transforms.tables.registry import known_table

CHAIN = "bench-1"
BLOCKS = 1000
ORDERS, VERSIONS = 2500, 4
WITHDRAWALS = 250
PROVISIONS = 20
PARTIES, MARKETS, SPECS, RESOURCES = 2000, 10, 50, 1000
HEAVY, LIGHT = 1250, 38
"""Withdrawals of a heavy and of a light party."""
_ORACLE_ROWS, _SIGNATURES = 20_000, 13

Rows = tuple[int, Mapping[str, str]]
"""How many rows a table has, and SQL for columns of the i-th."""

_DEFAULTS = {
    "bytea": "'\\x00'",
    "jsonb": "'[]'",
    "text": "''",
    "boolean": "'f'",
    "timestamp with time zone": "'1970-01-01 00:00:00+00'",
    "numeric(1000,16)": "'0.0100000000000000'",
    "withdrawal_status": "'STATUS_FINALIZED'",
    "liquidity_provision_status": "'STATUS_ACTIVE'",
    "node_signature_kind": "'NODE_SIGNATURE_KIND_ASSET_WITHDRAWAL'",
}


def hex_id(kind: str, number: int) -> str:
    """The id of the n-th thing of a kind."""
    return hashlib.sha256(f"{kind}{number}".encode()).hexdigest()


def party_counts(withdrawals: int) -> dict[str, int]:
    """How many parties of each kind so many withdrawals are of."""
    return {
        "heavy": max(1, withdrawals * 2 // 5 // HEAVY),
        "light": max(1, withdrawals * 3 // 5 // LIGHT),
    }


def party_sql(number: str, withdrawals: int) -> str:
    """The party of a withdrawal by its number among so many, as hexadecimal text."""
    parties = party_counts(withdrawals)
    place = f"({number}) % 5"
    heavy = f"(({number}) // 5 * 2 + {place}) % {parties['heavy']}"
    light = f"(({number}) // 5 * 3 + {place} - 2) % {parties['light']}"
    return f"sha256(case when {place} < 2 then 'heavy' || ({heavy}) else 'light' || ({light}) end)"


def write_history(folder: Path, segments: int) -> None:
    """Write so many segments; only the last one has current-state tables."""
    with duckdb.connect(config={"threads": 1}) as con:
        for number in range(segments):
            rows = {
                "blocks": _blocks(number),
                "orders": _orders(number),
                "withdrawals": _withdrawals(number, segments * WITHDRAWALS),
                "liquidity_provisions": _provisions(number),
            }
            is_last = number == segments - 1
            if is_last:
                rows |= _state(number)
            first = number * BLOCKS + 1
            build_segment(
                folder,
                chain_id=CHAIN,
                first=first,
                last=first + BLOCKS - 1,
                tables={table: _csv(con, folder, table, found) for table, found in rows.items()},
                omit=() if is_last else STATE_TABLES,
            )


def _state(number: int) -> dict[str, Rows]:
    return {
        "oracle_data": _oracle_data(),
        "oracle_data_current": _oracle_data(),
        "node_signatures": _signatures(),
        "live_liquidity_provisions": _provisions(number),
    }


def _csv(con: duckdb.DuckDBPyConnection, folder: Path, table: str, rows: Rows) -> bytes:
    """The CSV of a table whose n-th row (`i`) has these expressions; the rest are plain."""
    count, given = rows
    known = known_table(table, 1)
    assert known is not None
    columns = ", ".join(
        f'{given.get(column.name) or _DEFAULTS.get(column.type, "0")} as "{column.name}"'
        for column in known.schema.columns
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.csv"
    con.execute(
        f"copy (select {columns} from range({count}) t(i)) to '{path}' (header, comment '')"
    )
    content = path.read_bytes()
    path.unlink()
    return content


def _id(kind: str, number: str) -> str:
    return f"'\\x' || sha256('{kind}' || ({number}))"


def _time(height: str) -> str:
    moment = f"make_timestamp(1674000000000000 + ({height})::bigint * 1000000)"
    return f"strftime({moment}, '%Y-%m-%d %H:%M:%S+00')"


def _blocks(number: int) -> Rows:
    height = f"{number * BLOCKS + 1} + i"
    return BLOCKS, {"height": height, "vega_time": _time(height), "hash": _id("block", height)}


def _orders(number: int) -> Rows:
    order = f"{number * ORDERS} + i // {VERSIONS}"
    made = _time(f"{number * BLOCKS + 1} + i // {VERSIONS} * {BLOCKS} // {ORDERS}")
    return ORDERS * VERSIONS, {
        "id": _id("order", order),
        "market_id": _id("market", f"hash({order}) % {MARKETS}"),
        "party_id": _id("party", f"hash({order}) % {PARTIES}"),
        "side": f"1 + ({order}) % 2",
        "price": "100000 + hash(i) % 100000",
        "size": f"1 + hash({order}) % 1000",
        "remaining": "hash(i) % 1000",
        "time_in_force": "1",
        "type": "1",
        "status": f"1 + i % {VERSIONS}",
        "reference": f"'ref-' || ({order})",
        "version": f"1 + i % {VERSIONS}",
        "lp_id": "NULL",
        "created_at": made,
        "updated_at": made,
        "tx_hash": _id("transaction", "i"),
        "vega_time": _time(f"{number * BLOCKS + 1} + i * {BLOCKS} // {ORDERS * VERSIONS}"),
        "seq_num": f"i % {ORDERS * VERSIONS // BLOCKS}",
    }


def _withdrawals(number: int, withdrawals: int) -> Rows:
    withdrawal = f"{number * WITHDRAWALS} + i // 2"
    receiver = f"'0x' || substr(sha256('receiver' || ({withdrawal})), 1, 40)"
    return WITHDRAWALS * 2, {
        "id": _id("withdrawal", withdrawal),
        "party_id": "'\\x' || " + party_sql(withdrawal, withdrawals),
        "amount": f"1000 + hash({withdrawal}) % 1000000",
        "asset": _id("asset", f"hash({withdrawal}) % 5"),
        "status": "case i % 2 when 0 then 'STATUS_OPEN' else 'STATUS_FINALIZED' end",
        "foreign_tx_hash": f"'0x' || sha256('foreign' || ({withdrawal}))",
        "ext": f'\'{{"erc20": {{"receiverAddress": "\' || {receiver} || \'"}}}}\'',
        "created_timestamp": _time(f"{number * BLOCKS + 1}"),
        "vega_time": _time(f"{number * BLOCKS + 1} + i * {BLOCKS} // {WITHDRAWALS * 2}"),
    }


def _provisions(number: int) -> Rows:
    return PROVISIONS, {
        "id": _id("provision", f"{number} * 7 % 50 * {PROVISIONS} + i"),
        "market_id": _id("market", f"i % {MARKETS}"),
        "party_id": _id("party", "i"),
        "commitment_amount": "1000000",
        "vega_time": _time(f"{number * BLOCKS + 1} + i"),
    }


def _oracle_data() -> Rows:
    spec = f"'{{\"\\' || {_id('spec', f'i % {SPECS}')} || '\"}}'"
    return _ORACLE_ROWS, {
        "signers": "'{\"\\\\x00433046464545\"}'",
        "data": '\'[{"Name": "prices.ETH.value", "Value": "\' || i || \'"}]\'',
        "matched_spec_ids": spec,
        "broadcast_at": _time("i"),
        "vega_time": _time("i"),
        "seq_num": "i",
    }


def _signatures() -> Rows:
    return RESOURCES * _SIGNATURES, {
        "resource_id": _id("resource", f"i // {_SIGNATURES}"),
        "sig": _id("signature", "i") + " || sha256('more' || i)",
    }
