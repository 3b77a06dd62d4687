"""pyarrow: the data set that deltalake gives."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow
from deltalake import DeltaTable
from pyarrow import compute
from pyarrow.dataset import field

from tests.engines.answering import Answer, Rows, answer_all, rows_of
from tests.engines.questions import (
    BEGIN,
    END,
    FAR,
    FEE,
    GREATEST_PRICE,
    INSTANT,
    MANIFESTS,
    ORDER,
    PAGE,
    PRICE,
)

_PLACE = ["_segment", "_row"]
_IN_ORDER = [("_segment", "ascending"), ("_row", "ascending")]


class PyArrow:
    names: Mapping[str, object] = {}

    def __init__(self, lake: str, tables: Mapping[str, Sequence[str]]) -> None:
        self.tables = {name: DeltaTable(f"{lake}/{name}").to_pyarrow_dataset() for name in tables}
        self.orders = self.tables["orders"]
        self.own: dict[str, Answer] = {
            "count": lambda: self.count(None),
            "sums by market": self.sums,
            "least and greatest": self.extremes,
            "sum of 16 places": lambda: self.totals("liquidity_provisions", None, ["sum fee"]),
            "above a decimal": lambda: self.totals(
                "orders", field("price") > _decimal(str(PRICE), 0), ["count price", "sum price"]
            ),
            PAGE: self.dear,
            "equal to a decimal": lambda: self.places(
                field("price") == _decimal(GREATEST_PRICE, 0)
            ),
            "above a decimal of 16 places": lambda: self.totals(
                "liquidity_provisions", field("fee") > _decimal(FEE, 16), ["count fee"]
            ),
            "below zero": lambda: self.totals(
                "ledger",
                (field("account_from_balance") < _decimal("0", 0)) & (field("_segment") == 301),
                ["count account_from_balance", "min account_from_balance"],
            ),
            "between times": lambda: self.totals(
                "orders",
                (field("vega_time") >= _time(BEGIN)) & (field("vega_time") < _time(END)),
                ["count size", "sum size"],
            ),
            "at an instant": lambda: self.places(field("vega_time") == _time(INSTANT)),
            "far times": lambda: self.count(field("expires_at") > _time(FAR)),
            "no time": lambda: self.count(field("expires_at").is_null()),
            "a column that older rows lack": lambda: self.count(
                field("reserved_remaining").is_null()
            ),
            "a value that older rows lack": lambda: self.count(field("reserved_remaining") == 0),
            "one id": lambda: self.places(field("id") == ORDER, "price"),
            "blocks": lambda: self.totals(
                "blocks",
                (field("height") >= 250) & (field("height") <= 650),
                ["count height", "max hash"],
            ),
            "one segment": lambda: self.totals(
                "orders", field("_segment") == 301, ["count _row", "sum price"]
            ),
            "NULL beside the empty text": self.references,
            "join": self.join,
            MANIFESTS: self.manifests,
            "texts that no type holds": self.raw,
            "a float in a filter": lambda: self.count(field("price") > 1e20),
            "a long number in a filter": lambda: self.count(field("price") > PRICE),
            "a time without zone": lambda: self.count(
                field("vega_time") >= _naive("2023-01-01 00:05:00")
            ),
            "a sum beyond 38 digits": lambda: self.totals(
                "ledger",
                field("account_from_balance") > _decimal("0", 0),
                ["sum account_from_balance"],
            ),
            "a product of decimals": self.product,
        }

    def sql(self, query: str) -> Rows:
        raise NotImplementedError("pyarrow speaks no SQL")

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        read = self.tables[table].to_table().sort_by(_IN_ORDER)
        return rows_of(read.select(columns))

    def count(self, kept: object) -> Rows:
        """How many orders a filter keeps."""
        return [[self.orders.count_rows(filter=kept)]]

    def totals(self, table: str, kept: object, wanted: list[str]) -> Rows:
        """Aggregates, each as `function column`, of the rows that a filter keeps."""
        pairs = [(column, function) for function, column in map(str.split, wanted)]
        read = self.tables[table].to_table(columns=[*dict(pairs)], filter=kept)
        return rows_of(read.group_by([]).aggregate(pairs))

    def places(self, kept: object, *more: str) -> Rows:
        """Which orders a filter keeps."""
        read = self.orders.to_table(columns=[*_PLACE, *more], filter=kept)
        return rows_of(read.sort_by(_IN_ORDER))

    def sums(self) -> Rows:
        read = self.orders.to_table(columns=["market_id", "_row", "price", "size"])
        wanted = [("_row", "count"), ("price", "sum"), ("size", "sum")]
        return rows_of(read.group_by("market_id").aggregate(wanted).sort_by("market_id"))

    def dear(self) -> Rows:
        kept = field("price") > _decimal(str(PRICE), 0)
        read = self.orders.to_table(columns=["market_id", "size"], filter=kept)
        return rows_of(read.group_by("market_id").aggregate([("size", "sum")]).sort_by("market_id"))

    def extremes(self) -> Rows:
        columns = ["price", "vega_time", "id"]
        read = self.orders.to_table(columns=columns)
        return [
            [
                function(read[column]).as_py()
                for column in columns
                for function in (compute.min, compute.max)
            ]
        ]

    def product(self) -> Rows:
        kept = field("commitment_amount") < _decimal("10000000000", 0)
        read = self.tables["liquidity_provisions"].to_table(filter=kept)
        return [[compute.sum(compute.multiply(read["commitment_amount"], read["fee"])).as_py()]]

    def references(self) -> Rows:
        kept = field("reference").is_null() | (field("reference") != "")
        read = self.orders.to_table(columns=["reference"], filter=kept)
        return [[read.num_rows, read.num_rows - read["reference"].null_count]]

    def join(self) -> Rows:
        trades = self.tables["trades"].to_table(columns=["buy_order", "_segment", "price"])
        orders = self.orders.to_table(columns=["id", "_segment", "market_id", "price"])
        both = trades.join(
            orders, ["buy_order", "_segment"], ["id", "_segment"], "inner", right_suffix="_asked"
        )
        dear = both.filter(compute.greater(both["price"], both["price_asked"]))
        wanted = [("price", "count"), ("price", "sum")]
        return rows_of(dear.group_by("market_id").aggregate(wanted).sort_by("market_id"))

    def manifests(self) -> Rows:
        columns = ["first_block", "last_block", "schema_version", "receipts"]
        read = self.tables["manifests"].to_table(columns=columns)
        return rows_of(read.sort_by("first_block"))

    def raw(self) -> Rows:
        read = self.orders.to_table(columns=[*_PLACE, "_raw"], filter=field("_raw").is_valid())
        kept = compute.map_lookup(read["_raw"], "price", "first")
        found = read.select(_PLACE).append_column("kept", kept)
        return rows_of(found.filter(found["kept"].is_valid()).sort_by(_IN_ORDER))


def _decimal(text: str, scale: int) -> pyarrow.Scalar:
    return pyarrow.scalar(Decimal(text), pyarrow.decimal128(38, scale))


def _naive(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _time(text: str) -> pyarrow.Scalar:
    when = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return pyarrow.scalar(when, pyarrow.timestamp("us", "UTC"))


if __name__ == "__main__":
    answer_all(PyArrow)
