"""DuckDB: `read_parquet` over the active files, through pyarrow's file system."""

import os
from collections.abc import Mapping, Sequence

import duckdb
from deltalake import DeltaTable
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import S3FileSystem

from tests.engines.answering import Answer, Rows, answer_all


class DuckDB:
    own: Mapping[str, Answer] = {}

    def __init__(self, lake: str, tables: Mapping[str, Sequence[str]]) -> None:
        self.connection = duckdb.connect()
        s3 = S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"])
        self.names = {"s3": s3}
        self.connection.register_filesystem(ArrowFSWrapper(s3))
        self.connection.execute("set timezone = 'UTC'")
        for name in tables:
            files = DeltaTable(f"{lake}/{name}").file_uris()
            self.connection.execute(
                f"create view {name} as from read_parquet({files}, union_by_name = true)"
            )

    def sql(self, query: str) -> Rows:
        return self.connection.execute(query).fetchall()

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        return self.sql(f"select {', '.join(columns)} from {table} order by _segment, _row")


if __name__ == "__main__":
    answer_all(DuckDB)
