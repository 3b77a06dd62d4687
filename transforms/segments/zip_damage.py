"""What a damaged ZIP does to `zipfile`, told apart from what a failing disk does."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_CUR, SEEK_END, SEEK_SET
from typing import BinaryIO

from isal import isal_zlib

from transforms.errors import SegmentError

_LEAST_BYTES = 22  # of an empty ZIP: the record at its end
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1

# What a damaged ZIP makes `zipfile` and the inflater raise.
_DAMAGES: tuple[type[Exception], ...] = (  # type: ignore[assignment]  # the stub has an instance
    zipfile.BadZipFile,
    isal_zlib.error,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    ValueError,
)


class _DiskError(Exception):
    """An error of the machine on its way through `zipfile`."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def damage_named(what: str, remedy: str) -> Iterator[None]:
    """Let damage be a `SegmentError` of this sentence, and an error of the machine what it was."""
    try:
        yield
    except _DiskError as failed:
        raise failed.error from None
    except _DAMAGES as error:
        raise SegmentError(f"{what} ({error}): {remedy}") from error


def check_storage(info: zipfile.ZipInfo, where: str) -> None:
    """Raise `SegmentError` for an entry that is neither stored nor deflated, or is encrypted."""
    if info.flag_bits & _ENCRYPTED:
        raise SegmentError(f"{where} is encrypted")
    if info.compress_type not in _METHODS:
        raise SegmentError(
            f"{where} is compressed by method {info.compress_type}: "
            "only stored and deflated entries are read"
        )


class BoundedFile:
    """A file for `zipfile`, which seeks where a damaged ZIP says and reads as much as it says.

    The file system would answer some of that with an `OSError`, as if the disk were at fault. And
    where the disk is at fault, `zipfile` would take its `OSError` for damage: see `_DiskError`.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, SEEK_END)
        if self._size < _LEAST_BYTES:
            raise zipfile.BadZipFile(f"it has {self._size} bytes, too few for a ZIP")

    def seekable(self) -> bool:
        """It can be sought in."""
        return True

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """Go to a place inside the file, or to its end."""
        origin = {SEEK_SET: 0, SEEK_CUR: self._file.tell(), SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise zipfile.BadZipFile("it names a place before its first byte")
        return self._file.seek(min(origin + offset, self._size))

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, or to the end."""
        rest = self._size - self._file.tell()
        try:
            return self._file.read(rest if size < 0 else min(size, rest))
        except OSError as error:
            raise _DiskError(error) from error
