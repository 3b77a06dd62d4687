from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from pipelines.partitions import (
    SEGMENTS,
    missing_partitions,
    newest_of,
    range_of_tags,
    range_tags,
)
from tests.pipelines.kit import blocks, listings

KEYS = [segment.key for segment in blocks(0, 1, 2, 3)]
NAMES = [str(number) for number in range(5)]


@dg.multi_asset(specs=[dg.AssetSpec(name) for name in NAMES], partitions_def=SEGMENTS)
def tables() -> Iterator[dg.MaterializeResult[None]]:
    for name in NAMES:
        yield dg.MaterializeResult[None](asset_key=name)


JOB = dg.Definitions(
    assets=[tables], executor=dg.in_process_executor
).resolve_implicit_global_asset_job_def()


def keys_between(instance: dg.DagsterInstance, start: str, end: str) -> list[str]:
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        return list(SEGMENTS.get_partition_keys_in_range(dg.PartitionKeyRange(start, end)))


def test_a_range_stays_what_it_was_while_partitions_are_added(
    instance: dg.DagsterInstance,
) -> None:
    instance.add_dynamic_partitions("segments", KEYS[:3])
    before = keys_between(instance, KEYS[0], KEYS[2])
    instance.add_dynamic_partitions("segments", KEYS[3:])

    assert before == keys_between(instance, KEYS[0], KEYS[2]) == KEYS[:3]
    assert keys_between(instance, KEYS[2], KEYS[3]) == KEYS[2:]


def test_two_instances_do_not_share_what_was_looked_up(instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("segments", KEYS)
    assert keys_between(instance, KEYS[0], KEYS[3]) == KEYS
    with dg.DagsterInstance.ephemeral() as other:
        other.add_dynamic_partitions("segments", [KEYS[0], KEYS[3]])

        assert keys_between(other, KEYS[0], KEYS[3]) == [KEYS[0], KEYS[3]]


def test_a_run_reads_all_partitions_once_however_many_tables_it_makes(
    home_instance: dg.DagsterInstance,
) -> None:
    home_instance.add_dynamic_partitions("segments", KEYS)
    with listings() as asked:
        result = JOB.execute_in_process(
            instance=home_instance, tags=range_tags(*blocks(0), *blocks(3))
        )

    assert result.success
    assert len(home_instance.get_materialized_partitions(dg.AssetKey("0"))) == len(KEYS)
    assert len(asked) == 1


def test_a_range_that_does_not_exist_is_an_error(instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("segments", KEYS[:1])

    with pytest.raises(dg.DagsterInvalidInvocationError):
        keys_between(instance, KEYS[0], KEYS[3])


def test_the_newest_partition_is_the_one_added_last(instance: dg.DagsterInstance) -> None:
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        assert SEGMENTS.get_last_partition_key() is None
        instance.add_dynamic_partitions("segments", [KEYS[1], KEYS[0]])

        assert SEGMENTS.get_last_partition_key() == KEYS[0]


def test_missing_partitions_come_ascending_and_once() -> None:
    assert missing_partitions([KEYS[1]], [*blocks(3, 0, 1), *blocks(3)]) == [KEYS[0], KEYS[3]]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (range_tags(*blocks(0, 2)), (KEYS[0], KEYS[2])),
        ({"dagster/partition": KEYS[1]}, (KEYS[1], KEYS[1])),
        ({"something": "else"}, None),
    ],
)
def test_the_tags_of_a_run_name_its_partitions(
    tags: dict[str, str], expected: tuple[str, str] | None
) -> None:
    assert range_of_tags(tags) == (dg.PartitionKeyRange(*expected) if expected else None)


def test_what_is_about_the_whole_depends_on_the_newest_partition() -> None:
    (dependency,) = newest_of(dg.AssetKey("orders"))

    assert dependency.partition_mapping == dg.LastPartitionMapping()
