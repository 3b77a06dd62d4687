"""Times for entries of an earlier release, which did not name them, from the ZIPs themselves."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from exporters.archive.archive import Archive, update
from exporters.archive.entries import Entry
from exporters.archive.shards import Shard, shard_path
from exporters.publishing.block_times import block_times
from exporters.zips.reader import read_members
from transforms.errors import IntegrityError

_READERS = 16
_log = logging.getLogger(__name__)


def is_untimed(entry: Entry) -> bool:
    """Whether an entry should say when its blocks were made, and does not."""
    return entry.table == "blocks" and any(csv.rows and not csv.times for csv in entry.members)


def time_shard(archive: Archive, number: int) -> bool:
    """Name the times in a shard that lacks them; returns whether there was anything to name.

    Reads the ZIPs of blocks that lack them, no others. Raises `IntegrityError` where the shard is
    damaged.
    """

    def change(old: bytes | None) -> bytes:
        shard = archive.parse_shard(number, old or b"")
        with ThreadPoolExecutor(_READERS) as pool:
            entries = tuple(pool.map(partial(_timed, archive), shard.entries))
        return Shard(archive.chain_id, number, entries).to_bytes()

    return update(archive.store, archive.key(shard_path(number)), change, "application/json")


def _timed(archive: Archive, entry: Entry) -> Entry:
    if not is_untimed(entry):
        return entry
    source = archive.source(entry)
    try:
        members = read_members(source)
        csvs = tuple(
            replace(csv, times=block_times(source, member, csv.schema))
            for member, csv in zip(members, entry.members, strict=True)
        )
    except (FileNotFoundError, IntegrityError, ValueError) as error:
        _log.warning("%s has no times in the index: %s", archive.place(entry.path), error)
        return entry
    return replace(entry, members=csvs)
