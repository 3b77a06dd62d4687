"""What one more segment asks of the stores and the records must not depend on how many are there.

Counted, not timed: `make bench-scale` measures the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from pipelines.commands.group import strata
from pipelines.settings import Settings
from pipelines.site.loading import load_segments
from pipelines.site.publishing import publish_segments
from pipelines.site.segment_status import site_status
from pipelines.site.site import Site
from tests.pipelines.kit import blocks, make_segment, site_settings
from transforms.stores.folder_store import FolderStore
from transforms.warehouse.log.log import Log
from transforms.warehouse.manifests import manifest
from transforms.warehouse.manifests.manifest_rows import parse_segments

FEW, MANY = 2, 5
_CALLS = ("head", "read", "list", "put_if_absent", "put_if_match", "fetch", "delete")


def _counting(calls: Counter[str], name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return method(*arguments, **named)

    return call


def _counting_below(
    folder: str, calls: Counter[str], name: str, method: Callable[..., Any]
) -> Callable[..., Any]:
    """Count the calls of stores and logs below a folder: a server of another test has its own."""
    counting = _counting(calls, name, method)

    def call(owner: FolderStore | Log, *arguments: Any, **named: Any) -> Any:
        store = owner._store if isinstance(owner, Log) else owner
        chosen = counting if store.describe().startswith(folder) else method
        return chosen(owner, *arguments, **named)

    return call


@contextmanager
def _counted(settings: Settings) -> Iterator[Counter[str]]:
    """Count the calls of a site's stores, the snapshots and the segments that are read."""
    calls: Counter[str] = Counter()
    folder = str(Path(settings.source).parent)

    def parsed(table: Any) -> Any:
        found = parse_segments(table)
        calls["segments"] += len(found)
        return found

    with ExitStack() as patched:
        for name in _CALLS:
            counting = _counting_below(folder, calls, name, getattr(FolderStore, name))
            patched.enter_context(patch.object(FolderStore, name, counting))
        snapshots = _counting_below(folder, calls, "snapshots", Log.read)
        patched.enter_context(patch.object(Log, "read", snapshots))
        patched.enter_context(patch(f"{manifest.__name__}.parse_segments", parsed))
        manifest.read_segments.cache_clear()
        yield calls


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Settings]:
    """Sites with few and with many segments, a volume each, all published; and one that is new."""
    found: dict[int, Settings] = {}
    for count in (FEW, MANY):
        settings = found[count] = site_settings(tmp_path_factory.mktemp(f"site-{count}"))
        for number in range(count):
            make_segment(settings, number)
            load_segments(Site(settings), blocks(number))
        publish_segments(Site(settings), blocks(*range(count)))
        catalog = Site(settings).loaded_catalog()
        assert len(catalog.snapshot.history) == count
        make_segment(settings, count)
    return found


def _load(site: Site, number: int) -> None:
    assert not load_segments(site, blocks(number)).failures


def _publish(site: Site, number: int) -> None:
    assert publish_segments(site, blocks(number)).report.created == 15


def test_one_more_segment_asks_as_much_of_few_as_of_many(sites: dict[int, Settings]) -> None:
    for step in (_load, _publish):
        counts = {}
        for count, settings in sites.items():
            with _counted(settings) as calls:
                step(Site(settings), count)
            counts[count] = dict(calls)
        assert counts[FEW] == counts[MANY], step.__name__
        # The neighbours of the new one, before it and after it, and itself.
        assert counts[MANY].get("segments", 0) <= 3


def test_a_status_makes_no_object_of_each_segment(sites: dict[int, Settings]) -> None:
    with _counted(sites[MANY]) as calls:
        status = site_status(Site(sites[MANY]))
        assert len(status.known) > MANY
        assert status.ids.chain.runs
    assert calls["segments"] == 0
    assert calls["snapshots"] <= 1


@pytest.mark.parametrize(("command", "most"), [("load", 1), ("run", 2)])
def test_a_command_lists_the_source_once_to_begin_with_and_once_to_tell_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, most: int
) -> None:
    settings = site_settings(tmp_path)
    for number in range(4):  # two batches
        make_segment(settings, number)
    for name in ("source", "warehouse", "archive", "batch"):
        monkeypatch.setenv(f"STRATA_{name.upper()}", str(getattr(settings, name)))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    listed = []
    method = FolderStore.list

    def listing(self: FolderStore, prefix: str = "") -> Any:
        listed.append(self.describe())
        return method(self, prefix)

    with patch.object(FolderStore, "list", listing):
        result = CliRunner().invoke(strata, [command])
    assert result.exit_code == 0, result.output
    assert listed.count(settings.source) == most


@pytest.mark.parametrize(("command", "heads"), [("status", 0), ("run", 2)])
def test_a_command_with_nothing_to_do_looks_at_the_log_and_at_the_index_once(
    sites: dict[int, Settings], monkeypatch: pytest.MonkeyPatch, command: str, heads: int
) -> None:
    """The log is asked for a newer snapshot, and `run` asks again before it sweeps the lake."""
    settings = replace(sites[FEW], lake=True)
    for name in ("source", "warehouse", "archive"):
        monkeypatch.setenv(f"STRATA_{name.upper()}", str(getattr(settings, name)))
    monkeypatch.setenv("DAGSTER_HOME", str(Path(settings.source).parent / "home"))
    assert CliRunner().invoke(strata, ["run"]).exit_code == 0
    asked: Counter[str] = Counter()

    def noting(name: str) -> Callable[..., Any]:
        method = getattr(FolderStore, name)

        def call(self: FolderStore, key: str = "", *arguments: Any, **named: Any) -> Any:
            asked[f"{name} {self.describe().rpartition('/')[2]}/{key}"] += 1
            return method(self, key, *arguments, **named)

        return call

    with ExitStack() as patched:
        for name in ("head", "read", "list"):
            patched.enter_context(patch.object(FolderStore, name, noting(name)))
        assert CliRunner().invoke(strata, [command]).exit_code == 0

    of_log = {key: count for key, count in asked.items() if "head warehouse/log/" in key}
    assert sum(of_log.values()) <= heads
    # Status looks for lost files, and for volumes that the log does not name.
    allowed = {*of_log, *(["list warehouse/manifests/"] if command == "status" else [])}
    assert {key for key, count in asked.items() if "warehouse" in key and count > 1} <= allowed


def test_a_file_that_went_away_since_it_was_listed_is_noticed(tmp_path: Path) -> None:
    settings = site_settings(tmp_path)
    first, second = (make_segment(settings, number) for number in (0, 1))
    site = Site(settings)
    assert not load_segments(site, blocks(0)).failures
    second.unlink()
    assert first.exists()
    assert load_segments(site, blocks(1)).failures == {
        blocks(1)[0]: "the source has no such segment"
    }


def test_a_file_that_came_since_the_last_listing_is_found(tmp_path: Path) -> None:
    settings = site_settings(tmp_path)
    make_segment(settings, 0)
    site = Site(settings)
    assert not load_segments(site, blocks(0)).failures
    make_segment(settings, 1)
    assert not load_segments(site, blocks(1)).failures


def test_a_file_that_changed_since_it_was_listed_is_read_as_it_is_now(tmp_path: Path) -> None:
    settings = site_settings(tmp_path)
    for number in (0, 1):
        make_segment(settings, number)
    site = Site(settings)
    assert not load_segments(site, blocks(0)).failures
    now = make_segment(settings, 1, previous_id="another")
    assert not load_segments(site, blocks(1)).failures
    loaded = site.loaded_catalog().segment_at(blocks(1)[0].first)
    assert loaded is not None
    assert loaded.previous_id == "another"
    assert loaded.info == site.source.reader.head(now.name)
