"""DuckDB over a data set of pyarrow's, to which it gives its filters."""

from collections.abc import Mapping, Sequence

import duckdb
from deltalake import DeltaTable

from tests.engines.answering import Answer, Rows, answer_all


class DuckDBArrow:
    own: Mapping[str, Answer] = {}
    names: Mapping[str, object] = {}

    def __init__(self, lake: str, tables: Mapping[str, Sequence[str]]) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("set timezone = 'UTC'")
        for name in tables:
            self.connection.register(name, DeltaTable(f"{lake}/{name}").to_pyarrow_dataset())

    def sql(self, query: str) -> Rows:
        return self.connection.execute(query).fetchall()

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        return self.sql(f"select {', '.join(columns)} from {table} order by _segment, _row")


if __name__ == "__main__":
    answer_all(DuckDBArrow)
