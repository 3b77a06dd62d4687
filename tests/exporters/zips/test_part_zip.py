from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporters.zips.part_zip import write_part_zip
from exporters.zips.reader import read_members
from exporters.zips.sources import LocalSource
from tests import zip_readers
from tests.exporters.part_kit import HEADER, contents, noise

NAME = "c-orders-1-1-1000.csv"
MANY = b"".join(b"%d,%d\n" % (row, row * row) for row in range(200_000))


def write(path: Path, *pieces: bytes, rows: int = 0) -> Path:
    write_part_zip(path, NAME, HEADER, pieces, rows)
    return path


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """Let the operating system refuse to grow any file of this process beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize(
    "body", [b"", b"1,2\n", b'"a\r\nb","c,""d"\r\n', bytes(range(255)), MANY], ids=len
)
def test_every_tool_reads_the_csv_back(tmp_path: Path, body: bytes) -> None:
    path = write(tmp_path / "x.zip", body, rows=3)
    zip_readers.check(path)
    assert contents(path) == {NAME: HEADER + body}


def test_what_is_reported_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    part = write_part_zip(path, NAME, HEADER, [MANY], 200_000)
    assert part.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    member = part.member
    assert read_members(LocalSource.open(path)) == (member,)
    assert (member.name, member.rows) == (NAME, 200_000)
    assert member.whole.plain == len(HEADER + MANY)
    assert member.whole.crc32 == zlib.crc32(HEADER + MANY)


def test_the_same_text_gives_the_same_zip_whenever_and_however_it_arrives(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.zip", MANY)
    cut = write(tmp_path / "b.zip", *(MANY[at : at + 1001] for at in range(0, len(MANY), 1001)))
    os.utime(whole, (0, 0))
    assert whole.read_bytes() == cut.read_bytes()


def test_a_body_that_fails_leaves_what_stood_there(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield MANY
        raise ConnectionResetError("the source went away")

    path = write(tmp_path / "x.zip", b"1,2\n")
    before = path.read_bytes()
    with pytest.raises(ConnectionResetError, match="the source went away"):
        write_part_zip(path, NAME, HEADER, failing(), 1)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def test_a_disk_that_takes_no_more_leaves_nothing(tmp_path: Path) -> None:
    with files_no_longer_than(100_000), pytest.raises(OSError, match="File too large"):
        write(tmp_path / "x.zip", MANY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("durable", [True, False])
def test_a_killed_writer_leaves_nothing_but_garbage_in_the_scratch_folder(
    tmp_path: Path, durable: bool
) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from transforms.files import new_file
root, durable = Path(sys.argv[1]), sys.argv[2] == "True"
with new_file(root / "a" / "x.zip", root / "scratch", durable=durable) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", script, str(tmp_path), str(durable)]
    killed = subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    assert killed.returncode == -signal.SIGKILL
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.parent for path in files] == [tmp_path / "scratch"]
    write_part_zip(tmp_path / "a" / "x.zip", NAME, HEADER, [], 0, scratch=tmp_path / "scratch")
    assert contents(tmp_path / "a" / "x.zip") == {NAME: HEADER}


def test_memory_stays_bounded_where_the_deflated_text_is_long(tmp_path: Path) -> None:
    blocks = [noise(1 << 20) for _ in range(4)]
    tracemalloc.start()
    path = write(tmp_path / "x.zip", *(blocks[at % 4] for at in range(48)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 47 << 20
    assert peak < 24 << 20
