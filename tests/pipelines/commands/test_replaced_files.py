"""A loaded file of the source that was replaced is found by its version (decision 46)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.pipelines.command_kit import Answer, call, places
from tests.pipelines.kit import make_segment, site_settings
from tests.weed_kit import WeedServer, s3_client, shared_server


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two segments, loaded."""
    settings = site_settings(tmp_path)
    for number in range(2):
        make_segment(settings, number)
    assert strata(settings, "load").returncode == 0
    return settings


def strata(settings: Settings, *arguments: str, **more: str) -> Answer:
    return call({**places(settings), "STRATA_LAKE": "0", **more}, *arguments)


def replaced(path: Path) -> bytes:
    """Replace a file by one of the same size, and with the same time; the bytes of before."""
    data, stats = path.read_bytes(), path.stat()
    other = path.with_name("other")
    other.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(other, ns=(stats.st_atime_ns, stats.st_mtime_ns))
    other.replace(path)
    return data


@pytest.mark.parametrize("command", [("load",), ("status", "--check")])
def test_another_file_of_the_same_size_is_reported(
    settings: Settings, command: tuple[str, ...]
) -> None:
    path = max(Path(settings.source).iterdir())
    data = replaced(path)
    for _ in range(2):
        answer = strata(settings, *command)
        assert answer.returncode == 1, answer.stdout + answer.stderr
        assert f"{path.name} changed after it was loaded" in " ".join(answer.stdout.split())
    path.write_bytes(data)
    answer = strata(settings, *command)
    assert "changed after" not in answer.stdout
    assert strata(settings, "load").returncode == 0


def test_bytes_change_in_place_is_reported(settings: Settings) -> None:
    path = min(Path(settings.source).iterdir())
    with path.open("r+b") as file:
        file.write(b"X")
    assert strata(settings, "load").returncode == 1
    assert strata(settings, "status", "--check").returncode == 1


def test_equal_files_of_another_version_are_hashed_once(settings: Settings) -> None:
    for path in Path(settings.source).iterdir():
        copy = path.with_name("copy")
        shutil.copyfile(path, copy)
        copy.replace(path)
    assert strata(settings, "load").returncode == 0
    record = Path(settings.warehouse) / "source.json"
    assert len(json.loads(record.read_bytes())) == 2
    written = record.stat().st_mtime_ns
    assert "Nothing new" in strata(settings, "load").stdout
    assert record.stat().st_mtime_ns == written


def test_a_source_that_moved_to_a_bucket_is_compared(settings: Settings) -> None:
    with shared_server() as server:
        source = _moved(settings, server)
        assert strata(settings, "load", STRATA_SOURCE=source).returncode == 0
        path = max(Path(settings.source).iterdir())
        replaced(path)
        source = _moved(settings, server)
        answer = strata(settings, "load", "--json", STRATA_SOURCE=source)
        assert answer.returncode == 1
        assert [row["file"] for row in answer.json["quarantined"]] == [path.name]


def _moved(settings: Settings, server: WeedServer) -> str:
    client, bucket = s3_client(server.url), server.bucket()
    for path in Path(settings.source).iterdir():
        client.upload_file(str(path), bucket, path.name)
    client.close()
    return f"s3://{bucket}"
