"""Collecting into the source of a site: alone, killed, and as figures for monitors."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.settings import Settings
from pipelines.site.collecting import Collector, collection_sentence
from pipelines.site.site import Site
from tests.data_node_kit import DataNode, data_node, node_history
from tests.pipelines.site.collect_process import collect
from tests.segments_kit import all_shared_segments
from transforms.errors import ConfigError

_FEWEST_KILLS = 15


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    node_history(folder)
    return folder


@pytest.fixture
def node(history: Path) -> Iterator[DataNode]:
    with data_node(history) as node:
        yield node


@pytest.fixture
def at_node(settings: Settings, node: DataNode) -> Settings:
    return replace(settings, node=node.url, node_socket=node.socket, retention_blocks=100)


def _contents(folder: Path) -> dict[str, bytes]:
    """What is seen in a folder: all files but hidden ones."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] != "."}


def test_killed_at_any_moment_a_source_has_whole_files_and_the_next_time_all_of_them(
    history: Path, tmp_path: Path, kills: int
) -> None:
    _survives(history, tmp_path / "sources", max(kills, _FEWEST_KILLS))


def test_killed_at_any_moment_a_source_has_whole_segments_of_the_network(
    tmp_path: Path, kills: int
) -> None:
    (upgrade,) = (path for path in all_shared_segments() if path.name == "upgrade")
    _survives(upgrade, tmp_path / "sources", max(kills, _FEWEST_KILLS))


def _survives(history: Path, sources: Path, count: int) -> None:
    complete = {path.name: path.read_bytes() for path in history.glob("*.zip")}
    arrived = []
    with data_node(history) as node:
        arguments = (node.url, str(node.socket), str(sources), str(count))
        process = subprocess.run(
            [sys.executable, "-m", "tests.pipelines.site.collect_process", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        assert int(process.stdout) > 200
        for number in range(count):
            source = sources / str(number)
            seen = _contents(source) if source.exists() else {}
            assert seen.items() <= complete.items()
            arrived.append(len(seen))
            collect(Settings(source=str(source), node=node.url, node_socket=node.socket))
            assert _contents(source) == complete
            left = source / ".strata-scratch" / "collect"
            assert [path.name for path in left.iterdir()] == ["lock"]
    # Kills struck between the first and the last file.
    assert set(range(1, 6)) <= set(arrived)


def test_one_collector_of_a_source_is_at_work_at_a_time(at_node: Settings) -> None:
    collector = Collector(Site(at_node))
    with (
        collector.alone() as folder,
        (folder.parent / "lock").open() as lock,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not folder.exists()


def test_what_is_left_is_counted_in_segments_and_blocks(at_node: Settings) -> None:
    site = Site(at_node)
    assert collection_sentence(site).startswith("6 segments to collect; ")
    assert " after 50 more blocks" in collection_sentence(site)

    collect(at_node)

    assert not collection_sentence(site)


def test_without_a_node_nothing_is_said_and_there_is_nothing_to_collect_from(
    settings: Settings,
) -> None:
    assert not collection_sentence(Site(settings))
    with pytest.raises(ConfigError, match="STRATA_NODE"), Collector(Site(settings)).alone():
        pass
    assert not list(Path(settings.source).iterdir())


def test_a_node_that_does_not_answer_is_told(at_node: Settings, node: DataNode) -> None:
    node.list_answer = (500, b"")

    assert "500" in collection_sentence(Site(at_node))


def test_a_bucket_is_collected_into_by_way_of_the_cache(settings: Settings, tmp_path: Path) -> None:
    bucket = replace(settings, source="s3://bucket/segments", cache=tmp_path / "cache")

    assert Collector(Site(bucket)).folder == tmp_path / "cache" / "collect"
