"""How many files a process may have open, which a warehouse of very many volumes exceeds."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress

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
    limit = open_files_limit()
    if volumes + _OTHERS > limit:
        raise ConfigError(
            f"the warehouse has {volumes} volumes and this process may open {limit} files: run "
            "strata compact, which merges them, or raise the limit (ulimit -n)"
        )
