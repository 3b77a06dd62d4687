"""How many files a process may have open, which a warehouse of very many volumes exceeds."""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from transforms.errors import ConfigError

# What a process needs besides: libraries, sockets, temporary files.
_OTHERS = 128


def raise_open_files_limit() -> None:
    """Let this process open as many files as the system allows it: the soft limit may be low."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a system may have a lower bound of its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files_limit() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def check_open_files(volumes: int) -> None:
    """Raise `ConfigError` where this process may not open so many volumes at once."""
    if volumes + _OTHERS > open_files_limit():
        raise _too_many(volumes)


@contextmanager
def naming_open_files(volumes: int) -> Iterator[None]:
    """Raise `ConfigError` where the limit is met after all: a query opens a volume many times."""
    import duckdb  # here, as a client that only fetches has none

    try:
        yield
    except (duckdb.IOException, OSError) as error:
        if not is_open_files(error):
            raise
        raise _too_many(
            volumes, ", each opened once for every table that a query names,"
        ) from error


def is_open_files(error: Exception) -> bool:
    """Whether an error, Python's or DuckDB's, says that no more files may be opened."""
    return os.strerror(errno.EMFILE) in str(error)


def _too_many(volumes: int, how_often: str = "") -> ConfigError:
    limit = open_files_limit()
    return ConfigError(
        f"the warehouse has {volumes} volumes{how_often} and this process may open {limit} files: "
        "run strata compact, which merges them, or raise the limit (ulimit -n)"
    )
