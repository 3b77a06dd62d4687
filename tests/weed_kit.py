"""SeaweedFS as a process of its own: an S3 service that is not ours, nor made for tests.

`make weed` installs it into `.venv/weed`; without it the calling test fails with that advice. It
takes some seconds to start. So all processes of a test session share one, which goes when the last
of them ends, however it ends: each holds a lock, and who started the server waits for that.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pytest
from boto3.session import Session
from botocore.exceptions import BotoCoreError, ClientError

from tests.ports import free_ports

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SESSION = "STRATA_TEST_SERVERS"
"""The variable with the folder that all processes of a test session share."""

_PROGRAM = Path(__file__).parents[1] / ".venv" / "weed" / "bin" / "weed"
KEY, SECRET = "test", "test-secret"
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
# A bucket is a collection of its own, and has seven volumes from its first object on by default.
_MASTER = "[master.volume_growth]\ncopy_1 = 1\n"
_held: list[BinaryIO] = []


@cache
def _session() -> Session:
    return Session()


def s3_client(url: str) -> S3Client:
    """A client of a server; all are of one session, as each session reads what S3 is anew."""
    return _session().client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )


@dataclass(frozen=True, slots=True)
class WeedServer:
    """A running server: its address. Credentials are in the environment."""

    url: str

    def bucket(self) -> str:
        """Make an empty bucket and return its name."""
        client = s3_client(self.url)
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        client.create_bucket(Bucket=name)
        client.close()
        return name


@contextmanager
def credentials(url: str) -> Iterator[None]:
    """How to reach a server, in the environment of this process and its children."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", url)
        yield


def check_program() -> None:
    """Fail the test where the server is not installed."""
    if not _PROGRAM.exists():
        pytest.fail(f"{_PROGRAM} is not there: run `make weed`")


@contextmanager
def weed_server(folder: Path) -> Iterator[WeedServer]:
    """A running server that keeps everything below `folder`, and how to reach it in the environment
    of this process and its children. It is killed at the end.
    """
    check_program()
    with _running(folder) as url, credentials(url):
        server = WeedServer(url)
        _wait(server, folder)
        yield server


class OwnServer:
    """A server that can be stopped and started again at the same address, within `credentials`."""

    def __init__(self, folder: Path) -> None:
        check_program()
        self._folder = folder
        self._ports = _free_ports()
        self.server = WeedServer(f"http://127.0.0.1:{self._ports['s3.port']}")

    def start(self) -> None:
        """Start it; returns when it answers."""
        self._process = _start(self._folder, self._ports)
        _wait(self.server, self._folder)

    def stop(self) -> None:
        """End it at once."""
        _end(self._process, self._ports)


def start_shared() -> None:
    """Start the server of this test session unless somebody has; it need not answer yet."""
    folder = Path(os.environ[SESSION])
    if not _PROGRAM.exists():
        return
    with (folder / "starting").open("wb") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if not _held:
            held = (folder / "users").open("wb")
            fcntl.flock(held, fcntl.LOCK_SH)
            _held.append(held)  # until this process ends
        if not (folder / "url").exists():
            subprocess.run(
                [sys.executable, "-m", "tests.weed_kit", folder],
                cwd=Path(__file__).parents[1],
                stdin=subprocess.DEVNULL,
                check=True,
            )


@contextmanager
def shared_server() -> Iterator[WeedServer]:
    """The running server of this test session, and how to reach it in the environment."""
    check_program()
    start_shared()
    folder = Path(os.environ[SESSION])
    url = (folder / "url").read_text()
    with credentials(url):
        server = WeedServer(url)
        _wait(server, folder)
        yield server


def _serve(folder: Path) -> None:
    """Run a server until nobody holds the lock of its users, as a process of its own.

    Returns when it has an address.
    """
    heard, said = os.pipe()
    if os.fork():
        os.close(said)
        os.read(heard, 1)
        return
    os.setsid()
    with (folder / "supervisor.log").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    with (folder / "users").open("wb") as users, _running(folder) as url:
        (folder / "url").write_text(url)
        os.close(heard)
        os.close(said)
        fcntl.flock(users, fcntl.LOCK_EX)
    shutil.rmtree(folder)


@contextmanager
def _running(folder: Path) -> Iterator[str]:
    """A process that was just started, by its address."""
    ports = _free_ports()
    process = _start(folder, ports)
    try:
        yield f"http://127.0.0.1:{ports['s3.port']}"
    finally:
        _end(process, ports)


def _end(process: subprocess.Popen[bytes], ports: Mapping[str, int]) -> None:
    process.kill()  # asked to end it takes half a minute, and leaves the same sockets
    process.wait()
    for name in ("master", "volume", "filer", "s3"):
        Path(f"/tmp/seaweedfs-{name}-grpc-{ports[f'{name}.port.grpc']}.sock").unlink(
            missing_ok=True
        )


def _free_ports() -> dict[str, int]:
    return dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))


def _start(folder: Path, ports: dict[str, int]) -> subprocess.Popen[bytes]:
    data = folder / "weed"
    data.mkdir(parents=True, exist_ok=True)
    actions = ["Admin", "Read", "List", "Tagging", "Write"]
    keys = [{"accessKey": KEY, "secretKey": SECRET}]
    identity = {"name": "test", "credentials": keys, "actions": actions}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    (folder / "master.toml").write_text(_MASTER)
    with (folder / "weed.log").open("ab") as log:
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
                "-volume.max=5000",
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


def _wait(server: WeedServer, folder: Path) -> None:
    """Return when the first object can be written; fail with the log where that never is."""
    deadline = time.monotonic() + _START_SECONDS
    client = s3_client(server.url)
    while True:
        try:
            bucket = server.bucket()
            client.put_object(Bucket=bucket, Key="first", Body=b"1")
            client.delete_object(Bucket=bucket, Key="first")
            client.delete_bucket(Bucket=bucket)
            break
        except (BotoCoreError, ClientError):
            if time.monotonic() > deadline:
                log = (folder / "weed.log").read_text(errors="replace")
                pytest.fail(f"SeaweedFS did not start: {log[-2000:]}")
            time.sleep(0.2)
    client.close()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
