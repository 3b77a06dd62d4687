"""DuckDB 1.5 with its extensions `delta` and `httpfs`, as PyPI has them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from tests.engines.answering import Answer, Rows, answer_all


class DuckDBDelta:
    own: Mapping[str, Answer] = {}

    def __init__(self, lake: str, tables: Mapping[str, Sequence[str]]) -> None:
        self.connection = duckdb.connect()
        self.names = {"connection": self.connection}
        for extension in (
            Path(duckdb.__file__).parents[1].glob("duckdb_extension_*/**/*.duckdb_extension")
        ):
            self.connection.execute(f"load '{extension}'")
        endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
        self.connection.execute(
            f"create secret (type s3, endpoint '{endpoint}', use_ssl false, url_style 'path', "
            f"key_id '{os.environ['AWS_ACCESS_KEY_ID']}', "
            f"secret '{os.environ['AWS_SECRET_ACCESS_KEY']}', region 'us-east-1')"
        )
        self.connection.execute("set timezone = 'UTC'")
        for name in tables:
            self.connection.execute(f"create view {name} as from delta_scan('{lake}/{name}')")

    def sql(self, query: str) -> Rows:
        return self.connection.execute(query).fetchall()

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        return self.sql(f"select {', '.join(columns)} from {table} order by _segment, _row")


if __name__ == "__main__":
    answer_all(DuckDBDelta)
