"""rclone as an S3 service: one that knows no conditions and verifies no checksums.

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


@contextmanager
def rclone_server(folder: Path) -> Iterator[str]:
    """The address of a service whose buckets are the folders in `folder`; credentials are set."""
    if not _PROGRAM.exists():
        pytest.fail(f"{_PROGRAM} is not there: run `make weed`")
    (port,) = free_ports(1)
    serve = [str(_PROGRAM), "serve", "s3", "--auth-key", f"{KEY},{SECRET}", "--config", ""]
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
