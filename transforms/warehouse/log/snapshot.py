"""A snapshot: one state of the warehouse, as a document of its log.

It names the volumes and what else the warehouse holds. What was loaded, segment by segment, stands
in the manifests of the volumes, so that a snapshot of 75,000 segments stays below a megabyte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from typing import Any
from uuid import uuid4

from transforms.block_range import BlockRange
from transforms.collector import collector_paused
from transforms.coverage import union
from transforms.errors import ConfigError, IntegrityError, SegmentError
from transforms.objects import ObjectInfo, StoredFile
from transforms.sealed import other_format, seal, unseal
from transforms.segments.quarantine import QuarantinedFile
from transforms.warehouse.log.losses import LOST_CAPTURES, Loss, volume_losses
from transforms.warehouse.log.seen import SeenSnapshot
from transforms.warehouse.manifests.file_names import blocks_of, is_held
from transforms.warehouse.manifests.shapes import (
    Shape,
    Volume,
    file_row,
    parse_file,
    parse_volume,
    volume_row,
)

FORMAT = 3

REMAKE = "load the segments into a warehouse in a new folder, as development formats are not kept"
"""What to do about a warehouse of an older format."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the warehouse; `Snapshot()` precedes the first one of the log.

    `warehouse` is drawn for the first snapshot, `commit` for each attempt to write. Times are in
    Unix seconds. `history` are the volumes of history, `states` those of current state, one per
    schema version; both ascend by block. `dropped` are files that snapshots before this one named,
    by key: since when none does. `losses` are what these had and nothing holds any more.
    """

    number: int = 0
    commit: str = ""
    time: float = 0.0
    chain_id: str = ""
    history: tuple[Volume, ...] = ()
    states: tuple[Volume, ...] = ()
    captures: StoredFile | None = None
    quarantine: tuple[QuarantinedFile, ...] = ()
    dropped: Mapping[str, float] = field(default_factory=dict)
    losses: tuple[Loss, ...] = ()
    warehouse: str = ""

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """Those of history, then those of current state."""
        return (*self.history, *self.states)

    @property
    def seen(self) -> SeenSnapshot:
        """What is recorded of it outside the log."""
        lost = (loss.blocks for loss in self.losses if loss.kind == "history")
        blocks = union((*(volume.blocks for volume in self.history), *lost))
        return SeenSnapshot(self.warehouse, self.number, blocks)

    def with_volumes(self, volumes: Iterable[Volume]) -> Snapshot:
        """The same with other volumes."""
        kinds: dict[str, list[Volume]] = {"history": [], "state": []}
        for volume in sorted(volumes, key=lambda volume: volume.blocks):
            kinds[volume.kind].append(volume)
        return replace(self, history=tuple(kinds["history"]), states=tuple(kinds["state"]))

    def without(self, bad: Set[StoredFile]) -> Snapshot:
        """The same without damaged files; a volume may lack its index file, and no other."""
        volumes = [
            replace(volume, index=None) if volume.index in bad else volume
            for volume in self.volumes
            if bad.isdisjoint(volume.row_files)
        ]
        return replace(
            self.with_volumes(volumes),
            captures=None if self.captures in bad else self.captures,
            quarantine=tuple(refused for refused in self.quarantine if refused.copy not in bad),
        )

    def named_keys(self) -> set[str]:
        """Every file of the warehouse that this snapshot names."""
        return {file.key for file in self.files()}

    def readable(self) -> list[StoredFile]:
        """The files that queries read: of rows, of what is known of them, of captures."""
        captures = [self.captures] if self.captures else []
        return [*(file for volume in self.volumes for file in volume.row_files), *captures]

    def indexes(self) -> list[StoredFile]:
        """The index files of its volumes."""
        return [volume.index for volume in self.volumes if volume.index]

    def files(self) -> list[StoredFile]:
        """Every file of the warehouse that this snapshot names."""
        copies = [refused.copy for refused in self.quarantine if refused.copy]
        return [*self.readable(), *self.indexes(), *copies]

    def with_added(self, chain_id: str, volumes: Collection[Volume]) -> Snapshot:
        """The same with those volumes of history whose blocks are free, and with the newest states.

        What it names already stays: where another process was faster, its volumes count. One state
        is named of each schema version. Raises `ConfigError` where it holds another chain.
        """
        if self.chain_id not in ("", chain_id):
            raise ConfigError(
                f"the warehouse holds {self.chain_id} and the segments are of {chain_id}: "
                "give each chain a warehouse of its own"
            )
        history, states = [*self.history], {state.version: state for state in self.states}
        for volume in volumes:
            if volume.kind == "state":
                there = states.setdefault(volume.version, volume)
                states[volume.version] = max(there, volume, key=lambda state: state.blocks)
            elif not any(volume.blocks.overlaps(other.blocks) for other in history):
                history.append(volume)
        return replace(self, chain_id=chain_id).with_volumes([*history, *states.values()])

    def lacking(self, manifests: Iterable[ObjectInfo]) -> list[ObjectInfo]:
        """The listed manifests that it does not name, with blocks that its volumes lack."""
        keys, runs = self.named_keys(), union(v.blocks for v in self.history)
        return [
            info
            for info in manifests
            if info.key not in keys and blocks_of(info.key) and not is_held(info.key, runs)
        ]

    def quarantined(self, refused: Iterable[QuarantinedFile], released: Iterable[str]) -> Snapshot:
        """The same with some files refused, and some, by key, no longer."""
        fresh = {file.key: file for file in refused}
        gone = set(released) - fresh.keys()
        rest = {file.key: file for file in self.quarantine if file.key not in gone}
        merged = sorted((rest | fresh).values(), key=lambda file: file.info)
        return replace(self, quarantine=tuple(merged))


def following(base: Snapshot, target: Snapshot, now: float) -> Snapshot:
    """The snapshot after `base` with the content of `target`.

    Files that `base` names and `target` does not are dropped from `now` on, by the store's clock.
    """
    now, keys = max(now, base.time), target.named_keys()
    old = {key: since for key, since in target.dropped.items() if key not in keys}
    fresh = dict.fromkeys(sorted(base.named_keys() - keys), now)
    return replace(
        target,
        number=base.number + 1,
        commit=uuid4().hex,
        time=now,
        dropped=old | fresh,
        losses=lost_between(base, target),
        warehouse=target.warehouse or uuid4().hex,
    )


def lost_between(base: Snapshot, target: Snapshot) -> tuple[Loss, ...]:
    """What `base` had, or had lost, and `target` does not hold."""
    has_lost = target.captures is None and (base.captures or LOST_CAPTURES in base.losses)
    captures = (LOST_CAPTURES,) if has_lost else ()
    return (*volume_losses(base.losses, base.volumes, target.volumes), *captures)


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot as sealed JSON; most tables have the same shape in all volumes."""
    shapes = dict[object, int]()
    volumes = [volume_row(volume, shapes) for volume in snapshot.volumes]
    return seal(
        {
            "format": FORMAT,
            "warehouse": snapshot.warehouse,
            "snapshot": snapshot.number,
            "commit": snapshot.commit,
            "time": snapshot.time,
            "chain": snapshot.chain_id,
            "shapes": [*shapes],
            "volumes": volumes,
            "captures": file_row(snapshot.captures),
            "quarantine": [refused.dump() for refused in snapshot.quarantine],
            "dropped": [*snapshot.dropped.items()],
            "losses": [astuple(loss) for loss in snapshot.losses],
        }
    )


@lru_cache(maxsize=1)  # a process that serves reads the same one again, to see that it is there
@collector_paused()
def parse_snapshot(data: bytes, place: str) -> Snapshot:
    """Read a snapshot. Raises `IntegrityError` for a damaged one, `ConfigError` for other formats.

    `place` names it for a person.
    """
    try:
        row = unseal(data, place)
        if row["format"] == FORMAT:
            return _parsed(row)
        problem = other_format(place, row["format"], FORMAT, REMAKE)
    except (SegmentError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise IntegrityError(
            f"{place} is no snapshot as this release has them ({error!r})"
        ) from error
    raise ConfigError(problem)


def _parsed(row: Mapping[str, Any]) -> Snapshot:
    shapes = [Shape(dict(columns), set(raw)) for columns, raw in row["shapes"]]
    snapshot = Snapshot(
        row["snapshot"],
        row["commit"],
        row["time"],
        row["chain"],
        captures=parse_file(row["captures"]),
        quarantine=tuple(map(QuarantinedFile.parse, row["quarantine"])),
        dropped=dict(row["dropped"]),
        losses=tuple(Loss(kind, BlockRange(*at), version) for kind, at, version in row["losses"]),
        warehouse=row["warehouse"],
    )
    return snapshot.with_volumes(parse_volume(entry, shapes) for entry in row["volumes"])
