"""What a mirror remembers of an archive, which must still be so, or be on record as replaced.

A mirror is its own memory: its shards say which ZIPs it has taken, and its revisions which of them
had taken the place of others. Where one of these is damaged, and the index does not prove that the
archive still has the same, nothing is taken, as if the past had changed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.index import ArchiveIndex
from exporters.archive.revisions import REVISIONS, Revision, revisions
from exporters.archive.sound_documents import sound_index
from exporters.archive.sums import completeness
from transforms.errors import IntegrityError

_MOST_NAMED = 3

_Memory = TypeVar("_Memory")


class PastChangedError(IntegrityError):
    """An archive has other files than it had before, and its revisions do not say so."""


def check_same_past(
    local: Archive, source: Archive, index: ArchiveIndex, events: Sequence[Revision]
) -> ArchiveIndex:
    """Compare an archive with its mirror, and return the mirror's index.

    `index` and `events` are the archive's index and its revisions. Raises `PastChangedError`, which
    names what changed; `IntegrityError` where a shard of the archive, or what the mirror remembers,
    is damaged.
    """

    def entries_of(number: int) -> Sequence[Entry]:
        return local.shard(number, own).entries

    own = sound_index(local)
    differences = [*_height_loss(own, index)]
    pasts = dict[int, Sequence[Entry]]()
    for number, before in own.shards.items():
        if number not in index.shards:
            differences.append(f"index.json names no {before.path} any more")
        elif index.shards[number].sha256 != before.sha256:
            pasts[number] = _remembered(local, source, partial(entries_of, number))
    differences += _unrecorded(local, source, index, events, pasts)
    if differences:
        raise PastChangedError(_refusal(local, source, differences))
    return own


def _unrecorded(
    local: Archive,
    source: Archive,
    index: ArchiveIndex,
    events: Sequence[Revision],
    pasts: Mapping[int, Sequence[Entry]],
) -> Iterator[str]:
    """What changed since the past entries of these shards, and has no revision."""
    for number, past in pasts.items():
        path = index.shards[number].path
        yield from _differences(path, source.shard(number, index).entries, past, events)
    for event in _remembered(local, source, partial(revisions, local)):
        if event not in events:
            yield f"{REVISIONS} has no more that {event.path} was replaced"


def _remembered(local: Archive, source: Archive, read: Callable[[], _Memory]) -> _Memory:
    try:
        return read()
    except IntegrityError as error:
        raise IntegrityError(
            f"what {local.place('')} remembers is damaged ({error}): whether {source.place('')} is "
            f"still what it was, nobody can say. {_way_out(local)}"
        ) from error


def _differences(
    shard_path: str, entries: Sequence[Entry], past: Sequence[Entry], events: Sequence[Revision]
) -> Iterator[str]:
    """What of a shard is not as it was, and not on record either."""
    before = {entry.path: entry for entry in past}
    for entry in entries:
        old = before.get(entry.path, entry)
        if entry.sha256 != old.sha256:
            if not _is_on_record(events, entry, old.sha256):
                yield f"{entry.path} was {old.sha256} and is {entry.sha256}, without a revision"
        elif replace(entry, segment=old.segment) != old:
            yield f"{shard_path} says something else of {entry.path}"
    for path in sorted(before.keys() - {entry.path for entry in entries}):
        yield f"{shard_path} names no {path} any more"


def _is_on_record(events: Iterable[Revision], entry: Entry, old_sha256: str) -> bool:
    """Whether replacements lead from a hash to that of an entry, which is the newest.

    The last one may be about to happen.
    """
    steps = [event for event in events if event.path == entry.path]
    reached = {old_sha256}
    for event in steps:
        if event.old_sha256 in reached:
            reached.add(event.new_sha256)
    newest = {sha256 for event in steps[-1:] for sha256 in (event.old_sha256, event.new_sha256)}
    return entry.sha256 in reached & newest


def _height_loss(own: ArchiveIndex, index: ArchiveIndex) -> Iterator[str]:
    """That the archive ends before its mirror does."""
    before, now = completeness(own.tables).span, completeness(index.tables).span
    if before is not None and (now is None or now.last < before.last):
        yield f"its last block was {before.last} and is {now.last if now else 'none'}"


def _refusal(local: Archive, source: Archive, differences: Sequence[str]) -> str:
    named = "; ".join(differences[:_MOST_NAMED])
    more = len(differences) - _MOST_NAMED
    count = f"; and {more} more" if more > 0 else ""
    return (
        f"{source.place('')} is not the archive that {local.place('')} was made from: "
        f"{named}{count}. If that stays so, ask who publishes it. {_way_out(local)}"
    )


def _way_out(local: Archive) -> str:
    return (
        "Nothing was taken from it, and nothing was changed here; to have it as it is now, too, "
        f"fetch it into another folder: --out {shlex.quote(f'{local.store.describe()}-new')}"
    )
