"""The list of revisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from exporters.archive.revisions import Revision, record, revisions
from tests.archive_kit import CHAIN
from transforms.errors import ConfigError, IntegrityError
from transforms.stores.folder_store import FolderStore

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(FolderStore(tmp_path), CHAIN)


def event(old: str, new: str, path: str = "orders/x.zip", hours: int = 0) -> Revision:
    return Revision(path, old * 32, new * 32, "a typo", NOON + timedelta(hours=hours))


def test_what_is_recorded_reads_back_in_its_order(archive: Archive) -> None:
    events = [event("aa", "bb"), event("aa", "bb", "trades/y.zip"), event("bb", "cc", hours=1)]
    for one in events:
        record(archive, one)
    assert list(revisions(archive)) == events


def test_an_archive_without_replacements_has_no_revisions(archive: Archive) -> None:
    assert revisions(archive) == ()
    assert archive.read("revisions.json") is None


def test_the_same_replacement_again_is_written_once(archive: Archive) -> None:
    record(archive, event("aa", "bb"))
    before = archive.read("revisions.json")
    record(archive, event("aa", "bb", hours=5))
    assert archive.read("revisions.json") == before


def test_a_replacement_that_never_came_to_pass_stays_on_record(archive: Archive) -> None:
    events = [event("aa", "bb"), event("aa", "cc", hours=1)]  # the file still had its old bytes
    for one in events:
        record(archive, one)
    assert list(revisions(archive)) == events


def test_back_and_forth_is_all_on_record(archive: Archive) -> None:
    events = [event("aa", "bb"), event("bb", "aa", hours=1), event("aa", "bb", hours=2)]
    for one in events:
        record(archive, one)
    assert list(revisions(archive)) == events


def test_times_are_written_in_utc(archive: Archive) -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    record(archive, replace(event("aa", "bb"), at=elsewhere))
    assert b'"at":"2026-01-31T12:00:00Z"' in (archive.read("revisions.json") or b"")


@pytest.mark.parametrize(
    ("change", "words"),
    [({"reason": "  "}, "a reason is needed"), ({"at": NOON.replace(tzinfo=None)}, "time zone")],
)
def test_a_replacement_says_why_and_when(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(event("aa", "bb"), **change)  # type: ignore[arg-type]


def test_a_damaged_list_of_revisions_stops_a_replacement(archive: Archive) -> None:
    archive.store.put_if_match(f"{CHAIN}/revisions.json", b"{", None, "")
    with pytest.raises(IntegrityError, match=r"revisions\.json is no whole document"):
        record(archive, event("aa", "bb"))


def test_a_list_of_revisions_of_another_chain_is_none(archive: Archive) -> None:
    record(replace(archive, chain_id="net-2"), event("aa", "bb"))
    stray = archive.store.read("net-2/revisions.json")
    archive.store.put_if_match(f"{CHAIN}/revisions.json", stray, None, "")
    with pytest.raises(IntegrityError, match="it is that of chain net-2"):
        revisions(archive)
