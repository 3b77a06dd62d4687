"""The files of shards: they are written before the index names them, and stay a day after it."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from exporters.archive.archive import Archive, put_new
from exporters.archive.hash_lists import SUMS, parse_sums
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.shards import Shard, shard_at, shard_path
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo
from transforms.stores.store import content_sha256

_KEPT_SECONDS = 24 * 3600.0
_log = logging.getLogger(__name__)


def put_shard(archive: Archive, number: int, data: bytes) -> ShardSummary:
    """Write a shard under the name of its bytes, and return its summary for the index."""
    place = archive.place(shard_path(number, content_sha256(data)))
    summary = ShardSummary.of(Shard.parse(data, place), data)
    put_new(archive.store, archive.key(summary.path), data, "application/json")
    return summary


def stored_shards(archive: Archive) -> dict[int, Sequence[ObjectInfo]]:
    """List the files of shards by number, each number's from the oldest to the newest."""
    shards, start = defaultdict[int, list[ObjectInfo]](list), len(archive.key(""))
    for info in archive.store.list(archive.key("index/")):
        if (number := shard_at(info.key[start:])) is not None:
            shards[number].append(info)
    return {n: sorted(shards[n], key=lambda info: info.modified) for n in sorted(shards)}


def rebuilt_index(archive: Archive) -> ArchiveIndex:
    """Return what a lost index was, from the shards that `SHA256SUMS` names, else the newest."""
    sums = parse_sums(archive.read(SUMS) or b"")
    summaries = (
        _newest_sound(archive, number, sorted(infos, key=lambda i: _path(archive, i) in sums))
        for number, infos in stored_shards(archive).items()
    )
    index = ArchiveIndex(archive.chain_id)
    return index.including(summary for found in summaries for summary in found)


def _newest_sound(
    archive: Archive, number: int, infos: Sequence[ObjectInfo]
) -> Iterator[ShardSummary]:
    """The summary of the last of these files that is sound, if one is."""
    for info in reversed(infos):
        data, place = archive.read(_path(archive, info)) or b"", archive.store.describe(info.key)
        try:
            summary = ShardSummary.of(Shard.parse(data, place), data)
        except IntegrityError as error:
            _log.warning("%s; the index does not have what it names", error)
        else:
            if archive.key(summary.path) == info.key and number == summary.number:
                yield summary
                return


def _path(archive: Archive, info: ObjectInfo) -> str:
    return info.key.removeprefix(archive.key(""))


def sweep_shards(archive: Archive) -> None:
    """Remove the shards that newer ones replaced more than a day ago, by the store's clock."""
    stored, oldest = stored_shards(archive), archive.store.now() - _KEPT_SECONDS
    due = {n: infos for n, infos in stored.items() if infos[1:] and infos[1].modified < oldest}
    index = archive.index() if due else ArchiveIndex(archive.chain_id)
    for number, infos in due.items():
        keys = [info.key for info in infos]
        summary = index.shards.get(number)
        named = archive.key(summary.path) if summary else ""
        if named in keys:
            for info, newer in pairwise(infos[: keys.index(named) + 1]):
                if newer.modified < oldest:
                    archive.store.delete(info.key)
