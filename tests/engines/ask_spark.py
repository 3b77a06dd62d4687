"""Spark on a cluster of two executors, over copies of the active files.

What would let it read Delta tables and S3 by itself are JARs, which PyPI does not have.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from deltalake import DeltaTable
from pyarrow.fs import LocalFileSystem, S3FileSystem, copy_files
from pyspark.sql import SparkSession

from tests.engines.answering import Answer, Rows, answer_all, rows_of

_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


class Spark:
    own: Mapping[str, Answer] = {}

    def __init__(self, lake: str, tables: Mapping[str, Sequence[str]], folder: Path) -> None:
        builder = SparkSession.builder.master("local-cluster[2,1,1024]")
        builder = builder.config("spark.sql.warehouse.dir", str(folder / "spark"))
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        for name in tables:
            files = copied(f"{lake}/{name}", folder / name)
            frame = self.session.read.option("mergeSchema", "true").parquet(*files)
            frame.createOrReplaceTempView(name)
            if name == "orders":
                self.names = {"spark": self.session, "files": files}

    def sql(self, query: str) -> Rows:
        return rows_of(self.session.sql(query).toArrow())

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        return self.sql(f"select {', '.join(columns)} from {table} order by _segment, _row")


def copied(table: str, folder: Path) -> list[str]:
    """Copy a table's active files into a folder; returns their paths."""
    folder.mkdir()
    paths = []
    for address in DeltaTable(table).file_uris():
        paths.append(str(folder / address.rpartition("/")[2]))
        copy_files(
            address.removeprefix("s3://"),
            paths[-1],
            source_filesystem=S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"]),
            destination_filesystem=LocalFileSystem(),
        )
    return paths


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        answer_all(lambda lake, tables: Spark(lake, tables, Path(scratch)))
        SparkSession.active().stop()
