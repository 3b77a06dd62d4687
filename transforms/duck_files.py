"""What DuckDB leaves beside a file that a program wrote to and did not close: a log, and spills.

No file of ours is written to after it has got its name, so these never belong to what is there:
DuckDB would read a log together with the file, or refuse both.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from transforms.files import file_clock

FOREIGN_LOG = "a program wrote to the file of this name and was killed: DuckDB would read both"
"""What is wrong with a log that lies beside a file."""

_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")  # without the first, the others say nothing


def log_beside(path: Path | str) -> Path | None:
    """The write-ahead log beside a file of DuckDB; None, as a rule."""
    log = f"{path}.wal"
    return Path(log) if os.path.lexists(log) else None  # of thousands of files, for each query


def remove_log(path: Path) -> None:
    """Remove it. Before the file is replaced, so that nobody finds a new file with an old log."""
    for suffix in _LOGS:
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def remove_spills(path: Path, older_than: float) -> None:
    """Remove the temporary files of programs that had a file open and were killed.

    Nothing says whose they are, so they stay until all were left alone for `older_than` seconds.
    """
    folder = path.with_name(f"{path.name}.tmp")
    with suppress(OSError):  # it is not there, or somebody else's
        used = max(entry.stat().st_mtime for entry in (folder, *folder.iterdir()))
        if used < file_clock(path.parent) - older_than:
            shutil.rmtree(folder)
