"""What a damaged ZIP does to `zipfile`, told apart from what a failing disk does."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from isal import isal_zlib

from transforms.errors import SegmentError

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1

# What a damaged ZIP makes `zipfile` and the inflater raise, and errors of the machine.
_DAMAGES: tuple[type[Exception], ...] = (  # type: ignore[assignment]  # the stub has an instance
    zipfile.BadZipFile,
    isal_zlib.error,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    OverflowError,
    ValueError,
)


@contextmanager
def damage_named(what: str, remedy: str) -> Iterator[None]:
    """Let damage be a `SegmentError` of this sentence, and an error of the machine what it was."""
    try:
        yield
    except _DAMAGES as error:
        # `zipfile` takes an error of the disk for damage. And a place before the first byte, where
        # a damaged ZIP sends it, is EINVAL to the system.
        machine = error if isinstance(error, OSError) else error.__context__
        if isinstance(machine, OSError) and machine.errno != errno.EINVAL:
            raise machine from None
        raise SegmentError(f"{what} ({error}): {remedy}") from error


def check_storage(info: zipfile.ZipInfo, where: str) -> None:
    """Raise `SegmentError` for an entry that is neither stored nor deflated, or is encrypted."""
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
        raise SegmentError(f"{where} is encrypted, or neither stored nor deflated")
