"""Leases: files of this machine's cache that a living process needs, so that none removes them.

A lease is a small file that its holder keeps locked: the kernel frees it when the process dies,
however it dies. A process that is forked without `exec` keeps the leases of its parent with it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from transforms.files import naming_full_disk
from transforms.objects import StoredFile
from transforms.scratch import exclusive

_LOCK = ".lock"


class Leases:
    """The leases in `folder`, which all processes of this machine that use the cache share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = folder / _LOCK

    @contextmanager
    def lease(self, files: Collection[StoredFile]) -> Iterator[None]:
        """Keep `files`, whether or not they are there yet, from being removed during the block.

        Whether a file is there is asked inside the block: after that nobody removes it. Raises
        `BusyError` where another process removes files for minutes.
        """
        path = self._folder / uuid4().hex
        with ExitStack() as release:
            with exclusive(self._lock), naming_full_disk(path):
                release.callback(path.unlink, missing_ok=True)
                path.write_text("".join(f"{file.size} {file.key}\n" for file in files))
                lease = release.enter_context(path.open("r+"))
                fcntl.flock(lease, fcntl.LOCK_EX)
            yield

    @contextmanager
    def pausing(self) -> Iterator[dict[str, int]]:
        """The size in bytes of each leased key; until the block ends no further lease begins.

        Leases of dead processes are removed.
        """
        leased: dict[str, int] = {}
        with exclusive(self._lock):
            for path in self._folder.iterdir():
                if path == self._lock:
                    continue
                with suppress(FileNotFoundError), path.open() as lease:  # or released just now
                    try:
                        fcntl.flock(lease, fcntl.LOCK_SH | fcntl.LOCK_NB)
                        path.unlink(missing_ok=True)
                    except BlockingIOError:
                        lines = (line.rstrip("\n").partition(" ") for line in lease)
                        leased |= {key: int(size) for size, _, key in lines}
            yield leased
