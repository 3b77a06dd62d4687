"""Objects that a source lists and does not give stop nothing else (decision 43)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.fault_proxy import PASS, WITHOUT_ETAGS, Request
from tests.pipelines.command_kit import Answer, call, places
from tests.pipelines.kit import blocks, make_segment, site_settings
from tests.s3_kit import BucketServer, bucket_server
from tests.segments_kit import KIT_CHAIN
from transforms.stores.s3 import S3Store


def segment(number: int) -> str:
    """The name of a segment's file."""
    return f"{KIT_CHAIN}-1-{blocks(number)[0]}.zip"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Segments 0 to 3, of which a test spoils some."""
    settings = site_settings(tmp_path)
    for number in range(4):
        make_segment(settings, number)
    return settings


@pytest.fixture
def strata(settings: Settings, tmp_path: Path) -> Callable[..., Answer]:
    """Run a command on the site."""
    home = {"DAGSTER_HOME": str(tmp_path / "home"), "STRATA_LAKE": "0", "STRATA_BATCH": "3"}
    return lambda *arguments, **more: call({**places(settings), **home, **more}, *arguments)


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as running:
        yield running


def bucket_source(server: BucketServer, settings: Settings) -> dict[str, str]:
    """The segments as objects of a bucket behind the proxy, as environment of a command."""
    server.door.on_request = lambda _: PASS
    with server.store("segments") as store:
        for path in Path(settings.source).iterdir():
            server.client.upload_file(str(path), *_place(store, path.name))
        place = store.describe().rstrip("/")
    return {"STRATA_SOURCE": place, "AWS_ENDPOINT_URL": server.url}


def _place(store: S3Store, key: str) -> tuple[str, str]:
    bucket, _, whole = store.describe(key).removeprefix("s3://").partition("/")
    return bucket, whole


def refusing(keys: set[str], action: str) -> Callable[[Request], str]:
    """Answer requests for some objects with an error of the service."""
    return lambda request: action if request.path.rpartition("/")[2] in keys else PASS


def unreadable(answer: Answer) -> dict[str, str]:
    return {row["file"]: row["reason"] for row in answer.json["unreadable"]}


@pytest.mark.parametrize(
    ("refusal", "reason", "numbers"),
    [
        ("403 InvalidObjectState", "InvalidObjectState", {0}),
        ("403 AccessDenied", "AccessDenied", {1, 2}),
        ("400 KMS.DisabledException", "KMS.DisabledException", {0, 3}),
        ("404 NoSuchKey", "There is no such object", {2}),
        ("500 InternalError", "InternalError", {1}),
    ],
)
def test_a_load_from_a_bucket_leaves_out_refused_objects_alone(
    server: BucketServer,
    settings: Settings,
    strata: Callable[..., Answer],
    refusal: str,
    reason: str,
    numbers: set[int],
) -> None:
    source, keys = bucket_source(server, settings), {segment(number) for number in numbers}
    server.door.on_request = refusing(keys, refusal)

    answer = strata("load", "--json", **source)

    assert answer.returncode == 7, answer.stderr
    reasons = unreadable(answer)
    assert reasons.keys() == keys
    assert all(reason in text for text in reasons.values())
    loaded = {row["segment"] for row in answer.json["loaded"]}
    assert loaded == {str(blocks(number)[0]) for number in {*range(4)} - numbers}
    server.door.on_request = lambda _: PASS
    answer = strata("load", "--json", **source)
    assert (answer.returncode, len(answer.json["loaded"])) == (0, len(numbers))


def test_a_load_takes_objects_whose_listing_has_no_etags(
    server: BucketServer, settings: Settings, strata: Callable[..., Answer]
) -> None:
    source = bucket_source(server, settings)
    server.door.on_request = lambda request: WITHOUT_ETAGS if "list-type" in request.query else PASS

    answer = strata("load", "--json", **source)

    assert (answer.returncode, len(answer.json["loaded"])) == (0, 4), answer.stderr
    server.door.on_request = lambda _: PASS
    (problem,) = strata("status", "--json", **source).json["problems"]
    assert "4 to publish" in problem, "files are said to have changed"


@pytest.mark.parametrize("command", ["load", "status", "run"])
def test_a_service_without_etags_is_named(
    server: BucketServer, settings: Settings, strata: Callable[..., Answer], command: str
) -> None:
    source = bucket_source(server, settings)
    server.door.on_request = lambda _: WITHOUT_ETAGS

    answer = strata(command, **source)

    assert (answer.returncode, answer.stdout) == (7, "")
    assert f"{server.url} answered for {source['STRATA_SOURCE']}" in answer.stderr
    assert "without ETag" in answer.stderr


def test_a_service_that_gives_nothing_ends_the_load(
    server: BucketServer, settings: Settings, strata: Callable[..., Answer]
) -> None:
    source = bucket_source(server, settings)
    server.door.on_request = lambda _: "403 InvalidAccessKeyId"
    answer = strata("load", **source)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "check the credentials" in answer.stderr


def spoil(settings: Settings, number: int) -> Path:
    """Put a named pipe in place of a segment."""
    path = Path(settings.source) / segment(number)
    path.unlink()
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("number", [0, 1])
def test_a_named_pipe_in_a_folder_is_named_and_others_load(
    settings: Settings, strata: Callable[..., Answer], number: int
) -> None:
    path = spoil(settings, number)
    answer = strata("load")
    assert answer.returncode == 7, answer.stderr
    assert "3 segments loaded" in answer.stdout
    assert f"{path} is a named pipe" in " ".join(answer.stdout.split())
    path.unlink()
    make_segment(settings, number)
    assert strata("load").returncode == 0


def test_a_run_publishes_all_segments_but_the_unreadable_one(
    settings: Settings, strata: Callable[..., Answer]
) -> None:
    """It lies in the middle of a batch of three."""
    path = spoil(settings, 1)
    answer = strata("run")
    assert answer.returncode == 7, answer.stderr
    assert "is a named pipe" in answer.stderr
    published = {zip_.name for zip_ in Path(settings.archive, KIT_CHAIN, "blocks").glob("*.zip")}
    names = (f"{KIT_CHAIN}-blocks-{blocks(number)[0]}.zip" for number in (0, 2, 3))
    assert published == {*names}
    path.unlink()
    make_segment(settings, 1)
    assert strata("run").returncode == 0
    assert strata("status", "--check").returncode == 0


def test_an_unreadable_capture_is_named_and_tried_again(
    settings: Settings, strata: Callable[..., Answer]
) -> None:
    path = Path(settings.source) / "spam" / f"{KIT_CHAIN}-7.ndjson"
    path.parent.mkdir()
    os.mkfifo(path)
    answer = strata("load", "--json")
    assert (answer.returncode, len(answer.json["loaded"])) == (1, 4)
    ((file, line, reason),) = (row.values() for row in answer.json["refused_captures"])
    assert (file, line) == (f"spam/{KIT_CHAIN}-7.ndjson", 0)
    assert "is a named pipe" in reason
    path.unlink()
    path.write_bytes(b"")
    assert strata("load").returncode == 0


@pytest.mark.parametrize("command", ["load", "run"])
def test_a_bad_index_is_named_and_every_segment_loads(
    settings: Settings, strata: Callable[..., Answer], command: str
) -> None:
    index = Path(settings.source) / "index.json"
    index.write_text("{")
    answer = strata(command)
    assert answer.returncode == 1, answer.stderr
    assert "index.json is not a JSON list of segments" in " ".join(answer.stdout.split())
    assert strata("status", "--check").returncode == 1
    assert "4" in strata("sql", "select count(distinct _segment) from exact.blocks").stdout
    index.write_text("[]")
    assert strata(command).returncode == 0
    assert strata("status", "--check").returncode == (1 if command == "load" else 0)


def test_an_index_that_a_bucket_refuses_stops_no_load(
    server: BucketServer, settings: Settings, strata: Callable[..., Answer]
) -> None:
    (Path(settings.source) / "index.json").write_text("[]")
    source = bucket_source(server, settings)
    server.door.on_request = refusing({"index.json"}, "403 AccessDenied")
    answer = strata("load", "--json", **source)
    assert (answer.returncode, len(answer.json["loaded"])) == (1, 4)
    assert [row["file"] for row in answer.json["quarantined"]] == ["index.json"]
