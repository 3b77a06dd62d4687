"""A publisher among several: batches cut at random, each put upon the newest version of a table."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.lake.lake_files import Lake
from exporters.lake.log.table_version import ActiveFile, new_name
from transforms.block_range import BlockRange
from transforms.coverage import union
from transforms.stores.store import LostRaceError
from transforms.stores.store_address import open_store

BLOCKS = 2
CHAIN = "net-1"


def segments(count: int) -> list[BlockRange]:
    """So many segments, from block 1 on."""
    return [BlockRange(n * BLOCKS + 1, (n + 1) * BLOCKS) for n in range(count)]


def lake_at(place: str, cache: Path | None = None) -> Lake:
    """The lake of an archive, to a machine that keeps versions of its tables in `cache`."""
    return Lake(Archive(open_store(place), CHAIN), cache=cache)


def publish(
    place: str, environment: dict[str, str], seed: int, commits: int, count: int, told: Path
) -> None:
    """Commit so often; `told` is where the names of the committed files and the races stand."""
    os.environ.update(environment)
    dice = random.Random(seed)
    named: list[str] = []
    lost = 0
    for _ in range(commits):
        start = dice.randrange(count)
        wanted = segments(count)[start : start + dice.randint(1, 3)]
        # A machine that has just been started, and goes by what it kept, if anything.
        table = lake_at(place, told.with_suffix(".cache")).table("orders")
        table.look()
        while True:
            version = table.version()
            missing = version.lacks(wanted)
            if not missing:
                start = dice.randrange(count)
                wanted = segments(count)[start : start + dice.randint(1, 3)]
                continue
            added = [_file(run) for run in union(missing)]
            try:
                table.commit(version, added)
            except LostRaceError:
                lost += 1
                continue
            named += [file.name for file in added]
            break
    told.write_text(json.dumps({"named": named, "lost": lost}))


def _file(blocks: BlockRange) -> ActiveFile:
    name = new_name(blocks, hashlib.sha256(str(blocks).encode()).hexdigest())
    return ActiveFile(name, 10, 1)
