"""`strata collect` beside a data node that speaks the network's protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.data_node_kit import DataNode, data_node, node_history
from tests.pipelines.command_kit import Answer, call, places
from tests.pipelines.kit import make_segment
from tests.s3_kit import BucketServer, bucket_server
from tests.segments_kit import all_shared_segments

Strata = Callable[..., Answer]


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
def strata(settings: Settings, node: DataNode) -> Strata:
    environment = {
        **places(settings),
        "STRATA_NODE": node.url,
        "STRATA_NODE_SOCKET": str(node.socket),
    }
    return lambda *arguments: call(environment, *arguments)


def _contents(folder: str | Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).glob("*.zip")}


def test_six_of_six_real_segments_get_their_names_and_load(settings: Settings) -> None:
    """Over an upgrade, of the network's own nodes."""
    (upgrade,) = (path for path in all_shared_segments() if path.name == "upgrade")
    with data_node(upgrade) as node:
        at_node = {"STRATA_NODE": node.url, "STRATA_NODE_SOCKET": str(node.socket)}
        answer = call({**places(settings), **at_node}, "collect", "--json")

    assert answer.returncode == 0, answer.stderr
    assert [row["file"] for row in answer.json["collected"]] == [
        *("testnet-001-1-1-1000.zip", "testnet-001-1-1001-2000.zip", "testnet-001-1-2001-2500.zip"),
        "testnet-001-21-2501-3000.zip",
        *("testnet-001-21-3001-4000.zip", "testnet-001-21-4001-5000.zip"),
    ]
    assert _contents(settings.source) == _contents(upgrade)


def test_what_is_collected_is_loaded_and_a_second_time_there_is_nothing_new(
    strata: Strata, settings: Settings, history: Path, node: DataNode
) -> None:
    first, loaded, second = strata("collect"), strata("load", "--json"), strata("collect")

    assert (first.returncode, first.stderr) == (0, "")
    assert "6 of 6 segments collected: " in first.stdout
    assert node.id_of(0) in first.stdout
    assert len(loaded.json["loaded"]) == 6
    assert not loaded.json["quarantined"]
    assert (second.returncode, second.stderr) == (0, "")
    assert second.stdout.splitlines() == [
        f"Nothing new to collect: {settings.source} has all 6 segments."
    ]
    assert len(node.copies) == 6


def test_a_folder_that_is_not_there_is_made(strata: Strata, tmp_path: Path, history: Path) -> None:
    source = tmp_path / "new" / "segments"
    assert strata("collect", "--source", source.as_posix()).returncode == 0

    assert _contents(source) == _contents(history)


def test_a_node_that_lies_is_named_and_the_exit_code_is_1(strata: Strata, node: DataNode) -> None:
    node.instead[node.id_of(0)] = b"something else"

    answer = strata("collect")

    assert answer.returncode == 1
    assert "the node lies, or its disk is damaged" in answer.stdout
    assert "5 of 6 segments collected" in answer.stdout
    assert strata("collect", "--json").json["refused"][0]["file"].endswith("-1-10.zip")


def test_a_socket_that_goes_away_ends_it_with_7_and_what_was_collected_is_told(
    strata: Strata, settings: Settings, history: Path, node: DataNode
) -> None:
    node.before_copy = lambda number: number < 3

    answer = strata("collect", "--json")

    assert answer.returncode == 7
    assert "no answer from the data node's admin socket" in answer.stderr
    assert len(answer.json["collected"]) == 2
    arrived = _contents(settings.source)
    assert len(arrived) == 2
    assert arrived.items() <= _contents(history).items()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--node", "127.0.0.1:3008"), 2, "STRATA_NODE is '127.0.0.1:3008': give the address"),
        (("--socket", "/nowhere/node.sock"), 7, "/nowhere/node.sock"),
        (("--source", "https://example.org/"), 2, "is no store"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    strata: Strata, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    answer = strata("collect", *arguments)

    assert answer.returncode == code
    assert sentence in answer.stderr


def test_a_source_of_another_chain_is_left_alone(
    strata: Strata, settings: Settings, node: DataNode
) -> None:
    make_segment(settings, 0, chain_id="other")

    answer = strata("collect")

    assert answer.returncode == 2
    assert "the source has segments of other" in answer.stderr
    assert not node.copies


def test_status_says_how_many_blocks_are_left(strata: Strata, node: DataNode) -> None:
    before = strata("status")
    strata("collect")
    after = strata("status")
    node.list_answer = (HTTPStatus.SERVICE_UNAVAILABLE, b"")
    without = strata("status")

    assert (
        "6 segments to collect; the data node drops the oldest after 604,750 more" in before.stdout
    )
    assert "to collect" not in after.stdout
    assert "what is left to collect cannot be said: no list of segments from" in without.stdout
    assert without.returncode == 0


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


def test_a_bucket_gets_the_same_files(
    server: BucketServer, node: DataNode, history: Path, tmp_path: Path
) -> None:
    bucket = server.bucket()
    environment = {
        "STRATA_SOURCE": f"s3://{bucket}/segments",
        "STRATA_CACHE": str(tmp_path / "cache"),
        "STRATA_NODE": node.url,
        "STRATA_NODE_SOCKET": str(node.socket),
        "AWS_ENDPOINT_URL": server.url,
    }

    first, second = (call(environment, "collect", "--json") for _ in range(2))

    assert first.returncode == second.returncode == 0, first.stderr
    assert len(first.json["collected"]) == 6
    assert not second.json["collected"]
    listed = server.client.list_objects_v2(Bucket=bucket, Prefix="segments/kit-chain")["Contents"]
    stored = {
        entry["Key"].rpartition("/")[2]: server.client.get_object(Bucket=bucket, Key=entry["Key"])[
            "Body"
        ].read()
        for entry in listed
    }
    assert stored == _contents(history)
    assert [path.name for path in (tmp_path / "cache" / "collect").iterdir()] == ["lock"]
