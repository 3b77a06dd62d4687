"""Errors of the machine (disk, memory, network), as a person is told of them."""

from __future__ import annotations

import errno


class MemoryLimitError(OSError):
    """DuckDB needs more memory than it was given, however much the machine has left."""


_NO_ROOM = "free some room there, then run it again"
_NO_RIGHT = "give this user the right to it, then run it again"
_DISK = "the disk or its connection fails: see the system's log, then run it again"
REMEDIES = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EFBIG: "raise the limit of a file's size (ulimit -f), then run it again",
    errno.EROFS: "make it writable (a service of systemd: ReadWritePaths), or name another folder, "
    "then run it again",
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.EXDEV: "a folder above this file is a mount of its own, or a link to another disk. "
    "A warehouse or an archive needs one for all of its folders: move that, then run it again",
    errno.EIO: _DISK,
    errno.EMFILE: "raise the limit of open files (ulimit -n), or run strata compact",
    errno.ENFILE: "the system has too many files open: raise its limit, then run it again",
    errno.ENOMEM: "let STRATA_MEMORY_MB be more, raise a limit of the process (ulimit -v), or "
    "ask for fewer blocks at once (strata sql --blocks, STRATA_BATCH), then run it again; "
    "queries of the API have STRATA_API_MEMORY",
    errno.ENAMETOOLONG: "name a folder with a shorter path, then run it again",
    errno.ESTALE: "mount the shared folder again, then run it again",
    errno.EISDIR: "a folder has the name of our file: rename or remove it, then run it again",
    errno.ENXIO: _DISK,
    errno.ENODEV: _DISK,
    errno.EINTR: "nothing is wrong with the file: run it again",
    errno.ETIMEDOUT: _DISK,
}
"""What to do about each, by number. `ENOENT` is none of them: a file that is not there is damage,
or was removed by somebody, and whoever asks for it knows which."""


LIMITS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
)
"""Errors of a whole machine, whichever file it was about to read or write."""


def sentence(error: OSError) -> str:
    """What a person is told: the file, what is wrong with it, and what to do."""
    what = error.strerror or " ".join(str(error).split())
    place = error.filename2 or error.filename
    remedy = REMEDIES.get(error.errno or 0, "")
    return ": ".join(part for part in (str(place) if place else "", what, remedy) if part)
