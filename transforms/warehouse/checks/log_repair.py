"""Repair: the log goes on, or is made again, from the files that are there.

One rule: of the newest snapshot that can be read all that is sound stays, then each sound run of
segments is named that shares no block with these, longer ones first. Manifests of blocks that lack
even then, and damaged ones, are moved to `quarantine/`; nothing is removed but what other programs
wrote. The log goes on above every number that was seen, and blocks that it had count as lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from transforms.block_range import BlockRange
from transforms.duck_files import FOREIGN_LOG, remove_log
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.spam.capture_tables import capture_rows
from transforms.stores.store import object_sha256, read_as_is
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volume_files import store_new, volume_sources, write_index
from transforms.warehouse.log.log import LOG, snapshot_key
from transforms.warehouse.log.losses import Loss, LostRowsError
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.file_names import (
    INDEX,
    MANIFESTS,
    MISSING,
    STATE,
    blocks_of,
    listed,
    named_file,
)
from transforms.warehouse.manifests.manifest import (
    manifest_receipts,
    manifest_segments,
    read_about,
)
from transforms.warehouse.manifests.shapes import Volume, shapes_of

Advance = Callable[[int], None]
"""Called with the bytes that were just read."""

_Listing = Mapping[str, Sequence[ObjectInfo]]
_TYPE = "application/vnd.apache.parquet"


def repair(backing: Backing, advance: Advance = lambda _: None) -> Repair:
    """Examine a warehouse and repair what can be.

    May be killed and run again, and beside loads and readers. Raises `ConfigError` for a log of a
    newer release; errors of the machine and of the network pass: what cannot be reached is not
    missing.
    """
    work = Repair(backing, advance)
    # In this order: other processes may go on meanwhile.
    listing = listed(backing.store, (MANIFESTS, STATE))
    sound, unsound = backing.log.newest_sound()
    if sound.number or unsound or any(listing.values()):
        work.run(listing, sound, unsound)
    else:
        place = backing.store.describe()
        work.say(place, "there is no log and no volume: is this the right place?")
    return work


@dataclass(slots=True)
class Repair:
    """A repair and what it found: (what it is about, what is wrong with it or was done about it).

    `snapshot` is the number of the newest afterwards; 0: there is none. `lost` names rows that no
    repair brings back, and their remedy.
    """

    backing: Backing
    advance: Advance
    snapshot: int = 0
    lost: str = ""
    findings: list[tuple[str, str]] = field(default_factory=list)

    def run(self, listing: _Listing, base: Snapshot, unsound: Mapping[int, str]) -> None:
        """Repair a warehouse of these manifests, and of this log; see `Log.newest_sound`."""
        for number, problem in unsound.items():
            self.say(snapshot_key(number), problem)
        bad = set[StoredFile]()
        for file in dict.fromkeys(base.files()):
            if problem := self._damage(file):
                self.say(file.key, f"it {problem}")
                bad.add(file)
        completed = self._completed(base.without(bad), listing)
        seen = self.backing.log.records.highest(completed.warehouse, completed.chain_id)
        if lacking := seen.problem(base.seen):
            self.say(LOG, f"it {lacking}: it goes on after that snapshot")
        after = None
        if unsound or lacking or not base.number:
            # The log goes on beyond all that was seen, and all that volumes were built upon.
            after = replace(
                base,
                number=max(completed.number, seen.number, *unsound),
                captures=self._captures() or base.captures,
                losses=(*base.losses, *(Loss("history", run) for run in seen.blocks)),
                warehouse=seen.warehouse,
            )
        indexes = {v.key: self._new_index(v) for v in completed.volumes if v.index is None}

        def change(newest: Snapshot) -> Snapshot:
            chain_id = completed.chain_id or newest.chain_id
            repaired = newest.without(bad).with_added(chain_id, completed.volumes)
            volumes = (replace(v, index=v.index or indexes.get(v.key)) for v in repaired.volumes)
            captures = repaired.captures or completed.captures
            return replace(repaired.with_volumes(volumes), captures=captures)

        newest = self.backing.log.commit(change, after=after)
        self.backing.log.forget_skipped()
        self.snapshot = newest.number
        if newest.losses:
            lost = LostRowsError(self.backing.store.describe(), newest.losses)
            self.lost = str(lost)
            if {*newest.losses} - {*base.losses}:
                self.say(f"snapshot {newest.number}", f"it {lost.what}: {lost.remedy}")
        for info in newest.lacking(listing[MANIFESTS]):
            self._set_aside(info)
        self._remove_foreign_logs()

    def say(self, what: str, problem: str) -> None:
        """Add a finding."""
        self.findings.append((what, problem))

    def _damage(self, file: StoredFile) -> str:
        """What is wrong with a file, which is read to its end; "" if nothing."""
        try:
            digest = object_sha256(self.backing.store, file.key, self.advance)
        except FileNotFoundError:
            return MISSING
        is_sound = digest == file.sha256
        return "" if is_sound else f"is damaged: it hashes to {digest}, not {file.sha256}"

    def _completed(self, kept: Snapshot, listing: _Listing) -> Snapshot:
        """The sound part of the log with the sound volumes that it does not name.

        Those are runs of segments that share no block with others, longer ones first, and states
        of segments that are there, newer ones first.
        """
        completed, named = kept, kept.named_keys()
        for info in (
            *sorted(listing[MANIFESTS], key=_length, reverse=True),
            *sorted(listing[STATE], reverse=True),
        ):
            blocks = blocks_of(info.key)
            if blocks is None or info.key in named or not info.key.endswith(".parquet"):
                continue
            is_there = any(blocks.overlaps(volume.blocks) for volume in completed.history)
            if is_there != info.key.startswith(STATE):
                continue
            try:
                grown = self._with_volume(completed, info)
            except (IntegrityError, FileNotFoundError) as error:
                self.say(info.key, str(error))
                self._set_aside(info)
                continue
            if grown != completed:
                self.say(info.key, "no snapshot in the log names it: taken in")
                completed = grown
        return completed

    def _with_volume(self, completed: Snapshot, info: ObjectInfo) -> Snapshot:
        """A snapshot with the volume of a manifest, all of whose files are hashed.

        One whose state is older than another stays as it is. Its number is not below that of what
        the volume was built upon. Raises `IntegrityError` where a file is damaged or gone.
        """
        file = named_file(info.key, info.size)
        self._check_whole(file)
        (path,) = self.backing.files.bring([file])
        number, volume = read_about(path, file)
        chain_id = manifest_segments(path)[0].name.chain_id
        if completed.chain_id not in ("", chain_id):
            raise IntegrityError(f"it is of the chain {chain_id}, not {completed.chain_id}")
        volume = replace(volume, shapes=shapes_of(manifest_receipts([path])))
        if volume.index and self._damage(volume.index):
            volume = replace(volume, index=None)
        grown = completed.with_added(chain_id, [volume])
        if grown == completed:
            return completed
        for data in volume.data.values():
            self._check_whole(data)
        return replace(grown, number=max(completed.number, number))

    def _check_whole(self, file: StoredFile) -> None:
        if problem := self._damage(file):
            raise IntegrityError(f"{self.backing.store.describe(file.key)} {problem}")

    def _new_index(self, volume: Volume) -> StoredFile | None:
        """The index file of a volume, made from its tables; None where these have no look-ups."""
        files = self.backing.files
        with files.hold(volume.data.values()), self.backing.working() as (con, scratch):
            path = write_index(con, scratch, volume_sources(files, volume))
            return store_new(self.backing, INDEX, volume.blocks, path) if path else None

    def _captures(self) -> StoredFile | None:
        """The sound file of spam captures that was made of the most files; None without one.

        Each was made of all that its older one was; what lacks is loaded again from its source.
        """
        store, files = self.backing.store, self.backing.files
        named = (named_file(info.key, info.size) for info in listed(store, ["spam"])["spam"])
        sound = [file for file in named if not self._damage(file)]
        files.bring(sound)
        return max(sound, key=lambda f: len([*capture_rows(files.path(f), "files")]), default=None)

    def _set_aside(self, info: ObjectInfo) -> None:
        """Move a manifest away that says of blocks what cannot be believed."""
        store = self.backing.store
        with suppress(FileNotFoundError):  # another process swept it
            data = read_as_is(store, info.key)
            sha256 = hashlib.sha256(data).hexdigest()
            key = f"quarantine/{Path(info.key).name.partition('.')[0]}.{sha256}.parquet"
            store.put_if_absent(key, data, content_type=_TYPE, sha256=sha256, immutable=True)
            store.delete(info.key)
            where = f"moved to {key}: run strata load, which loads again what is lacking"
            self.say(info.key, where)

    def _remove_foreign_logs(self) -> None:
        """Remove the logs that other programs left beside files of DuckDB."""
        for name in (STATE, "spam"):
            for log in sorted((self.backing.files.folder / name).glob("*.duckdb.wal")):
                remove_log(log.with_suffix(""))
                self.say(f"{name}/{log.name}", f"{FOREIGN_LOG}: the log is removed")


def _length(info: ObjectInfo) -> tuple[int, str]:
    blocks = blocks_of(info.key) or BlockRange(0, 0)
    return blocks.last - blocks.first, info.key
