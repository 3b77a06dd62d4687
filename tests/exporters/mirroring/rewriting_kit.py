"""Random rewritings of an archive's past, honest and other ones, and what contradicts the past.

A rewriting is a list of steps. Honest ones are what a publisher does: segments come, files are
replaced on record, a replacement is recorded and dies. The others change, remove or rename files,
say other things of them, drop shards, lower heights, and rewrite the revisions; each leaves sound
hashes behind, as whoever lies would.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.entries import Entry, Json
from exporters.archive.index import ArchiveIndex, index_bytes
from exporters.archive.json_text import FORMAT, written
from exporters.archive.revisions import REVISIONS, Revision, record
from exporters.archive.shards import Shard
from exporters.publishing.publication import publish_zips
from exporters.publishing.replace import Correction
from exporters.zip_names import csv_name, zip_name
from tests.archive_kit import CHAIN, forge_shard, list_documents, part_request, segment_requests
from transforms.block_range import BlockRange
from transforms.errors import StrataError
from transforms.stores.folder_store import FolderStore

_Item = TypeVar("_Item")

TABLES = ("blocks", "orders")
_FIRST = ((1, 10), (11, 20), (20_001, 20_010))
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def small_archive(folder: Path) -> Archive:
    """Two tables of three segments in two shards, one file of which was replaced."""
    archive = Archive(FolderStore(folder / "archive"), CHAIN)
    for blocks in _FIRST:
        publish_zips(archive, segment_requests(folder, *blocks, TABLES))
    corrected = part_request(folder, "orders", 11, 20, salt="first")
    publish_zips(archive, [corrected], correction=Correction("the first typo", START))
    return archive


class _NothingLeftError(Exception):
    """All has been dropped that a step could change."""


class Rewriting:
    """Steps on an archive; `is_honest` while all of them were."""

    def __init__(self, archive: Archive, folder: Path, dice: random.Random) -> None:
        self.archive = archive
        self.steps: list[str] = []
        self.is_honest = True
        self._folder = folder
        self._dice = dice
        self._count = 0

    def step(self, *, is_honest: bool) -> None:
        """Do a step; a publisher may fail on what was rewritten before."""
        work = self._dice.choice(_HONEST if is_honest else _OTHERS)
        self.steps.append(work.__name__)
        self.is_honest &= is_honest
        try:
            work(self)
        except (StrataError, _NothingLeftError):
            assert not self.is_honest, self.steps
        list_documents(self.archive)

    # --- what a publisher does

    def extend(self) -> None:
        first = max(blocks.last for blocks in self._blocks()) + 1
        publish_zips(self.archive, segment_requests(self._folder, first, first + 9, TABLES))

    def replace_on_record(self) -> None:
        request, correction = self._other_file()
        publish_zips(self.archive, [request], correction=correction)

    def record_and_die(self) -> None:
        entry = self._any_entry()
        at = START + timedelta(days=self._next())
        record(self.archive, Revision(entry.path, entry.sha256, "ab" * 32, "never happened", at))

    def publish_again(self) -> None:
        entry = self._any_entry()
        refresh(self.archive, [entry.blocks.first // 20_000])

    # --- what nobody may do

    def change_a_file(self) -> None:
        """Put another file there as the publisher does, and forget that it was another one."""
        before = self.archive.read(REVISIONS)
        request, correction = self._other_file()
        publish_zips(self.archive, [request], correction=correction)
        self._put(REVISIONS, before)

    def go_back_to_the_first_file(self) -> None:
        """Undo a replacement that stays on record."""
        event = self._dice.choice(self._events() or [{"path": ""}])
        self._change_entries(
            lambda e: replace(e, sha256=event["old_sha256"]) if e.path == event["path"] else e
        )

    def remove_a_file(self) -> None:
        path = self._any_entry().path
        self._change_entries(lambda entry: None if entry.path == path else entry)

    def rename_a_file(self) -> None:
        entry = self._any_entry()
        self._change_entries(lambda each: _shorter(each) if each == entry else each)

    def say_something_else(self) -> None:
        entry = self._any_entry()
        other = self._dice.choice((_other_rows, _other_size))(entry)
        self._change_entries(lambda each: other if each == entry else each)

    def name_a_file_twice(self) -> None:
        """One entry as it was, and another one with other bytes."""
        number = self._any_entry().blocks.first // 20_000
        shard = self.archive.shard(number)
        again = replace(self._choice(shard.entries), sha256="cd" * 32)
        self._put_shard(Shard(CHAIN, number, (*shard.entries, again)))

    def drop_a_shard(self) -> None:
        shards = dict(self.archive.index().shards)
        shard = shards.pop(self._choice(list(shards)))
        self._put_index(ArchiveIndex(CHAIN, shards=shards).including(()))
        if self._dice.random() < 0.5:
            self._put(shard.path, None)

    def lower_the_height(self) -> None:
        """Say less in the head of the index, and leave its shards."""
        index = self.archive.index()
        shard = self._choice(list(index.shards.values()))
        self._put_index(replace(index, tables={**index.tables, **shard.tables}))

    def lose_the_index(self) -> None:
        self._put_index(ArchiveIndex(CHAIN))

    def drop_a_revision(self) -> None:
        self._change_events(lambda events: events.pop(self._dice.randrange(len(events))))

    def rewrite_a_revision(self) -> None:
        name, value = self._dice.choice(
            [("reason", "an excuse"), ("old_sha256", "ef" * 32), ("new_sha256", "ef" * 32)]
        )
        self._change_events(lambda events: self._dice.choice(events).update({name: value}))

    def drop_all_revisions(self) -> None:
        self._put(REVISIONS, None)

    # --- how

    def _choice(self, items: Sequence[_Item]) -> _Item:
        if not items:
            raise _NothingLeftError
        return self._dice.choice(items)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _entries(self) -> list[Entry]:
        return [e for number in self._numbers() for e in self.archive.shard(number).entries]

    def _numbers(self) -> list[int]:
        return [*self.archive.index().shards]

    def _blocks(self) -> list[BlockRange]:
        return [entry.blocks for entry in self._entries()] or [BlockRange(1, 20_010)]

    def _any_entry(self) -> Entry:
        return self._choice(self._entries())

    def _other_file(self) -> tuple[Any, Correction]:
        blocks, number = self._any_entry().blocks, self._next()
        salt = f"{self._dice.getrandbits(32):x}"
        table = self._dice.choice(TABLES)
        request = part_request(self._folder, table, blocks.first, blocks.last, salt=salt)
        return request, Correction(f"typo {number}", START + timedelta(days=number))

    def _change_entries(self, change: Callable[[Entry], Entry | None]) -> None:
        for number in self._numbers():
            entries = self.archive.shard(number).entries
            changed = tuple(e for e in map(change, entries) if e is not None)
            if changed != entries:
                self._put_shard(Shard(CHAIN, number, changed))

    def _put_shard(self, shard: Shard) -> None:
        forge_shard(self.archive, shard, is_followed=self._dice.random() < 0.5)

    def _put_index(self, index: ArchiveIndex) -> None:
        self._put("index.json", index_bytes(index))

    def _events(self) -> list[Json]:
        data = self.archive.read(REVISIONS)
        return list(json.loads(data)["revisions"]) if data else []

    def _change_events(self, change: Callable[[list[Json]], object]) -> None:
        events = self._events()
        if events:
            change(events)
            document = {"format": FORMAT, "chain_id": CHAIN, "revisions": events}
            self._put(REVISIONS, written(document))

    def _put(self, path: str, data: bytes | None) -> None:
        key = self.archive.key(path)
        place = self.archive.store.path(key)
        assert place is not None
        place.unlink(missing_ok=True)
        if data is not None:
            place.write_bytes(data)


def _shorter(entry: Entry) -> Entry:
    """The entry of the same file under the name of one block less."""
    blocks = BlockRange(entry.blocks.first, entry.blocks.last - 1)
    name = csv_name(CHAIN, entry.table, entry.segment.version, blocks)
    return replace(
        entry,
        path=f"{entry.table}/{zip_name(CHAIN, entry.table, blocks)}",
        segment=replace(entry.segment, blocks=blocks),
        csv=replace(entry.csv, name=name),
    )


def _other_rows(entry: Entry) -> Entry:
    return replace(entry, csv=replace(entry.csv, rows=entry.rows + 1))


def _other_size(entry: Entry) -> Entry:
    return replace(entry, bytes=entry.bytes + 1)


_HONEST = (
    Rewriting.extend,
    Rewriting.replace_on_record,
    Rewriting.replace_on_record,
    Rewriting.record_and_die,
    Rewriting.publish_again,
)
_OTHERS = (
    Rewriting.change_a_file,
    Rewriting.go_back_to_the_first_file,
    Rewriting.remove_a_file,
    Rewriting.rename_a_file,
    Rewriting.say_something_else,
    Rewriting.name_a_file_twice,
    Rewriting.drop_a_shard,
    Rewriting.lower_the_height,
    Rewriting.lose_the_index,
    Rewriting.drop_a_revision,
    Rewriting.rewrite_a_revision,
    Rewriting.drop_all_revisions,
)


@dataclass(frozen=True, slots=True)
class Account:
    """What the documents of an archive say, read without the product."""

    zips: Sequence[Json]
    revisions: Sequence[Json]
    last_block: int

    @classmethod
    def of(cls, folder: Path) -> Account:
        """The account of the chain's folder of an archive."""
        index = json.loads((folder / "index.json").read_bytes())
        places = [folder / one["path"] for one in index["shards"]]
        documents = [json.loads(place.read_bytes()) for place in places if place.exists()]
        events = folder / REVISIONS
        return cls(
            [item for document in documents for item in document["zips"]],
            json.loads(events.read_bytes())["revisions"] if events.exists() else [],
            index["last_block"] or 0,
        )

    def contradictions(self, before: Account) -> list[str]:
        """How it contradicts an earlier one."""
        past = {item["path"]: item for item in before.zips}
        there = {item["path"] for item in self.zips}
        paths = [path for path in past if path not in there]
        for item in self.zips:
            earlier = past.get(item["path"], item)
            if item["sha256"] == earlier["sha256"]:
                paths += [item["path"]] if item != earlier else []
            elif not self._leads(earlier["sha256"], item):
                paths.append(item["path"])
        paths += [event["path"] for event in before.revisions if event not in self.revisions]
        return paths + (["height"] if self.last_block < before.last_block else [])

    def _leads(self, sha256: str, item: Json) -> bool:
        """Whether revisions lead from a hash to that of a ZIP, and at most one is open."""
        events = [event for event in self.revisions if event["path"] == item["path"]]

        def reaches(at: str, rest: list[Json]) -> bool:
            return at == item["sha256"] or any(
                event["old_sha256"] == at and reaches(event["new_sha256"], rest[number:])
                for number, event in enumerate(rest, 1)
            )

        ends = [event[name] for event in events[-1:] for name in ("old_sha256", "new_sha256")]
        return item["sha256"] in ends and reaches(sha256, events)
