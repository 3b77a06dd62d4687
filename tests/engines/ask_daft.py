"""Daft on a Ray cluster of two nodes, each of one processor."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import daft
import ray
from daft import col
from daft.io import IOConfig, S3Config
from ray._private.state import actors
from ray.cluster_utils import Cluster

from tests.engines.answering import Answer, Rows, answer_all, rows_of
from tests.engines.questions import BEGIN, END, FAR, INSTANT

_STORE_BYTES = 150 * 1024 * 1024


class Daft:
    def __init__(self, lake: str, tables: Mapping[str, Sequence[str]]) -> None:
        s3 = S3Config(
            endpoint_url=os.environ["AWS_ENDPOINT_URL"],
            region_name=os.environ["AWS_REGION"],
            key_id=os.environ["AWS_ACCESS_KEY_ID"],
            access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
            use_ssl=False,
        )
        config = IOConfig(s3=s3)
        self.names = {"config": config}
        self.tables = {
            name: daft.read_deltalake(f"{lake}/{name}", io_config=config) for name in tables
        }
        self.own: dict[str, Answer] = {
            "between times": self.between,
            "at an instant": self.instant,
            "far times": self.far,
            "texts that no type holds": self.raw,
        }

    def sql(self, query: str) -> Rows:
        return rows_of(daft.sql(query, **self.tables))

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        return rows_of(self.tables[table].sort(["_segment", "_row"]).select(*columns))

    def between(self) -> Rows:
        time = col("vega_time")
        found = self.tables["orders"].where((time >= _time(BEGIN)) & (time < _time(END)))
        return rows_of(found.agg(col("size").count().alias("n"), col("size").sum()))

    def instant(self) -> Rows:
        found = self.tables["orders"].where(col("vega_time") == _time(INSTANT))
        return rows_of(found.select("_segment", "_row"))

    def far(self) -> Rows:
        found = self.tables["orders"].where(col("expires_at") > _time(FAR))
        return rows_of(found.agg(col("_row").count()))

    def raw(self) -> Rows:
        priced = self.tables["orders"].with_column("kept", col("_raw").map_get("price"))
        found = priced.where(col("kept").not_null()).sort(["_segment", "_row"])
        return rows_of(found.select("_segment", "_row", "kept"))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@contextmanager
def two_nodes() -> Iterator[None]:
    """A cluster that Daft uses; fails where only one of its nodes did the work."""
    node = {"num_cpus": 1, "object_store_memory": _STORE_BYTES}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False)
        daft.set_runner_ray(address=cluster.address)
        yield
        nodes = {actor["Address"]["NodeID"] for actor in actors().values()}
        assert len(nodes) == 2, f"Daft's actors are on {len(nodes)} node(s)"
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    with two_nodes():
        answer_all(Daft)
