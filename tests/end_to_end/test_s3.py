"""From a bucket of segments to a bucket of exports, by the command line, over HTTP."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command_kit import run_strata
from tests.s3_kit import BucketServer, bucket_server
from tests.segments_kit import build_segment, expected_member, table_rows


@dataclass(frozen=True)
class Buckets:
    """A bucket of segments, a bucket of exports, and the commands between them."""

    server: BucketServer
    source: str
    archive: str
    home: Path

    def strata(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command with everything named by environment variables."""
        places = {
            "STRATA_SOURCE": f"s3://{self.source}/segments",
            "STRATA_ARCHIVE": f"s3://{self.archive}/exports",
            "STRATA_WAREHOUSE": str(self.home / "warehouse"),
            "AWS_ENDPOINT_URL": self.server.url,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        return run_strata(*arguments, environment={**os.environ, **places})

    def published(self) -> dict[str, bytes]:
        """Every object of the archive below its prefix."""
        listed = self.server.client.list_objects_v2(Bucket=self.archive)
        return {
            item["Key"].removeprefix("exports/"): self.read(item["Key"])
            for item in listed["Contents"]
        }

    def read(self, key: str) -> bytes:
        body: Any = self.server.client.get_object(Bucket=self.archive, Key=key)["Body"]
        return bytes(body.read())


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("segments")
    return [
        build_segment(
            folder,
            first=first,
            last=last,
            tables={"orders": table_rows("orders", {}, {"reference": 'a,"b"\r\n'}, first=first)},
        )
        for first, last in ((1, 40), (41, 100), (101, 103))
    ]


@pytest.fixture(scope="module")
def buckets(tmp_path_factory: pytest.TempPathFactory, segments: list[Path]) -> Iterator[Buckets]:
    with bucket_server() as server:
        made = Buckets(server, server.bucket(), server.bucket(), tmp_path_factory.mktemp("home"))
        for segment in segments:
            server.client.upload_file(str(segment), made.source, f"segments/{segment.name}")
        for command in ("load", "publish"):
            done = made.strata(command)
            assert done.returncode == 0, done.stderr
        yield made


def test_every_published_object_has_the_hash_that_the_index_and_its_neighbour_say(
    buckets: Buckets,
) -> None:
    objects = buckets.published()
    index = json.loads(objects["kit-chain/index.json"])
    assert index["complete_until"] == 103
    assert index["gaps"] == []
    entries = [
        entry
        for shard in index["shards"]
        for entry in json.loads(objects[f"kit-chain/{shard['path']}"])["zips"]
    ]
    assert len(entries) == 15 * 3
    for entry in entries:
        data = objects[f"kit-chain/{entry['path']}"]
        digest = hashlib.sha256(data).hexdigest()
        name = entry["path"].rpartition("/")[2]
        assert digest == entry["sha256"]
        assert objects[f"kit-chain/{entry['path']}.sha256"] == f"{digest}  {name}\n".encode()


def test_a_range_is_exported_from_the_bucket_to_the_byte(
    buckets: Buckets, segments: list[Path], tmp_path: Path
) -> None:
    done = buckets.strata("export", "orders", "1", "103", "--out", str(tmp_path))

    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "kit-chain-orders-1-103.zip") as archive:
        assert archive.read("kit-chain-orders-1-1-103.csv") == expected_member(segments, "orders")


def test_publishing_again_changes_no_object(buckets: Buckets) -> None:
    before = buckets.published()

    done = buckets.strata("publish")

    assert done.returncode == 0, done.stderr
    assert buckets.published() == before


def test_what_is_in_the_bucket_is_verified_and_damage_is_found(buckets: Buckets) -> None:
    assert buckets.strata("verify").returncode == 0
    key = "exports/kit-chain/orders/kit-chain-orders-41-100.zip"
    good = buckets.read(key)
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        middle = archive.infolist()[0].compress_size // 2 + 60
    bad = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    buckets.server.client.put_object(Bucket=buckets.archive, Key=key, Body=bad)
    try:
        done = buckets.strata("verify")
        assert done.returncode == 5
        assert "kit-chain-orders-41-100.zip" in done.stdout + done.stderr
    finally:
        buckets.server.client.put_object(Bucket=buckets.archive, Key=key, Body=good)


def test_a_bucket_that_is_not_there_is_named_in_one_sentence(buckets: Buckets) -> None:
    done = buckets.strata("publish", "--archive", "s3://no-such-bucket-here/x")

    assert done.returncode not in (0, 1)
    assert "no-such-bucket-here" in done.stderr
    assert "Traceback" not in done.stderr
