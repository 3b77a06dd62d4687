"""The one set of partitions: a partition is a segment, its key the blocks (`000001001-000002000`).

Only what Dagster must know of segments belongs here; which segments there are says the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

import dagster as dg

from transforms.block_range import BlockRange

_ADDED_AT_ONCE = 25_000  # Dagster's own recommendation; SQLite takes no more than 32,766

# Dagster's tags for the partitions of a run, as its documentation names them.
_PARTITION = "dagster/partition"
_RANGE_START = "dagster/asset_partition_range_start"
_RANGE_END = "dagster/asset_partition_range_end"


class SegmentPartitions(dg.DynamicPartitionsDefinition):
    """Dynamic partitions of which a process reads a range once.

    Dagster asks for the keys of a run's range again for every asset and every piece of metadata;
    each answer reads all partitions there are: at 75,000 that is 0.2 s. New partitions are added
    behind the old ones, so what lies between two does not change.
    """

    def get_partition_keys_in_range(
        self, partition_key_range: dg.PartitionKeyRange
    ) -> Sequence[str]:
        """The keys from the range's start to its end, in the order they were added."""
        with dg.partition_loading_context() as context:
            keys_by_range = _known_ranges.setdefault(context.dynamic_partitions_store, {})
            if partition_key_range not in keys_by_range:
                keys_by_range[partition_key_range] = super().get_partition_keys_in_range(
                    partition_key_range
                )
            return keys_by_range[partition_key_range]

    def get_last_partition_key(self) -> str | None:
        """The key that was added last; asking for it does not read the others."""
        with dg.partition_loading_context() as context:
            newest = self.get_paginated_partition_keys(context, limit=1, ascending=False)
        return newest.results[0] if newest.results else None


_known_ranges: WeakKeyDictionary[object, dict[dg.PartitionKeyRange, Sequence[str]]] = (
    WeakKeyDictionary()
)

SEGMENTS = SegmentPartitions(name="segments")
"""Every segment of the source, in the order in which they were found."""


def newest_of(*assets: dg.AssetKey) -> list[dg.AssetDep]:
    """The dependencies of an asset that is about the whole: Dagster looks at the newest partition.

    By default it would read all partitions of each of them, again and again.
    """
    newest = dg.LastPartitionMapping()
    return [dg.AssetDep(asset, partition_mapping=newest) for asset in assets]


def missing_partitions(keys: Collection[str], blocks: Iterable[BlockRange]) -> list[str]:
    """The keys of segments that have no partition yet, ascending."""
    present = frozenset(keys)
    return sorted({key for key in (segment.key for segment in blocks) if key not in present})


def addable(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Keys in portions that can be added at once."""
    return (keys[at : at + _ADDED_AT_ONCE] for at in range(0, len(keys), _ADDED_AT_ONCE))


def range_tags(first: BlockRange, last: BlockRange) -> dict[str, str]:
    """The tags of a run over the partitions from `first` to `last`."""
    return {_RANGE_START: first.key, _RANGE_END: last.key}


def range_of_tags(tags: Mapping[str, str]) -> dg.PartitionKeyRange | None:
    """The partitions that a run's tags name; None where it is about none."""
    partition = tags.get(_PARTITION, "")
    start = tags.get(_RANGE_START, partition)
    end = tags.get(_RANGE_END, partition)
    return dg.PartitionKeyRange(start, end) if start and end else None


def segments_of_run(context: dg.AssetExecutionContext) -> tuple[BlockRange, ...]:
    """The segments of a run, ascending, whatever order they were added in; none without a range."""
    key_range = range_of_tags(context.run.tags)
    if key_range is None:
        return ()
    with dg.partition_loading_context(dynamic_partitions_store=context.instance):
        keys = SEGMENTS.get_partition_keys_in_range(key_range)
    return tuple(sorted(map(BlockRange.from_key, keys)))
