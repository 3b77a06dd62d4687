"""Reading a whole archive back and comparing everything with everything.

Nothing that the index says is believed: objects are hashed, ZIPs inflated by Python's own reader,
rows counted, hash files compared, and whatever follows from the entries is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from exporters.archive.archive import Archive, read_small
from exporters.archive.documents import documents, stored_shards
from exporters.archive.ledger import LEDGER
from exporters.archive.shards import Shard, shard_number, shard_path
from exporters.verifying.findings import Finding, Problem
from exporters.verifying.verify_zip import entry_findings
from transforms.errors import IntegrityError

Progress = Callable[[int, int], None]


def verify_archive(
    archive: Archive,
    workers: int = 4,
    *,
    progress: Progress | None = None,
    scratch: Path | None = None,
) -> Iterator[Finding]:
    """Yield what is wrong in the archive; nothing, if all is well.

    `progress` is told how many ZIPs were read and how many there are. Each worker holds one ZIP in
    `scratch` at a time; in memory are one shard and the names of all objects. Errors of the machine
    pass through.
    """
    numbers = list(stored_shards(archive))
    expected: set[str] = {LEDGER}
    checked, total, readable = 0, _count(archive), True
    check = partial(entry_findings, archive, scratch)
    with ThreadPoolExecutor(workers) as pool:
        for number in numbers:
            try:
                shard = archive.shard(number)
            except IntegrityError as error:
                yield Finding(Problem.BAD_INDEX, archive.place(shard_path(number)), str(error))
                readable = False
                continue
            yield from _misplaced(archive, shard, number)
            expected.update(_paths(shard))
            for findings in pool.map(check, shard.entries):
                checked += 1
                if progress:
                    progress(checked, total)
                yield from findings
    if readable:
        yield from _outdated(archive, numbers)
        yield from _gone(archive, numbers)
        yield from _orphans(archive, numbers, expected)


def _count(archive: Archive) -> int:
    try:
        sums = archive.index().tables.values()
    except IntegrityError:
        return 0  # it is reported where the documents are compared
    return sum(table.zips + table.windows for table in sums)


def _paths(shard: Shard) -> Iterator[str]:
    for entry in shard.entries:
        yield entry.path
        yield f"{entry.path}.sha256"


def _misplaced(archive: Archive, shard: Shard, number: int) -> Iterator[Finding]:
    for entry in shard.entries:
        if (shard.chain_id, shard_number(entry.blocks)) != (archive.chain_id, number):
            place = archive.place(shard_path(number))
            yield Finding(Problem.BAD_INDEX, place, f"{entry.path} does not belong into it")


def _outdated(archive: Archive, numbers: list[int]) -> Iterator[Finding]:
    """Compute every document again."""
    for document in documents(archive, numbers):
        stored = read_small(archive.store, document.key)
        try:
            if document.content(stored) == stored:
                continue
            what = "it does not follow from what is published"
        except IntegrityError as error:
            what = str(error)
        place = archive.store.describe(document.key)
        yield Finding(Problem.BAD_INDEX, place, f"{what}: publish the newest segments again")


def _gone(archive: Archive, numbers: list[int]) -> Iterator[Finding]:
    try:
        named = {shard.number for shard in archive.index().shards}
    except IntegrityError:
        return  # reported above
    for number in sorted(named - set(numbers)):
        what = "the index names it, but it is not there: publish its segments again"
        yield Finding(Problem.BAD_INDEX, archive.place(shard_path(number)), what)


def _orphans(archive: Archive, numbers: list[int], expected: set[str]) -> Iterator[Finding]:
    known = {archive.key(path) for path in expected}
    known |= {archive.key(shard_path(number)) for number in numbers}
    known |= {document.key for document in documents(archive, numbers)}
    for info in archive.store.list(archive.key("")):
        if info.key not in known:
            what = "the index does not name it: publish its segment, which adopts it, or delete it"
            yield Finding(Problem.ORPHAN, archive.store.describe(info.key), what)
