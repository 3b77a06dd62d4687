"""rclone, as an S3 service that knows no conditions and verifies no checksums, and as a client.

`make weed` installs it; without it the calling test fails with that advice.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_ports, wait_until_listening
from tests.weed_kit import KEY, SECRET, credentials

_PROGRAM = Path(__file__).parents[1] / ".venv" / "rclone" / "bin" / "rclone"
_START_SECONDS = 30.0


def rclone_copy(url: str, folder: Path) -> None:
    """Copy what rclone finds by the links of a web server's pages."""
    copy = [_program(), "copy", "--config", "", "--http-url", url, ":http:", str(folder)]
    subprocess.run(copy, check=True, capture_output=True)


def _program() -> str:
    if not _PROGRAM.exists():
        pytest.fail(f"{_PROGRAM} is not there: run `make weed`")
    return str(_PROGRAM)


@contextmanager
def rclone_server(folder: Path) -> Iterator[str]:
    """The address of a service whose buckets are the folders in `folder`; credentials are set."""
    (port,) = free_ports(1)
    serve = [_program(), "serve", "s3", "--auth-key", f"{KEY},{SECRET}", "--config", ""]
    process = subprocess.Popen(
        [*serve, "--addr", f"127.0.0.1:{port}", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_listening(process, port, _START_SECONDS, lambda: "rclone did not start")
        with credentials(f"http://127.0.0.1:{port}"):
            yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
