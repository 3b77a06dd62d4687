"""Opening DuckDB: the one place that knows the client.

What the operating system says leaves every connection as the `OSError` it is, a file that another
program has locked as `BusyError`, and a query that Ctrl-C stopped as `KeyboardInterrupt`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

import duckdb

from transforms import interrupts
from transforms.duck_errors import machine_error
from transforms.errors import BusyError, ConfigError
from transforms.machine_errors import MemoryLimitError
from transforms.memory import MEMORY_LIMIT
from transforms.quoting import quote_files as quote_files
from transforms.quoting import quote_name as quote_name
from transforms.quoting import quote_text as quote_text

Connection = duckdb.DuckDBPyConnection
Error = duckdb.Error

STORAGE = "storage_version 'v1.5.0'"
"""The option of `attach` for every new file: DuckDB 1.5, which people have, opens it, too."""

_REPORT_SECONDS = 0.5
_MOST_IDLE = 2
_SMALL_BYTES = 2**20
_FEW_FILES = 20

# By process: a forked one leaves those of its parent alone.
_idle: defaultdict[int, list[tuple[str, Connection]]] = defaultdict(list)


def check_folder(folder: Path) -> None:
    """Raise `ConfigError` for a folder in which DuckDB 2.0 takes files for others.

    It cuts a path at a question mark, as for an address, and takes a backslash for a slash.
    """
    odd = next((char for char in "?\\" if char in str(folder)), None)
    if odd is not None:
        raise ConfigError(
            f"{folder} has a {odd} in its path and DuckDB opens no files there: name another folder"
        )


@contextmanager
def working_connection(
    scratch: Path, *, threads: int = 1, memory_limit: str = MEMORY_LIMIT
) -> Iterator[Connection]:
    """Open an in-memory DuckDB that spills below `scratch` and never fetches anything."""
    with _opened(_config(threads, memory_limit, scratch), scratch) as con:
        yield con


@contextmanager
def rendering_connection(scratch: Path, size: int, memory_limit: str) -> Iterator[Connection]:
    """Open a DuckDB of one thread that spills below `scratch`, for queries that change nothing.

    Making an instance takes 14 ms of processor time: where `size`, the bytes that are rendered, is
    small, it may be one that another block is done with, without an error and without spilling.
    One that rendered 400 MB keeps as much memory as long as it is open.
    """
    if size > _SMALL_BYTES:
        with working_connection(scratch, memory_limit=memory_limit) as own:
            yield own
        return
    con = _idle_instance(scratch, memory_limit)
    if con is None:
        con = duckdb.connect(":memory:", config=_config(1, memory_limit, scratch))
        set_up(con)
    try:
        with plain_errors(scratch), interrupts.interruptible(con.interrupt):
            yield con
    except BaseException:
        con.close()
        raise
    _idle[os.getpid()].append((memory_limit, con))
    del _idle[os.getpid()][:-_MOST_IDLE]


def _idle_instance(scratch: Path, memory_limit: str) -> Connection | None:
    with suppress(IndexError, Error):  # there is none, or it has spilled to another folder
        limit, con = _idle[os.getpid()].pop()
        if limit == memory_limit:
            con.execute(f"set temp_directory = {quote_text(scratch)}")
            return con
    return None


@contextmanager
def file_connection(count: int = 1) -> Iterator[Connection]:
    """Open a DuckDB of one thread, for queries that name the `count` files they read.

    It changes nothing: all of a process are connections to one instance, which takes 14 ms of
    processor time to make. The next one gets a new instance where a statement fails, or after many
    files: the memory that they took is kept as long as the instance.
    """
    try:
        with (
            plain_errors(),
            _instances[-1].cursor() as con,
            interrupts.interruptible(con.interrupt),
        ):
            set_up(con)
            yield con
        if count > _FEW_FILES:
            _instances[-1].forget()
    except BaseException:
        _instances[-1].forget()  # an internal error leaves one that refuses everything
        raise


class _Instance:
    """A DuckDB of one thread, opened when it is asked for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._con: Connection | None = None

    def cursor(self) -> Connection:
        """A new connection to it."""
        with self._lock:
            if self._con is None:
                self._con = duckdb.connect(":memory:", config=_config(1, None, None))
            return self._con.cursor()

    def forget(self) -> None:
        """Let the next connection be one to a new instance."""
        with self._lock:
            self._con = None


_instances = [_Instance()]
# A forked process has an instance of its own: that of its parent was at work, perhaps.
os.register_at_fork(after_in_child=lambda: _instances.append(_Instance()))


@contextmanager
def read_only_connection(
    path: Path,
    *,
    threads: int | None = None,
    scratch: Path | None = None,
    memory_limit: str = MEMORY_LIMIT,
) -> Iterator[Connection]:
    """Open a DuckDB file read-only, by its resolved path: a new generation is a new file.

    With `scratch`, memory is bounded and what does not fit is spilled there. The file is attached
    to an instance of its own: one that is opened directly is shared by the whole process, and
    refused where somebody opened it with other settings.
    """
    config = _config(threads, memory_limit if scratch else None, scratch)
    with _opened(config, scratch) as con:
        con.execute(f"attach {quote_text(path.resolve())} as current (read_only)")
        con.execute("use current")
        yield con


@contextmanager
def plain_errors(scratch: Path | None = None) -> Iterator[None]:
    """Raise `OSError` with number and file, `BusyError`, `KeyboardInterrupt` where DuckDB tells so.

    For what runs on a connection while the block that opened it does not see it.
    """
    try:
        yield
    except (duckdb.Error, OSError, RuntimeError) as error:
        if interrupts.requested():
            raise KeyboardInterrupt from error
        if isinstance(error, RuntimeError):
            raise
        if "Could not set lock on file" in str(error):
            reason = str(error).splitlines()[0].partition(": ")[2]
            raise BusyError(f"another program has it open to write: {reason}") from error
        fault = machine_error(error, scratch)
        if fault is None:
            raise
        raise fault from error


@contextmanager
def naming_large(what: str, scratch: Path) -> Iterator[None]:
    """Say what it is that takes more memory than DuckDB was given: a `MemoryLimitError`."""
    try:
        with plain_errors(scratch):
            yield
    except MemoryLimitError as error:
        raise MemoryLimitError(error.errno, f"{what}: {error.strerror}") from error


@contextmanager
def _opened(
    config: dict[str, str | bool | int | float | list[str]], scratch: Path | None
) -> Iterator[Connection]:
    with (
        plain_errors(scratch),
        duckdb.connect(":memory:", config=config) as con,
        interrupts.interruptible(con.interrupt),
    ):
        set_up(con)
        yield con


def set_up(con: Connection) -> None:
    """Settings that every connection has, also each cursor, which takes none of them over."""
    con.execute("set TimeZone = 'UTC'")
    con.execute("set preserve_insertion_order = true")
    # In a notebook without ipywidgets DuckDB has switched it off itself, and refuses to be told.
    with suppress(duckdb.InvalidInputException):
        con.execute("set enable_progress_bar = false")
    # With it, sorting a few million orders runs out of memory instead of spilling (DuckDB 2.0.0).
    con.execute("set disabled_optimizers = 'compressed_materialization'")


@contextmanager
def reporting(con: Connection, report: Callable[[float], object]) -> Iterator[None]:
    """Call `report`, in another thread, with how much of the running statement is done: 0 to 1."""
    con.execute("set enable_progress_bar_print = false")
    con.execute("set enable_progress_bar = true")
    ended = Event()

    def follow() -> None:
        while not ended.wait(_REPORT_SECONDS):
            report(min(max(con.query_progress(), 0.0) / 100, 1.0))

    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def attached(con: Connection, path: Path, alias: str, options: str = "") -> Iterator[str]:
    """Attach a DuckDB file for the length of a block; its end checkpoints and lets go of it.

    Where the block fails, closing the connection does that: a detach could fail too and hide why.
    """
    con.execute(f"attach {quote_text(path)} as {quote_name(alias)} {options}")
    yield alias
    con.execute(f"detach {quote_name(alias)}")


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
        **{name: value for name, value in settings.items() if value is not None},
    }
