"""delta-rs's own SQL, which is DataFusion."""

from collections.abc import Mapping, Sequence

import pyarrow
from deltalake import DeltaTable, QueryBuilder

from tests.engines.answering import Answer, Rows, answer_all, rows_of


class DeltaRs:
    own: Mapping[str, Answer] = {}
    names: Mapping[str, object] = {}

    def __init__(self, lake: str, tables: Mapping[str, Sequence[str]]) -> None:
        self.builder = QueryBuilder()
        for name in tables:
            self.builder.register(name, DeltaTable(f"{lake}/{name}"))

    def sql(self, query: str) -> Rows:
        return rows_of(pyarrow.table(self.builder.execute(query).read_all()))

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        return self.sql(f"select {', '.join(columns)} from {table} order by _segment, _row")


if __name__ == "__main__":
    answer_all(DeltaRs)
