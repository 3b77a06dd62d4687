"""Polars: `scan_delta`, which reads the log through delta-rs and the files by itself."""

from collections.abc import Mapping, Sequence

import polars

from tests.engines.answering import Answer, Rows, answer_all


class Polars:
    names: Mapping[str, object] = {}

    def __init__(self, lake: str, tables: Mapping[str, Sequence[str]]) -> None:
        self.tables = {name: polars.scan_delta(f"{lake}/{name}") for name in tables}
        self.context = polars.SQLContext(self.tables)
        self.own: dict[str, Answer] = {"texts that no type holds": self.raw}

    def sql(self, query: str) -> Rows:
        return self.context.execute(query).collect().rows()

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        return self.tables[table].sort("_segment", "_row").select(columns).collect().rows()

    def raw(self) -> Rows:
        price = polars.col("_raw").map.get("price")
        held = self.tables["orders"].select("_segment", "_row", price.alias("price"))
        return held.drop_nulls("price").sort("_segment", "_row").collect().rows()


if __name__ == "__main__":
    answer_all(Polars)
