"""A mirror remembers: what changed without a revision is refused by name, with a way out."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from exporters.archive.archive import Archive
from exporters.archive.index import ArchiveIndex, index_bytes
from exporters.archive.json_text import FORMAT, written
from exporters.archive.revisions import REVISIONS
from exporters.archive.shards import Shard
from exporters.mirroring.mirror import mirror
from exporters.mirroring.past import PastChangedError
from exporters.publishing.publication import publish_zips
from exporters.publishing.replace import Correction
from pipelines.commands.failures import exit_code
from pipelines.commands.group import strata
from tests.archive_kit import (
    CHAIN,
    contents,
    forge_shard,
    list_documents,
    part_request,
    segment_requests,
)
from tests.exporters.mirroring.rewriting_kit import START, TABLES, small_archive
from transforms.errors import IntegrityError
from transforms.stores.folder_store import FolderStore

_FILE = f"orders/{CHAIN}-orders-1-10.zip"
_REPLACED = f"orders/{CHAIN}-orders-11-20.zip"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with a file that was replaced, and a mirror of it."""
    folder = tmp_path_factory.mktemp("model")
    mirror(small_archive(folder), folder / "mirror")
    return folder


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(model, tmp_path / "of mine")


@pytest.fixture
def archive(folder: Path) -> Archive:
    return Archive(FolderStore(folder / "archive"), CHAIN)


@pytest.fixture
def out(folder: Path) -> Path:
    return folder / "mirror"


def put(archive: Archive, path: str, data: bytes | None) -> None:
    """Let a document of an archive be these bytes, or be gone."""
    place = archive.store.path(archive.key(path))
    assert place is not None
    place.unlink(missing_ok=True)
    if data is not None:
        place.write_bytes(data)


def change_file(archive: Archive, folder: Path) -> None:
    """Replace a file, and rewrite the revisions as if that had not been."""
    before = archive.read(REVISIONS)
    other = part_request(folder, "orders", 1, 10, salt="other")
    publish_zips(archive, [other], correction=Correction("not said", START))
    put(archive, REVISIONS, before)


def undo_replacement(archive: Archive, folder: Path) -> None:
    """Replace a file three times, and go back to the first one, which the mirror never had."""
    states = []
    for salt in ("one", "two", "three"):
        other = part_request(folder, "orders", 1, 10, salt=salt)
        publish_zips(archive, [other], correction=Correction(salt, START))
        states.append((archive.shard(0), archive.read(_FILE)))
    shard, data = states[0]
    put(archive, _FILE, data)
    forge_shard(archive, shard)


def remove_file(archive: Archive, _: Path) -> None:
    kept = [entry for entry in archive.shard(0).entries if entry.path != _FILE]
    forge_shard(archive, Shard(CHAIN, 0, tuple(kept)))


def say_something_else(archive: Archive, _: Path) -> None:
    first, *others = archive.shard(0).entries
    first = replace(first, csv=replace(first.csv, sha256="0" * 64))
    forge_shard(archive, Shard(CHAIN, 0, (first, *others)))


def drop_shard(archive: Archive, _: Path) -> None:
    shards = {0: archive.index().shards[0]}
    put(archive, "index.json", index_bytes(ArchiveIndex(CHAIN, shards=shards).including(())))


def empty_index(archive: Archive, _: Path) -> None:
    put(archive, "index.json", index_bytes(ArchiveIndex(CHAIN)))


def drop_revisions(archive: Archive, _: Path) -> None:
    put(archive, REVISIONS, None)


def rewrite_reason(archive: Archive, _: Path) -> None:
    event = {"path": _REPLACED, "old_sha256": "aa", "new_sha256": "bb", "reason": "an excuse"}
    rows = [{**event, "at": "2026-01-31T12:00:00Z"}]
    put(archive, REVISIONS, written({"format": FORMAT, "chain_id": CHAIN, "revisions": rows}))


_SHARD_NAME = r"index/000000000\.[0-9a-f]{16}\.json"
_REWRITINGS: dict[str, tuple[Callable[[Archive, Path], None], str]] = {
    "a file": (change_file, rf"{_FILE} was [0-9a-f]{{64}} and is [0-9a-f]{{64}}, without a revis"),
    "back": (undo_replacement, rf"{_FILE} was [0-9a-f]{{64}} and is [0-9a-f]{{64}}, without a rev"),
    "a file is gone": (remove_file, rf"{_SHARD_NAME} names no {_FILE} any more\."),
    "what is said of it": (say_something_else, f"{_SHARD_NAME} says something else of "),
    "a shard": (drop_shard, "last block was 20010 and is 20; index.json names no index/000020000"),
    "the index": (
        empty_index,
        "last block was 20010 and is none; index.json names no index/000000",
    ),
    "the revisions": (drop_revisions, rf"has no more that {_REPLACED} was replaced"),
    "a reason": (rewrite_reason, rf"has no more that {_REPLACED} was replaced"),
}


@pytest.mark.parametrize("what", _REWRITINGS)
def test_an_archive_whose_past_changed_is_refused_by_name_and_the_way_out_leads_out(
    archive: Archive, folder: Path, out: Path, what: str
) -> None:
    change, message = _REWRITINGS[what]
    publish_zips(archive, segment_requests(folder, 20_011, 20_020, TABLES))  # what would be new
    change(archive, folder)
    list_documents(archive)
    before = contents(FolderStore(out))
    fetch = ["fetch", str(folder / "archive"), "--all", "--out", str(out)]

    refused = CliRunner().invoke(strata, fetch, standalone_mode=False)

    assert isinstance(refused.exception, PastChangedError)
    assert exit_code(refused.exception) == 5
    assert re.search(message, str(refused.exception))
    assert contents(FolderStore(out)) == before
    way_out = [*fetch[:-2], *shlex.split(str(refused.exception).rpartition("folder: ")[2])]
    assert CliRunner().invoke(strata, way_out).exit_code == 0
    new = Archive(FolderStore(out.with_name("mirror-new")), CHAIN)
    assert new.index().shards == archive.index().shards
    assert CliRunner().invoke(strata, way_out).exit_code == 0  # every night from now on
    assert contents(FolderStore(out)) == before


def test_it_is_taken_again_when_its_past_is_as_it_was(
    archive: Archive, folder: Path, out: Path
) -> None:
    shard = archive.shard(0)
    remove_file(archive, folder)
    with pytest.raises(PastChangedError):
        mirror(archive, out)
    forge_shard(archive, shard)
    publish_zips(archive, segment_requests(folder, 21, 30, TABLES))
    assert len(mirror(archive, out).fetched) == 2
    assert contents(FolderStore(out)) == contents(archive.store)


def test_no_more_than_three_changes_are_named_and_the_others_counted(
    archive: Archive, out: Path
) -> None:
    forge_shard(archive, Shard(CHAIN, 0))
    with pytest.raises(PastChangedError, match=r"orders-1-10\.zip any more; and 1 more\. If th"):
        mirror(archive, out)


# --- a memory that is damaged


def damage(out: Path, *paths: str) -> None:
    for place in (place for path in paths for place in (out / CHAIN).glob(path)):
        place.chmod(0o644)
        place.write_bytes(place.read_bytes()[: place.stat().st_size // 2])


_SHARD, _HASHES = "index/000000000.*.json", "index/000000000.sha256"


def test_a_damaged_memory_of_a_past_that_is_the_same_is_mended(archive: Archive, out: Path) -> None:
    for paths in ([_SHARD], [_HASHES], ["SHA256SUMS"], ["index.json"], [_SHARD, _HASHES]):
        damage(out, *paths)
        mirror(archive, out)
        assert contents(FolderStore(out)) == contents(archive.store), paths


@pytest.mark.parametrize("damaged", [_SHARD, REVISIONS])
def test_what_nothing_proves_is_not_believed(
    archive: Archive, folder: Path, out: Path, damaged: str
) -> None:
    """Neither that the past is the same, nor that it changed: the archive only grew."""
    publish_zips(archive, segment_requests(folder, 21, 30, TABLES))
    other = part_request(folder, "orders", 1, 10, salt="other")
    publish_zips(archive, [other], correction=Correction("another typo", START))
    damage(out, damaged)
    before = contents(FolderStore(out))
    message = rf"remembers is damaged \(.*{damaged}.*\): .* another folder: "
    with pytest.raises(IntegrityError, match=message) as refused:
        mirror(archive, out)
    assert not isinstance(refused.value, PastChangedError)
    assert contents(FolderStore(out)) == before
    option, new = shlex.split(str(refused.value).rpartition("another folder: ")[2])
    assert (option, new) == ("--out", f"{out}-new")
    mirror(archive, Path(new))
    assert contents(FolderStore(Path(new))) == contents(archive.store)


def test_who_was_killed_amid_shards_still_remembers_the_newest_one(
    archive: Archive, folder: Path, out: Path
) -> None:
    """The list of hashes is that of the shard before, to which the archive goes back."""
    before, sums = archive.shard(0), (out / CHAIN / "SHA256SUMS").read_bytes()
    publish_zips(archive, segment_requests(folder, 21, 30, TABLES))
    mirror(archive, out)
    (out / CHAIN / "SHA256SUMS").unlink()
    (out / CHAIN / "SHA256SUMS").write_bytes(sums)
    forge_shard(archive, before)
    with pytest.raises(PastChangedError, match=r"names no .*-21-30\.zip any more"):
        mirror(archive, out)
