"""SeaweedFS as a process of its own: an S3 service that is not ours, nor made for tests.

`make weed` installs it into `.venv/weed`; without it the calling test fails with that advice.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from boto3.session import Session
from botocore.exceptions import BotoCoreError, ClientError

_PROGRAM = Path(__file__).parents[1] / ".venv" / "weed" / "bin" / "weed"
_KEY, _SECRET = "test", "test-secret"
_START_SECONDS = 90.0
_PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
)


@dataclass(frozen=True, slots=True)
class WeedServer:
    """A running server: its address. Credentials are in the environment."""

    url: str

    def bucket(self) -> str:
        """Make an empty bucket and return its name."""
        client = Session().client("s3", endpoint_url=self.url, region_name="us-east-1")
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        client.create_bucket(Bucket=name)
        client.close()
        return name


@contextmanager
def weed_server(folder: Path) -> Iterator[WeedServer]:
    """A running server that keeps everything below `folder`, and how to reach it in the environment
    of this process and its children. It is killed at the end.
    """
    if not _PROGRAM.exists():
        pytest.fail(f"{_PROGRAM} is not there: run `make weed`")
    ports = _free_ports()
    url = f"http://127.0.0.1:{ports['s3.port']}"
    process = _start(folder, ports)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", _KEY)
            patch.setenv("AWS_SECRET_ACCESS_KEY", _SECRET)
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            patch.setenv("AWS_ENDPOINT_URL", url)
            server = WeedServer(url)
            _wait(process, server, folder / "weed.log")
            yield server
    finally:
        process.kill()  # asked to end it takes half a minute, and leaves the same sockets
        process.wait()
        for name in ("master", "volume", "filer", "s3"):
            Path(f"/tmp/seaweedfs-{name}-grpc-{ports[f'{name}.port.grpc']}.sock").unlink(
                missing_ok=True
            )


def _free_ports() -> dict[str, int]:
    """Ports that nobody listens at, each found while the others are taken."""
    ports = {}
    with ExitStack() as taken:
        for name in _PORTS:
            door = taken.enter_context(socket.socket())
            door.bind(("127.0.0.1", 0))
            ports[name] = door.getsockname()[1]
    return ports


def _start(folder: Path, ports: dict[str, int]) -> subprocess.Popen[bytes]:
    data = folder / "weed"
    data.mkdir(parents=True)
    actions = ["Admin", "Read", "List", "Tagging", "Write"]
    credentials = [{"accessKey": _KEY, "secretKey": _SECRET}]
    identity = {"name": "test", "credentials": credentials, "actions": actions}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    with (folder / "weed.log").open("wb") as log:
        return subprocess.Popen(
            [
                _PROGRAM,
                "server",
                f"-dir={data}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                "-filer",
                "-s3",
                f"-s3.config={config}",
                "-master.volumeSizeLimitMB=64",
                "-volume.max=200",
                "-master.telemetry=false",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                "-filer.localSocket=filer.sock",
                "-s3.localSocket=s3.sock",
                *(f"-{name}={port}" for name, port in ports.items()),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )


def _wait(process: subprocess.Popen[bytes], server: WeedServer, log: Path) -> None:
    """Return when the first object can be written; fail with the log where that never is."""
    deadline = time.monotonic() + _START_SECONDS
    client = Session().client("s3", endpoint_url=server.url)
    while True:
        try:
            bucket = server.bucket()
            client.put_object(Bucket=bucket, Key="first", Body=b"1")
            break
        except (BotoCoreError, ClientError):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"SeaweedFS did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)
    client.close()
