"""Writes the sample history as segment ZIPs, whose tables are the same wherever it runs.

The ZIPs are byte for byte the same where zlib is, and with them the ids that chain them.
"""

from __future__ import annotations

import filecmp
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from tests.cid_kit import cid_of
from tests.sample.participants import Participants
from tests.sample.simulation import Simulation
from tests.sample.tables import TableFiles
from transforms.block_range import BlockRange
from transforms.errors import ConfigError
from transforms.files import commit_file
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.segments.segment_name import SegmentName

_CHUNK_BYTES = 1 << 20
_DEFLATE_LEVEL = 1
_SCRATCH = ".scratch"
_UNIX = 3  # what Python would only write on such a system
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


class SampleSegment(NamedTuple):
    """One segment to write: its schema version and its blocks."""

    version: int
    blocks: BlockRange


SEGMENTS = tuple(
    SampleSegment(version, BlockRange(first, last))
    for version, first, last in (
        (1, 1, 1000),
        (1, 1001, 2000),
        (1, 2001, 2450),  # a protocol upgrade cuts a segment short
        (21, 2451, 3450),
        (21, 3451, 4450),
        (21, 4451, 5450),
        (21, 5451, 6450),
        (21, 6451, 7000),
    )
)
"""The default: 7000 blocks in eight segments of uneven length, at two schema versions."""


def write_sample(
    folder: Path,
    *,
    seed: int = 20230601,
    chain_id: str = "sample-chain-001",
    segments: Sequence[SampleSegment] = SEGMENTS,
    scale: int = 1,
) -> list[Path]:
    """Write segment ZIPs and their `index.json` into `folder`; returns the ZIPs, ascending.

    `scale` multiplies traders and trading, and so the rows. A file that is there with the same
    bytes is left alone; any other is replaced, whole or not at all. Raises `ConfigError` where the
    segments do not follow each other from block 1.
    """
    _check(segments)
    names = [SegmentName(chain_id, version, blocks) for version, blocks in segments]
    participants = Participants(seed, chain_id, scale, segments[-1].blocks.last)
    index: list[dict[str, object]] = []
    sweep_scratch(folder / _SCRATCH)
    with scratch_folder(folder / _SCRATCH) as scratch:
        unfinished = scratch / "unfinished"
        for name, entries in zip(names, _simulated(participants, segments, scratch), strict=True):
            previous = index[-1]["HistorySegmentID"] if index else ""
            metadata = {
                "HeightFrom": name.blocks.first,
                "HeightTo": name.blocks.last,
                "DatabaseVersion": name.version,
                "ChainID": chain_id,
                "PreviousHistorySegmentID": previous,
            }
            _write_zip(unfinished, metadata, entries)
            segment_id = cid_of(unfinished)
            _publish(unfinished, folder / name.file_name)
            index.append({**metadata, "HistorySegmentID": segment_id, "File": name.file_name})
        (scratch / "index.json").write_bytes(f"{json.dumps(index, indent=1)}\n".encode())
        _publish(scratch / "index.json", folder / "index.json")
    with suppress(OSError):  # another run may be using it
        (folder / _SCRATCH).rmdir()
    return [folder / name.file_name for name in names]


def _check(segments: Sequence[SampleSegment]) -> None:
    if not segments or segments[0].blocks.first != 1:
        raise ConfigError("the sample's segments must start at block 1")
    for (old, blocks), (new, following) in pairwise(segments):
        if not blocks.joins(following) or new < old:
            raise ConfigError(
                f"the sample's segment {following} at schema version {new} cannot follow segment "
                f"{blocks} at version {old}: blocks must join and versions must not fall"
            )


def _simulated(
    participants: Participants, segments: Sequence[SampleSegment], scratch: Path
) -> Iterator[Mapping[str, Path]]:
    """Simulate the chain; yields each segment's entries with their CSV files, gone at the next."""
    simulation = Simulation(participants)
    for number, (version, blocks) in enumerate(segments):
        work = scratch / str(number)
        work.mkdir()
        simulation.use_version(version)
        files = TableFiles(work, version)
        for height in range(blocks.first, blocks.last + 1):
            for table, rows in simulation.simulate_block(height).items():
                files.add(table, rows)
        following = segments[number + 1].version if number + 1 < len(segments) else version
        yield files.close(simulation.end_segment(blocks.first, upgraded=following > version))
        shutil.rmtree(work)


def _write_zip(path: Path, metadata: Mapping[str, object], entries: Mapping[str, Path]) -> None:
    with ZipFile(path, "w") as archive:
        text = json.dumps(metadata, separators=(",", ":")).encode()
        archive.writestr(_entry("metadata.json", len(text)), text)
        for name, source in entries.items():
            entry = _entry(name, source.stat().st_size)
            with source.open("rb") as data, archive.open(entry, "w") as out:
                while chunk := data.read(_CHUNK_BYTES):
                    out.write(chunk)


def _entry(name: str, size: int) -> ZipInfo:
    entry = ZipInfo(name, date_time=_ZIP_TIME)
    entry.compress_type = ZIP_DEFLATED
    # Before Python 3.13 there is no public way to set the level of an entry that is streamed.
    entry._compresslevel = _DEFLATE_LEVEL  # type: ignore[attr-defined]
    entry.create_system = _UNIX
    entry.file_size = size
    return entry


def _publish(finished: Path, place: Path) -> None:
    if place.is_file() and filecmp.cmp(finished, place, shallow=False):
        return
    commit_file(finished, place)
