"""Opening DuckDB: the one place that knows the client.

What the operating system says leaves every connection as the `OSError` it is, a file that another
program has locked as `BusyError`, and a query that Ctrl-C stopped as `KeyboardInterrupt`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from transforms import interrupts
from transforms.errors import BusyError, ConfigError
from transforms.files import check_utf8
from transforms.machine_errors import MemoryLimitError
from transforms.memory import MEMORY_LIMIT
from transforms.quoting import quote_files as quote_files
from transforms.quoting import quote_name as quote_name
from transforms.quoting import quote_text as quote_text

if TYPE_CHECKING:
    import duckdb

# DuckDB takes a tenth of a second to import, so only who opens one imports it, or `duck_errors`.
Connection: TypeAlias = "duckdb.DuckDBPyConnection"

_MOST_IDLE = 2
_SMALL_BYTES = 2**20
# Below this, DuckDB's default block of 256 KiB would make a file of small tables mostly padding;
# with its least one, of 16 KiB, to compress hundreds of columns takes three times as long.
_SMALL_FILE_BYTES = 16 * 2**20
_FEW_FILES = 20

# By process, as a forked one leaves those of its parent alone, and by threads.
_idle: defaultdict[tuple[int, int | None], list[Connection]] = defaultdict(list)


def check_folder(folder: Path) -> None:
    """Raise `ConfigError` for a folder in which DuckDB 2.0 takes files for others.

    It cuts a path at a question mark, as for an address, and takes a backslash for a slash.
    """
    check_utf8(folder)
    odd = next((char for char in "?\\" if char in str(folder)), None)
    if odd is not None:
        raise ConfigError(
            f"{folder} has a {odd} in its path and DuckDB opens no files there: name another folder"
        )


@contextmanager
def working_connection(
    scratch: Path,
    *,
    size: int | None = None,
    threads: int = 1,
    memory_limit: str = MEMORY_LIMIT,
) -> Iterator[Connection]:
    """Open an in-memory DuckDB that spills below `scratch` and never fetches anything.

    `size` is the number of CSV bytes that are worked on. Who says it leaves nothing attached,
    created or registered, and sets nothing: a later block may have the instance, see `_opened`.
    """
    is_kept = size is not None and size <= _SMALL_BYTES
    with _opened(threads, memory_limit, scratch, is_kept=is_kept) as con:
        yield con


@contextmanager
def less_memory(con: Connection) -> Iterator[None]:
    """Let a connection hold a third of its memory in this block.

    A sort takes all that it may have, and spills the rest.
    """
    limit = "select parse_formatted_bytes(current_setting('memory_limit'))"
    ((size,),) = con.execute(limit).fetchall()
    con.execute(f"set memory_limit = '{size // 3}B'")
    try:
        yield
    finally:
        con.execute(f"set memory_limit = '{size}B'")


@contextmanager
def file_connection(count: int = 1) -> Iterator[Connection]:
    """Open a DuckDB of one thread, for queries that name the `count` files they read.

    They change nothing; see `_opened` for what becomes of the instance.
    """
    with _opened(1, None, None, is_kept=count <= _FEW_FILES) as con:
        yield con


@contextmanager
def _opened(
    threads: int | None, memory_limit: str | None, scratch: Path | None, *, is_kept: bool
) -> Iterator[Connection]:
    """Open an instance that an earlier block is done with, or a new one, which takes 14 ms.

    It goes to a later block if none of its statements failed: an internal error leaves one that
    refuses everything. One that worked on much is not kept: it holds the memory while it is open.
    """
    import duckdb

    idle = _idle[os.getpid(), threads]
    with plain_errors(scratch):
        con = _idle_instance(idle, memory_limit, scratch) if is_kept else None
        if con is None:
            con = duckdb.connect(":memory:", config=_config(threads, memory_limit, scratch))
        try:
            with interrupts.interruptible(con.interrupt):
                set_up(con)
                yield con
        except BaseException:
            con.close()
            raise
    if not is_kept:
        con.close()
        return
    idle.append(con)
    del idle[:-_MOST_IDLE]


def _idle_instance(
    idle: list[Connection], memory_limit: str | None, scratch: Path | None
) -> Connection | None:
    from transforms.duck_errors import Error

    with suppress(IndexError, Error):  # there is none, or it has spilled to another folder
        con = idle.pop()
        for name, value in (("memory_limit", memory_limit), ("temp_directory", scratch)):
            how = f"reset {name}" if value is None else f"set {name} = {quote_text(value)}"
            con.execute(how)
        return con
    return None


@contextmanager
def read_only_connection(path: Path, *, threads: int | None = None) -> Iterator[Connection]:
    """Open a DuckDB file read-only, by its resolved path: a new snapshot is a new file.

    The file is attached to an instance of its own: one that is opened directly is shared by the
    whole process, and refused where somebody opened it with other settings.
    """
    with _opened(threads, None, None, is_kept=False) as con:
        con.execute(f"attach {quote_text(path.resolve())} as current (read_only)")
        con.execute("use current")
        yield con


@contextmanager
def plain_errors(scratch: Path | None = None) -> Iterator[None]:
    """Raise `OSError` with number and file, `BusyError`, `KeyboardInterrupt` where DuckDB tells so.

    For what runs on a connection while the block that opened it does not see it. All else that
    DuckDB says is an error of its own.
    """
    from duckdb import DataError

    from transforms.duck_errors import Error, machine_error

    try:
        yield
    except (Error, OSError, RuntimeError) as error:
        if interrupts.requested():
            raise KeyboardInterrupt from error
        if isinstance(error, RuntimeError):
            raise
        if "Could not set lock on file" in str(error):
            reason = str(error).splitlines()[0].partition(": ")[2]
            raise BusyError(f"another program has it open to write: {reason}") from error
        if fault := machine_error(error, scratch):
            raise fault from error
        if type(error) is OSError and error.errno is None:
            # As which Arrow hands on what DuckDB says in the middle of a stream.
            raise DataError(str(error)) from error
        raise


@contextmanager
def naming_large(what: str, scratch: Path) -> Iterator[None]:
    """Say what it is that takes more memory than DuckDB was given: a `MemoryLimitError`."""
    try:
        with plain_errors(scratch):
            yield
    except MemoryLimitError as error:
        raise MemoryLimitError(error.errno, f"{what}: {error.strerror}") from error


def set_up(con: Connection) -> None:
    """Settings that every connection has, also each cursor, which takes none of them over."""
    import duckdb

    con.execute("set TimeZone = 'UTC'")
    con.execute("set preserve_insertion_order = true")
    # In a notebook without ipywidgets DuckDB has switched it off itself, and refuses to be told.
    with suppress(duckdb.InvalidInputException):
        con.execute("set enable_progress_bar = false")
    # With it, sorting a few million orders runs out of memory instead of spilling (DuckDB 2.0.0).
    con.execute("set disabled_optimizers = 'compressed_materialization'")


@contextmanager
def attached(con: Connection, path: Path, alias: str, options: str = "") -> Iterator[str]:
    """Attach a DuckDB file for the length of a block; its end checkpoints and lets go of it.

    Where the block fails, closing the connection does that: a detach could fail too and hide why.
    """
    con.execute(f"attach {quote_text(path)} as {quote_name(alias)} {options}")
    yield alias
    con.execute(f"detach {quote_name(alias)}")


def new_database(con: Connection, path: Path, alias: str, size: int) -> AbstractContextManager[str]:
    """Attach a new file for about `size` bytes of rows, which DuckDB 1.5 opens as well."""
    blocks = ", block_size 65536" if size < _SMALL_FILE_BYTES else ""
    # Nobody goes on with the unfinished file of a process that died: there is nothing to recover.
    options = f"(storage_version 'v1.5.0', recovery_mode no_wal_writes{blocks})"
    return attached(con, path, alias, options)


def _config(
    threads: int | None, memory_limit: str | None, scratch: Path | None
) -> dict[str, str | bool | int | float | list[str]]:
    settings = {
        "threads": threads,
        "memory_limit": memory_limit,
        "temp_directory": str(scratch) if scratch else None,
    }
    return {
        "autoinstall_known_extensions": False,
        "allow_community_extensions": False,
        # With threads that write on their own, one in some ten statements that write Parquet waits
        # for ever where its query fails or is interrupted after the first row group (2.0.0).
        "async_threads": 0,
        **{name: value for name, value in settings.items() if value is not None},
    }
