"""What a mirror remembers of an archive, which must still be so, or be on record as replaced.

A mirror is its own memory: its shards say which ZIPs it has taken, its revisions which of them had
taken the place of others, its `SHA256SUMS` which documents there were. A shard proves itself; of
one that is damaged or gone, the list of its ZIPs' hashes is believed if `SHA256SUMS` has its hash.
What is not proven is not believed: then nothing is taken, as if the past had changed.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from exporters.archive.archive import Archive
from exporters.archive.entries import Entry
from exporters.archive.hash_lists import SUMS, parse_sums
from exporters.archive.index import ArchiveIndex
from exporters.archive.revisions import REVISIONS, Revision, parse_revisions, revisions
from exporters.archive.shards import Shard, hashes_path, shard_at, shard_path
from exporters.archive.sound_documents import stored_shards
from exporters.archive.sums import completeness
from transforms.errors import IntegrityError

_MOST_NAMED = 3

PastZips = Mapping[str, tuple[str, Entry | None]]
"""By path the hash of each ZIP of a shard, and where the shard is whole its entry."""


class PastChangedError(IntegrityError):
    """An archive has other files than it had before, and its revisions do not say so."""


def checked_shards(local: Archive, source: Archive, index: ArchiveIndex) -> Callable[[int], bytes]:
    """Hold an archive, which has this index, against what its mirror remembers.

    Returns what gives the bytes of its shards, by number: as they were checked, or of those that
    the mirror never had, as they are when they are asked for.

    Raises `PastChangedError`, which names what changed; `IntegrityError` where a shard of the
    archive, or what the mirror remembers, is damaged.
    """
    past = _Past(local, source)
    same, changed, comparisons = set[int](), dict[int, bytes](), list[tuple[Shard, PastZips]]()
    differences = [*_height_loss(local, index)]
    for number in past.shards:
        if number not in index.shards:
            differences.append(f"index.json names no {shard_path(number)} any more")
            continue
        data = source.shard_bytes(number)
        if data == local.read(shard_path(number)):
            same.add(number)
            continue
        changed[number] = data
        if not past.is_lost_shard(number, data):
            comparisons.append((source.parse_shard(number, data), past.zips(number)))
    # A revision is written before its file is replaced: so they are read after the shards.
    events = revisions(source)
    for shard, zips in comparisons:
        differences += _differences(shard, zips, events)
    differences += _lost_revisions(past, events)
    if differences:
        raise PastChangedError(_refusal(past, differences))

    def read(number: int) -> bytes:
        own = local.read(shard_path(number)) if number in same else None
        return own or changed.get(number) or source.shard_bytes(number)

    return read


@dataclass(frozen=True)
class _Past:
    """What a mirror, `local`, remembers of `source`."""

    local: Archive
    source: Archive

    @cached_property
    def _sums(self) -> Mapping[str, str]:
        return parse_sums(self.local.read(SUMS) or b"")

    @cached_property
    def shards(self) -> Sequence[int]:
        """The numbers of the shards that are there, or were."""
        named = (shard_at(path) for path in self._sums)
        return sorted({*stored_shards(self.local), *(n for n in named if n is not None)})

    def is_lost_shard(self, number: int, data: bytes) -> bool:
        """Whether the mirror's shard is damaged or gone, and was this one."""
        is_this = _sha256(data) == self._sums.get(shard_path(number))
        return is_this and self._sound_shard(number) is None

    def zips(self, number: int) -> PastZips:
        """The ZIPs that a shard named."""
        if (shard := self._sound_shard(number)) is not None:
            return {entry.path: (entry.sha256, entry) for entry in shard.entries}
        hashes = self.local.read(hashes_path(number))
        if hashes is None or _sha256(hashes) != self._sums.get(hashes_path(number)):
            raise self._damage(shard_path(number))
        return {path: (sha256, None) for path, sha256 in parse_sums(hashes).items()}

    def _sound_shard(self, number: int) -> Shard | None:
        data = self.local.read(shard_path(number))
        try:
            return None if data is None else self.local.parse_shard(number, data)
        except IntegrityError:
            return None

    def revisions(self) -> tuple[Revision, ...]:
        """What the mirror knows was replaced; that of the archive, if it proves to be the same."""
        sha256, own = self._sums.get(REVISIONS), self.local.read(REVISIONS)
        try:
            if sha256 is None or own is not None:
                return parse_revisions(own, self.local)
        except IntegrityError:
            pass  # it is damaged
        data = self.source.read(REVISIONS)
        if data is None or _sha256(data) != sha256:
            raise self._damage(REVISIONS)
        return parse_revisions(data, self.source)

    def _damage(self, path: str) -> IntegrityError:
        what = f"{self.local.place(path)} is damaged, and nothing beside it proves what it was"
        return IntegrityError(
            f"{what}: whether {self.source.place('')} is still what it was, nobody can say. "
            f"{self.way_out}"
        )

    @property
    def way_out(self) -> str:
        """What who refused an archive says in the end."""
        return (
            "Nothing was taken from it, and nothing was changed here; to have it as it is now, "
            "too, fetch it into another folder: --out "
            f"{shlex.quote(f'{self.local.store.describe()}-new')}"
        )


def _differences(shard: Shard, past: PastZips, events: Sequence[Revision]) -> Iterator[str]:
    """What of a shard, which had these ZIPs, is not as it was, and not on record either."""
    path = shard_path(shard.number)
    for entry in shard.entries:
        sha256, before = past.get(entry.path, (entry.sha256, None))
        if entry.sha256 != sha256:
            if not _is_on_record(events, entry, sha256):
                yield f"{entry.path} was {sha256} and is {entry.sha256}, without a revision"
        elif before is not None and entry != before:
            yield f"{path} says something else of {entry.path}, which is the same file"
    for zip_path in sorted(past.keys() - {entry.path for entry in shard.entries}):
        yield f"{path} names no {zip_path} any more"


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


def _lost_revisions(past: _Past, events: Sequence[Revision]) -> Iterator[str]:
    """The revisions that are on record no more."""
    there = set(events)
    for event in past.revisions():
        if event not in there:
            yield f"{REVISIONS} has no more that {event.path} was replaced ({event.reason})"


def _height_loss(local: Archive, index: ArchiveIndex) -> Iterator[str]:
    """That the archive ends before its mirror does."""
    try:
        before = completeness(local.index().tables).span
    except IntegrityError:
        return  # its shards are compared
    now = completeness(index.tables).span
    if before is not None and (now is None or now.last < before.last):
        yield f"its last block was {before.last} and is {now.last if now else 'none'}"


def _refusal(past: _Past, differences: Sequence[str]) -> str:
    named = "; ".join(differences[:_MOST_NAMED])
    more = len(differences) - _MOST_NAMED
    count = f"; and {more} more" if more > 0 else ""
    return (
        f"{past.source.place('')} is not the archive that {past.local.place('')} was made from: "
        f"{named}{count}. If that stays so, ask who publishes it. {past.way_out}"
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
