"""A snapshot: one state of the warehouse, as a document of its log.

It names the volumes and what else the warehouse holds. What was loaded, segment by segment, stands
in the manifests of the volumes, so that a snapshot of 75,000 segments stays below a megabyte.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from transforms.block_range import BlockRange
from transforms.errors import ConfigError, IntegrityError
from transforms.objects import StoredFile
from transforms.sealed import seal, unseal
from transforms.segments.quarantine import QuarantinedFile
from transforms.warehouse.log.losses import CAPTURES, Loss, volume_losses
from transforms.warehouse.manifests.data_files import data_files
from transforms.warehouse.manifests.shapes import Shape, Volume

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Dropped:
    """A file that snapshots before this one named: since when (Unix seconds) none does."""

    key: str
    time: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the warehouse. `warehouse` is drawn once, `commit` for each attempt to write.

    `time` is in Unix seconds; volumes ascend by kind and block. `losses` are what snapshots before
    had and nothing holds any more.
    """

    warehouse: str
    number: int = 0
    commit: str = ""
    time: float = 0.0
    chain_id: str = ""
    volumes: tuple[Volume, ...] = ()
    captures: StoredFile | None = None
    quarantine: tuple[QuarantinedFile, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    losses: tuple[Loss, ...] = ()

    def history(self) -> list[Volume]:
        """The volumes of history, ascending by block."""
        return [volume for volume in self.volumes if volume.kind == "history"]

    def states(self) -> list[Volume]:
        """The volumes of current-state tables, ascending by block: one per schema version."""
        return [volume for volume in self.volumes if volume.kind == "state"]

    def with_volumes(self, volumes: Iterable[Volume]) -> Snapshot:
        """The same with other volumes."""
        ordered = sorted(volumes, key=lambda volume: (volume.kind, volume.blocks))
        return replace(self, volumes=tuple(ordered))

    def without(self, bad: Set[StoredFile]) -> Snapshot:
        """The same without damaged files; a volume may lack its index file, and no other."""
        volumes = [
            replace(volume, index=None) if volume.index in bad else volume
            for volume in self.volumes
            if bad.isdisjoint(volume.row_files)
        ]
        return replace(
            self,
            volumes=tuple(volumes),
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

    def manifests(self) -> list[StoredFile]:
        """The manifests of history."""
        return [volume.file for volume in self.volumes if volume.kind == "history"]

    def files(self) -> list[StoredFile]:
        """Every file of the warehouse that this snapshot names."""
        copies = [refused.copy for refused in self.quarantine if refused.copy]
        captures = [self.captures] if self.captures else []
        return [*(file for volume in self.volumes for file in volume.files), *captures, *copies]

    def quarantined(self, refused: Iterable[QuarantinedFile], released: Iterable[str]) -> Snapshot:
        """The same with some files refused, and some, by key, no longer."""
        fresh = {file.key: file for file in refused}
        gone = set(released) - fresh.keys()
        rest = {file.key: file for file in self.quarantine if file.key not in gone}
        merged = sorted((rest | fresh).values(), key=lambda file: file.refusal.info)
        return replace(self, quarantine=tuple(merged))


def new_warehouse() -> Snapshot:
    """What precedes the first snapshot of a warehouse."""
    return Snapshot(uuid4().hex)


def following(
    base: Snapshot, target: Snapshot, forget: Iterable[str] = (), now: float | None = None
) -> Snapshot:
    """The snapshot after `base` with the content of `target`.

    Files that `base` names and `target` does not are dropped from `now` on (None: by this machine's
    clock); of those that were dropped before, `forget` are gone by now.
    """
    # Microseconds, as they are written.
    now = max(round(time.time() if now is None else now, 6), base.time)
    keys, gone = target.named_keys(), set(forget)
    old = [file for file in base.dropped if file.key not in keys and file.key not in gone]
    fresh = [Dropped(key, now) for key in sorted(base.named_keys() - keys)]
    losses = [*volume_losses(base.losses, base.volumes, target.volumes)]
    if target.captures is None and (base.captures or Loss(CAPTURES) in base.losses):
        losses.append(Loss(CAPTURES))
    return replace(
        target,
        warehouse=base.warehouse,
        number=base.number + 1,
        commit=uuid4().hex,
        time=now,
        dropped=(*old, *fresh),
        losses=tuple(losses),
    )


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot as sealed JSON."""
    listed = _ListedShapes()
    volumes = [_volume_row(volume, listed) for volume in snapshot.volumes]
    return seal(
        {
            "format": FORMAT,
            "warehouse": snapshot.warehouse,
            "snapshot": snapshot.number,
            "commit": snapshot.commit,
            "time": _time_text(snapshot.time),
            "chain": snapshot.chain_id,
            "shapes": [[dict(columns), raw] for columns, raw in listed.shapes],
            "tables": [dict(pairs) for pairs in listed.tables],
            "volumes": volumes,
            "captures": _file_row(snapshot.captures),
            "quarantine": [refused.dump() for refused in snapshot.quarantine],
            "dropped": [[file.key, _time_text(file.time)] for file in snapshot.dropped],
            "losses": [[*astuple(loss)] for loss in snapshot.losses],
        }
    )


def parse_snapshot(data: bytes, place: str) -> Snapshot:
    """Read a snapshot. Raises `IntegrityError` where it is damaged, `ConfigError` for a newer one.

    `place` names it for a person.
    """
    row = unseal(data, place)
    if row["format"] != FORMAT:
        raise ConfigError(
            f"{place} has format {row['format']} and this release knows {FORMAT}: use a newer one"
        )
    try:
        return _parsed(row)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise IntegrityError(
            f"{place} lacks what a snapshot of format {FORMAT} has ({error!r}): it was not written "
            "by this release"
        ) from error


def _parsed(row: Mapping[str, Any]) -> Snapshot:
    shapes = [Shape(columns, set(raw)) for columns, raw in row["shapes"]]
    tables = [{table: shapes[at] for table, at in entry.items()} for entry in row["tables"]]
    return Snapshot(
        row["warehouse"],
        row["snapshot"],
        row["commit"],
        _time(row["time"]),
        row["chain"],
        tuple(_volume(entry, tables) for entry in row["volumes"]),
        _file(row["captures"]),
        tuple(map(QuarantinedFile.parse, row["quarantine"])),
        tuple(Dropped(key, _time(text)) for key, text in row["dropped"]),
        tuple(Loss(*loss) for loss in row["losses"]),
    )


class _ListedShapes:
    """The shapes of volumes' tables, most of which have all in common: each set is listed once.

    Volumes that were read from a snapshot share the very mappings, which live as long as this does.
    """

    def __init__(self) -> None:
        self.shapes: dict[tuple[tuple[tuple[str, str], ...], tuple[str, ...]], int] = {}
        self.tables: dict[tuple[tuple[str, int], ...], int] = {}
        self._numbers: dict[int, int] = {}

    def number(self, shapes: Mapping[str, Shape]) -> int:
        """The place of a volume's tables in the list."""
        if id(shapes) not in self._numbers:
            pairs = []
            for table, shape in sorted(shapes.items()):
                key = (tuple(shape.columns.items()), tuple(sorted(shape.raw)))
                pairs.append((table, self.shapes.setdefault(key, len(self.shapes))))
            self._numbers[id(shapes)] = self.tables.setdefault(tuple(pairs), len(self.tables))
        return self._numbers[id(shapes)]


def _volume_row(volume: Volume, listed: _ListedShapes) -> dict[str, object]:
    return {
        "kind": volume.kind,
        "file": _file_row(volume.file),
        "blocks": [volume.blocks.first, volume.blocks.last],
        "version": volume.version,
        "tables": listed.number(volume.shapes),
        "data": {table: [file.sha256, file.size] for table, file in volume.data.items()},
        "index": _file_row(volume.index),
        "times": volume.times,
    }


def _volume(row: Mapping[str, Any], tables: Sequence[dict[str, Shape]]) -> Volume:
    """A volume; it shares its shapes, which nobody changes, with others."""
    file, blocks = _present_file(row["file"]), BlockRange(*row["blocks"])
    data = data_files(blocks, row["data"])
    times = (row["times"][0], row["times"][1]) if row["times"] else None
    shapes, index = tables[row["tables"]], _file(row["index"])
    return Volume(row["kind"], file, blocks, row["version"], shapes, data, index, times)


def _file_row(file: StoredFile | None) -> list[object] | None:
    """A file's row; the hash is left out where the key has it, which halves a long snapshot."""
    if file is None:
        return None
    return [file.key, file.size, *([] if _named_hash(file.key) == file.sha256 else [file.sha256])]


def _named_hash(key: str) -> str:
    return key.rpartition("/")[2].rpartition(".")[0].rpartition(".")[2]


def _file(row: Sequence[Any] | None) -> StoredFile | None:
    return _present_file(row) if row else None


def _present_file(row: Sequence[Any]) -> StoredFile:
    return StoredFile(row[0], row[1], row[2] if len(row) > 2 else _named_hash(row[0]))


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
