"""Making an archive complete: whatever is taken from it comes back, byte for byte."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exporters.archive.shards import Shard
from exporters.publishing.comparing import compare
from exporters.publishing.publication import Outcome
from pipelines.commands.group import strata
from pipelines.settings import Settings
from pipelines.site.completing import Completion, complete_archive
from pipelines.site.publication_state import lacking_segments
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from tests.archive_kit import contents, forge_shard, resealed, shard_file, without_records
from tests.pipelines.kit import blocks, load, make_segment, site_settings
from tests.segments_kit import KIT_CHAIN, table_rows

ALL = blocks(0, 1, 2)
ORDERS = f"{KIT_CHAIN}/orders/{KIT_CHAIN}-orders-11-20.zip"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Three published segments."""
    settings = site_settings(tmp_path_factory.mktemp("published"))
    for number in range(len(ALL)):
        rows = table_rows("orders", {}, {}, {}, first=number * 10 + 1)
        make_segment(settings, number, tables={"orders": rows})
    site = Site(settings)
    load(site)
    publish_segments(site, ALL)
    return site.settings


@pytest.fixture
def site(published: Settings, tmp_path: Path) -> Site:
    """The same with an archive of its own."""
    archive = shutil.copytree(published.archive, tmp_path / "archive")
    return Site(replace(published, archive=str(archive)))


def test_a_lake_that_is_not_there_lacks_every_loaded_segment(published: Settings) -> None:
    assert lacking_segments(Site(published)) == [*ALL]


def complete(site: Site, *, whole: bool = True) -> Completion:
    archive = site.archive(KIT_CHAIN)
    if whole:  # as `strata publish` asks
        return complete_archive(site, archive)
    return complete_archive(site, archive, contents=False)


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def put(site: Site, key: str, data: bytes) -> None:
    held = site.store.head(key)
    site.store.put_if_match(key, data, held.version if held else None, "")


@pytest.mark.parametrize("whole", [True, False])
def test_of_a_whole_archive_nothing_is_made_again(site: Site, whole: bool) -> None:
    before = contents(site.store)
    found = complete(site, whole=whole)
    assert found == Completion(looked_at=45)  # nothing is unpublished
    assert found.is_nothing
    assert contents(site.store) == before


def test_every_object_that_is_taken_away_comes_back(site: Site) -> None:
    before = contents(site.store)
    assert len(before) == 2 * 45 + 12
    others = [key for key in before if "/index" in key or key.count("/") < 2]
    for key in (*others, ORDERS, f"{ORDERS}.sha256"):
        site.store.delete(key)
        found = complete(site, whole=False)
        assert not found.is_nothing, key
        assert found.failed == (), key
        assert contents(site.store) == before, key


def test_everything_but_the_zips_may_be_lost_at_once(site: Site) -> None:
    before = contents(site.store)
    for key in before:
        if not key.endswith(".zip"):
            site.store.delete(key)
    assert complete(site) == Completion(unpublished=ALL)
    assert run(site, "publish")[0] == 0
    assert contents(site.store) == before


def test_a_zip_and_its_shard_may_be_gone_together(site: Site) -> None:
    before = contents(site.store)
    for key in (ORDERS, shard_key(site)):
        site.store.delete(key)
    found = complete(site)
    assert (found.unpublished, found.failed) == ((), ())
    assert contents(site.store) == before


def test_all_of_a_table_and_its_names_may_be_lost(site: Site) -> None:
    before = contents(site.store)
    for key in before:
        if "/orders/" in key:
            site.store.delete(key)
    assert complete(site).made >= 3
    assert contents(site.store) == before


def shard_key(site: Site) -> str:
    return f"{KIT_CHAIN}/{shard_file(site.archive(KIT_CHAIN))}"


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def empty(_: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damages", [(flip,), (cut, empty)], ids=["flipped", "cut or empty"])
def test_every_document_that_is_damaged_is_made_again(
    site: Site, damages: tuple[Callable[[bytes], bytes], ...]
) -> None:
    """Each has a bit that flipped, and every other one lacks half or all of its bytes."""
    before = contents(site.store)
    documents = [key for key in before if not key.endswith((".zip", ".zip.sha256"))]
    for key, damage in zip(documents, cycle(damages), strict=False):
        put(site, key, damage(before[key]))
        assert not complete(site).is_nothing, key
        assert contents(site.store) == before, key


@pytest.mark.parametrize("damage", [flip, empty])
@pytest.mark.parametrize("name", ["index.json", "latest.json", "SHA256SUMS"])
def test_a_quick_look_notices_documents_that_differ_from_their_list(
    site: Site, name: str, damage: Callable[[bytes], bytes]
) -> None:
    before = contents(site.store)
    key = f"{KIT_CHAIN}/{name}"
    put(site, key, damage(before[key]))
    assert not complete(site, whole=False).is_nothing
    assert contents(site.store) == before


def test_a_shard_that_names_itself_another_chain_is_made_again(site: Site) -> None:
    """What a bit that flips in transit once left behind, and nothing mended."""
    before = contents(site.store)
    key = shard_key(site)
    stray = before[key].replace(KIT_CHAIN.encode(), KIT_CHAIN.replace("kit", "kiu").encode())
    put(site, key, resealed(stray))
    assert complete(site).made
    assert contents(site.store) == before


def test_a_zip_that_nobody_can_make_again_is_named_and_the_rest_comes_back(
    site: Site, tmp_path: Path
) -> None:
    poor = replace(site.settings, source=str(tmp_path / "few"), warehouse=str(tmp_path / "poor"))
    Path(poor.source).mkdir()
    rows = table_rows("orders", {}, {}, {}, first=1)
    make_segment(poor, 0, tables={"orders": rows})
    load(Site(poor))
    for key in (ORDERS, f"{KIT_CHAIN}/trades/{KIT_CHAIN}-trades-1-10.zip"):
        site.store.delete(key)
    found = complete(Site(poor))
    assert found.made
    assert [one.name for one in found.failed] == [ORDERS.rpartition("/")[2]]
    assert "the warehouse does not hold its segment: load it" in found.failed[0].reason


def test_zips_whose_segments_are_not_loaded_wait_until_they_are(site: Site, tmp_path: Path) -> None:
    before = contents(site.store)
    poor = replace(site.settings, source=str(tmp_path / "few"), warehouse=str(tmp_path / "poor"))
    shutil.copytree(site.settings.source, poor.source, ignore=shutil.ignore_patterns("*-[12]1-*"))
    load(Site(poor))
    site.store.delete(shard_key(site))
    failed = complete(Site(poor)).failed
    assert ["load them, then run strata publish" in one.reason for one in failed] == [True]
    assert complete(site).failed == ()
    assert without_records(contents(site.store)) == without_records(before)


def test_a_zip_of_another_size_is_named_with_what_to_do(site: Site) -> None:
    path = Path(site.settings.archive, ORDERS)
    path.write_bytes(path.read_bytes() + b"x")
    (failed,) = complete(site).failed
    assert failed.outcome is Outcome.CONFLICT
    assert "--replace REASON --table orders --blocks 11-20" in failed.reason
    code, output = run(site, "publish")
    assert code == 4
    assert failed.reason in output
    asked = ("--replace", "lost", "--table", "orders", "--blocks", "11-20")
    assert run(site, "publish", *asked)[0] == 0
    assert complete(site).is_nothing


def test_another_text_in_the_warehouse_does_not_take_the_place_of_what_was_published(
    site: Site,
) -> None:
    archive = site.archive(KIT_CHAIN)
    data = site.store.read(shard_key(site))
    (entry,) = [e for e in archive.shard(0).entries if e.path in ORDERS]
    other = resealed(data.replace(entry.csv.sha256.encode(), b"0" * 64))
    forge_shard(archive, Shard.parse(other, "here"))
    site.store.delete(ORDERS)
    (failed,) = complete(site).failed
    assert "the warehouse has other text for it" in failed.reason
    assert site.store.head(ORDERS) is None


def run(site: Site, *arguments: str) -> tuple[int, str]:
    """Run a command; returns its exit code and what it printed."""
    places = {
        "STRATA_WAREHOUSE": site.settings.warehouse,
        "STRATA_ARCHIVE": site.settings.archive,
        "STRATA_SOURCE": site.settings.source,
        "STRATA_LAKE": "0",
    }
    done = CliRunner().invoke(strata, list(arguments), env=places, standalone_mode=False)
    assert done.exception is None, done.exception
    return done.return_value, done.stdout


def test_looking_at_an_archive_that_nobody_has_made_finds_nothing(site: Site) -> None:
    nowhere = Site(replace(site.settings, archive=f"{site.settings.archive}-none"))
    assert compare(nowhere.archive(KIT_CHAIN), lambda *_: None).shards == []
    assert complete(nowhere) == Completion(unpublished=ALL)


def test_publish_says_what_it_looked_at_and_what_was_missing(site: Site) -> None:
    assert run_json(site)["completed"] == {
        "looked_at": 45,
        "made": 0,
        "failed": [],
        "unpublished": [],
    }
    site.store.delete(ORDERS)
    site.store.delete(shard_key(site))
    first = run_json(site)
    assert first["completed"]["made"]
    assert run_json(site)["completed"]["made"] == 0


def run_json(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(site, "publish", "--json")[1])
    return found


@pytest.mark.parametrize("is_shard", [False, True])
@pytest.mark.parametrize("damage", [flip, None])
def test_neither_status_nor_run_needs_what_is_damaged_or_gone(
    site: Site, is_shard: bool, damage: Callable[[bytes], bytes] | None
) -> None:
    before = contents(site.store)
    key = shard_key(site) if is_shard else f"{KIT_CHAIN}/index.json"
    if damage is None:
        site.store.delete(key)
    else:
        put(site, key, damage(before[key]))
    told = json.loads(run(site, "status", "--json")[1])
    if not is_shard:
        assert told["segments"]["published"] == ["1-10", "11-20", "21-30"]
    assert run(site, "run")[0] == 0
    assert contents(site.store) == before
