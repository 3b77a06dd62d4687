"""What DuckDB says of the operating system has its number and its file again."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.cases import each_of
from transforms.duck import attached, working_connection
from transforms.duck_errors import machine_error
from transforms.machine_errors import sentence

FULL = os.strerror(errno.ENOSPC)
OF_MACHINE = [
    (f'IO Error: Could not write file "/w/v.duckdb": {FULL}', errno.ENOSPC, "/w/v.duckdb"),
    (
        f'TransactionContext Error: Failed to commit: Could not write file "/w/a b": {FULL}',
        errno.ENOSPC,
        "/w/a b",
    ),
    ('IO Error: Cannot open file "/w/v": Read-only file system', errno.EROFS, "/w/v"),
    ('IO Error: Could not write file "/w/v": Disk quota exceeded', errno.EDQUOT, "/w/v"),
    (
        'IO Error: Could not read from file "/w/v": Input/output error\n\nLINE 1: select "a": 1',
        errno.EIO,
        "/w/v",
    ),
    (
        'IO Error: Could not read from file "/w/v": Interrupted system call',
        errno.EINTR,
        "/w/v",
    ),
    ('IO Error: Failed to create directory "/w/x": Permission denied', errno.EACCES, "/w/x"),
    ('IO Error: Cannot open file "/w/it"s": Too many open files', errno.EMFILE, '/w/it"s'),
    (
        "IO Error: Async write failed for range [offset=0, size=3]: "
        '{"exception_type":"IO","exception_message":"Could not write file \\"/w/o.csv\\": '
        'No space left on device","errno":"28"}',
        errno.ENOSPC,
        "/w/o.csv",
    ),
    ("FATAL Error: fsync failed!", errno.EIO, "/scratch"),
    (
        "Out of Memory Error: failed to offload data block of size 256.0 KiB (1.0 MiB/1.0 MiB "
        "used).\nThis limit was set by the 'max_temp_directory_size' setting.",
        errno.ENOSPC,
        "/scratch",
    ),
]


@each_of(("text", "number", "file"), OF_MACHINE)
def test_number_and_file_are_found_in_what_duckdb_says(text: str, number: int, file: str) -> None:
    for error in (duckdb.IOException(text), OSError(text)):  # the latter is Arrow's
        found = machine_error(error, Path("/scratch"))
        assert found is not None
        assert (found.errno, found.filename) == (number, file)
        assert sentence(found).startswith(f"{file}: {os.strerror(number)}: ")


@each_of(
    "error",
    [
        duckdb.IOException('Cannot open file "/w/v": No such file or directory'),
        duckdb.IOException("Corrupt database file: computed checksum 1 does not match 2"),
        duckdb.InvalidInputException(f'a user wrote: Could not write file "/w/v": {FULL}'),
        duckdb.ConversionException(f"Could not convert string 'file \"a\": {FULL}' to INT32"),
        OSError(errno.ENOSPC, FULL, "/w/v"),
        BrokenPipeError(errno.EPIPE, "the reader went away"),
    ],
)
def test_other_errors_stay_what_they_are(error: duckdb.Error | OSError) -> None:
    assert machine_error(error) is None


def test_no_memory_is_told_with_what_was_used_of_how_much(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match=r"no more memory than it was given \(.* used\)") as caught,
        working_connection(tmp_path, memory_limit="40MB") as con,
    ):
        con.execute("select list(md5(range::varchar)) from range(3000000)").fetchall()
    assert caught.value.errno == errno.ENOMEM
    assert "--blocks" in sentence(caught.value)


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 200 KB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_a_real_limit_of_the_system_is_met_as_itself(tmp_path: Path) -> None:
    path = tmp_path / "volume.duckdb"
    with (
        pytest.raises(OSError, match="File too large") as caught,
        working_connection(tmp_path) as con,
        attached(con, path, "volume"),
    ):
        con.execute("create table volume.t as select md5(range::varchar) from range(100000)")
    assert caught.value.errno == errno.EFBIG
    assert str(caught.value.filename).startswith(str(path))
