"""Takes down what happens in the sample market and keeps the database's tables in step.

History rows leave with every block; current-state tables are kept whole, as the network does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from operator import itemgetter
from random import Random

from tests.sample.text import Cell, Row
from transforms.tables.registry import known_table, known_tables

_HASH_BYTES = 32
_HASHES_AT_ONCE = 1_024

# A table, its twin that keeps only the latest row, and what identifies a row there.
_TWINS: dict[str, tuple[str, Callable[[Row], Hashable]]] = {
    "balances": ("current_balances", itemgetter("account_id")),
    "delegations": ("delegations_current", itemgetter("party_id", "node_id", "epoch_id")),
    "liquidity_provisions": ("live_liquidity_provisions", itemgetter("id")),
    "margin_levels": ("current_margin_levels", itemgetter("account_id")),
    "market_data": ("current_market_data", itemgetter("market")),
    "markets": ("markets_current", itemgetter("id")),
    "network_parameters": ("network_parameters_current", itemgetter("key")),
    "oracle_data": ("oracle_data_current", itemgetter("matched_spec_ids", "data")),
    "orders": ("orders_live", itemgetter("id")),
    "positions": ("positions_current", itemgetter("party_id", "market_id")),
    "stake_linking": ("stake_linking_current", itemgetter("id")),
}
_ALIVE: dict[str, tuple[Cell, ...]] = {
    "orders_live": (1, 8),
    "live_liquidity_provisions": ("STATUS_PENDING", "STATUS_ACTIVE", "STATUS_UNDEPLOYED"),
}


class Recorder:
    """The rows of the present block, and the current state that all blocks so far have left."""

    def __init__(self, rng: Random) -> None:
        self.height = 0
        self.time = 0
        self.block_hash = ""
        self.tx_hash = ""
        self._sequence = 0
        self._hashes = _hashes(rng)
        self._history: frozenset[str] = frozenset()
        self._block: dict[str, dict[Hashable, Row]] = defaultdict(dict)
        self._current: dict[str, dict[Hashable, Row]] = defaultdict(dict)

    def new_hash(self) -> str:
        """A fresh 32-byte hash as hex: an order's or a trade's id."""
        return next(self._hashes)

    def use_version(self, version: int) -> None:
        """Divide tables into history and current state as a schema version does."""
        known = {table: known_table(table, version) for table in known_tables(version)}
        self._history = frozenset(
            name for name, table in known.items() if table and table.kind == "history"
        )

    def open_block(self, height: int, time: int) -> None:
        """Start a block; `time` in microseconds since 1970."""
        self.height, self.time, self.block_hash = height, time, self.new_hash()
        self._sequence = 0
        self.end_transactions()
        self.put("blocks", height=height, hash=self.block_hash)

    def begin_transaction(self) -> None:
        """What follows belongs to a new transaction."""
        self.tx_hash = self.new_hash()

    def end_transactions(self) -> None:
        """What follows is the block's own doing and carries the block's hash."""
        self.tx_hash = self.block_hash

    def put(self, table: str, identity: Hashable = None, **cells: Cell) -> None:
        """Add a row; inside one block it replaces the row of the same `identity`."""
        self._sequence += 1
        moment = self.time + self._sequence
        row: Row = {
            "vega_time": self.time,
            "tx_hash": self.tx_hash,
            "seq_num": self._sequence,
            "synthetic_time": moment,
            "ledger_entry_time": moment,
            **cells,
        }
        rows = (self._block if table in self._history else self._current)[table]
        key = moment if identity is None else identity
        rows.pop(key, None)
        rows[key] = row
        if table in _TWINS:
            self._update_twin(table, row)

    def _update_twin(self, table: str, row: Row) -> None:
        twin, identify = _TWINS[table]
        if twin in _ALIVE and row["status"] not in _ALIVE[twin]:
            self._current[twin].pop(identify(row), None)
        else:
            self._current[twin][identify(row)] = row

    def close_block(self) -> Mapping[str, Collection[Row]]:
        """End the block; returns its history rows by table."""
        rows = {table: rows.values() for table, rows in self._block.items()}
        self._block = defaultdict(dict)
        return rows

    def current_state(self, first: int) -> Mapping[str, Collection[Row]]:
        """The rows of every current-state table, in a segment that starts at block `first`."""
        block: Row = {"vega_time": self.time, "height": self.height, "hash": self.block_hash}
        span: Row = {"from_height": first, "to_height": self.height}
        return {
            **{table: rows.values() for table, rows in self._current.items()},
            "last_block": [{"onerow_check": True, **block}],
            "last_snapshot_span": [{"onerow_check": True, **span}],
        }


def _hashes(rng: Random) -> Iterator[str]:
    """Endless hashes; drawing them in bulk is ten times as fast."""
    while True:
        text = rng.randbytes(_HASH_BYTES * _HASHES_AT_ONCE).hex()
        for start in range(0, len(text), 2 * _HASH_BYTES):
            yield text[start : start + 2 * _HASH_BYTES]
