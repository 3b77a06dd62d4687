"""A whole site of any number of segments, made in minutes: source, warehouse and archive.

The warehouse is that of `tests.benchmarks.clones`; of the source every file is there by name and
size, empty; of the archive the index and its shards are there, and neither ZIPs nor a lake. `NEW`
more segments of the source are real. What was made is kept, and never changed: who measures gets
hard links to it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.entries import Csv, Entry, SegmentSource, entry_json, schemas_json
from exporters.archive.json_text import FORMAT, written
from exporters.archive.shards import shard_blocks, shard_number
from exporters.archive.stored_shards import put_shard
from exporters.zip_names import csv_name, zip_name
from exporters.zips.runs import Run
from pipelines.settings import Settings
from tests.archive_kit import resealed
from tests.benchmarks.api import History
from tests.benchmarks.clones import segment_id
from tests.benchmarks.market import BLOCKS, CHAIN
from tests.segments_kit import build_segment
from transforms.block_range import BlockRange
from transforms.segments.segment_name import SegmentName
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES, known_table
from transforms.warehouse.warehouse_address import open_warehouse

NEW = 100
"""Segments that a source has and the warehouse has not."""

ZIP_BYTES = 1100
"""What the index says of each ZIP."""

_VERSION = 1
_SHA256 = "0" * 64
_ID, _PREVIOUS_ID = "<id>", "<previous>"
_ANY = BlockRange(777_777_777, 888_888_888)


@dataclass(frozen=True, slots=True)
class Place:
    """A site to be measured: its folder, and how many segments its history has."""

    folder: Path
    segments: int

    @property
    def settings(self) -> Settings:
        """Where its source, with `NEW` new segments, its warehouse and its archive lie."""
        return self._settings("source")

    @property
    def with_one_new(self) -> Settings:
        """The same with a source of which only one segment is new."""
        return self._settings("source-one")

    @property
    def home(self) -> Path:
        """Dagster's folder, empty."""
        return self.folder / "home"

    @property
    def new(self) -> list[BlockRange]:
        """The new segments."""
        return [blocks_of(self.segments + number) for number in range(NEW)]

    def _settings(self, source: str) -> Settings:
        folder = self.folder
        return Settings(
            source=str(folder / source),
            warehouse=str(folder / "warehouse"),
            archive=str(folder / "archive"),
            lake=False,
        )

    def copy(self, folder: Path) -> Place:
        """A site of one's own: hard links, as no file is ever changed in its place."""
        for name in ("warehouse", "archive"):
            shutil.copytree(self.folder / name, folder / name, copy_function=os.link)
        for name in ("source", "source-one"):
            (folder / name).symlink_to(self.folder / name)
        return replace(self, folder=folder)


def blocks_of(number: int) -> BlockRange:
    """The blocks of a segment, counted from 0."""
    return BlockRange(number * BLOCKS + 1, (number + 1) * BLOCKS)


def make_site(folder: Path, segments: int) -> Place:
    """The site of so many segments below a folder; made unless it is there."""
    clones = History(folder / f"{segments}-cloned", segments, is_cloned=True)
    clones.made()
    place = Place(folder / f"{segments}-site", segments)
    if not (place.folder / "done").exists():
        shutil.rmtree(place.folder, ignore_errors=True)
        place.folder.mkdir()
        (place.folder / "warehouse").symlink_to(clones.folder / "warehouse")
        _make_sources(place)
        _make_archive(place)
        (place.folder / "done").touch()
    return place


def _make_sources(place: Place) -> None:
    catalog = open_warehouse(place.settings.warehouse).loaded_catalog()
    source, other = Path(place.settings.source), Path(place.with_one_new.source)
    for folder in (source, other):
        folder.mkdir()
        for segment in catalog.segments():
            with (folder / segment.info.key).open("xb") as file:
                file.truncate(segment.info.size)
    for blocks in place.new:
        build_segment(source, chain_id=CHAIN, first=blocks.first, last=blocks.last)
    first = SegmentName(CHAIN, _VERSION, place.new[0]).file_name
    shutil.copyfile(source / first, other / first)


def _make_archive(place: Place) -> None:
    root = Path(place.settings.archive)
    (root / CHAIN / "index").mkdir(parents=True)
    entries = [_entry(table) for table in sorted(HISTORY_TABLES)]
    lines = [json.dumps(entry_json(entry), separators=(",", ":")) for entry in entries]
    shards: dict[int, list[str]] = {}
    for number in range(place.segments):
        blocks = blocks_of(number)
        shards.setdefault(shard_number(blocks), []).extend(_moved(lines, number))
    for number, found in shards.items():
        document = {
            "format": FORMAT,
            "chain_id": CHAIN,
            "from": shard_blocks(number).first,
            "to": shard_blocks(number).last,
            "schemas": schemas_json(entries),
            "zips": ["entries"],
        }
        text = written(document).replace(b'"entries"', ",\n".join(found).encode())
        put_shard(Archive(FolderStore(root), CHAIN), number, resealed(text))
    # An index that is not there is made from all shards; pages are made of one shard only.
    refresh(Archive(FolderStore(root), CHAIN), [max(shards)])


def _entry(table: str) -> Entry:
    """An entry over blocks that are easily replaced in its line."""
    known = known_table(table, _VERSION)
    assert known is not None
    runs = (Run(100, 100, 1), Run(1000, 4000, 1))
    name = csv_name(CHAIN, table, _VERSION, _ANY)
    member = Csv(name, 20, 4100, _SHA256, known.schema, runs)
    segment = SegmentSource(_ANY, _VERSION, _ID, _SHA256, _PREVIOUS_ID)
    path = f"{table}/{zip_name(CHAIN, table, _ANY)}"
    return Entry(table, path, ZIP_BYTES, _SHA256, segment, member)


def _moved(lines: Iterable[str], number: int) -> Iterator[str]:
    blocks = blocks_of(number)
    own = (blocks.first, blocks.last, segment_id(number), segment_id(number - 1) if number else "")
    for line in lines:
        for any_one, this in zip((_ANY.first, _ANY.last, _ID, _PREVIOUS_ID), own, strict=True):
            line = line.replace(str(any_one), str(this))
        yield line
