"""What Dagster does not publish is imported in one place, and is what we take it for."""

import ast
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from pipelines.batches import Batch
from pipelines.instance import add_partitions
from pipelines.partitions import SEGMENTS, range_of_tags, range_tags
from tests.pipelines.kit import blocks

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "exporters", "pipelines", "strata", "transforms")


def internals(path: Path) -> Iterator[str]:
    """The modules that a file imports and whose path has a name with an underscore."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (name for name in names if name.startswith("dagster") and "._" in name)


def test_one_module_imports_what_dagster_does_not_publish() -> None:
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

    # A worker of a cluster takes its runs as gRPC hands them over, which nobody else imports.
    modules = {path.stem for path in files if any(internals(path))}
    assert modules == {"dagster_internals", "celery_worker"}


def test_dagster_reads_the_partitions_of_a_run_from_our_tags() -> None:
    batch = Batch(blocks(0, 1, 2))
    tags = range_tags(batch.segments[0], batch.segments[-1])
    seen: list[str] = []

    @dg.asset(partitions_def=SEGMENTS)
    def some_table(context: dg.AssetExecutionContext) -> None:
        seen.extend(context.partition_keys)

    with dg.DagsterInstance.ephemeral() as instance:
        keys = add_partitions(instance, blocks(0, 1, 2, 3))
        job = dg.Definitions(assets=[some_table]).resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=instance, tags=tags).success

    assert seen == keys[:3]
    assert range_of_tags({"dagster/partition": keys[1]}) == dg.PartitionKeyRange(keys[1], keys[1])
