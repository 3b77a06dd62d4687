"""Mapped files: columns of numbers and texts that all processes of a machine read from one place.

Such a file is mapped into memory, not read: processes share what they touch, and what nobody
touches takes none. It belongs to a cache: it has its name when it is whole, carries a checksum of
all its bytes, and is made again where it is not what it should be.

The bytes: `strata-l` (least significant byte first; `strata-b` otherwise), CRC-32 of all that
follows, the length of the header, both as 4 bytes; the header, JSON; then sections, each at a
multiple of 8 bytes.
"""

from __future__ import annotations

import mmap
import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, overload

import orjson
from isal import isal_zlib

from transforms.errors import IntegrityError
from transforms.files import file_version, new_file
from transforms.scratch import scratch_folder

_MAGIC = f"strata-{sys.byteorder[0]}".encode()
_CHECKED_FROM, _START = 12, 16
_CHUNK_BYTES = 2**18
_ALIGNED = 8
_PREFIX_BYTES = 8

# A mapping needs no open file; before Python 3.13 it keeps one.
_UNTRACKED: Any = {"trackfd": False} if sys.version_info >= (3, 13) else {}

Sections = dict[str, bytes]


def prefix(text: str) -> int:
    """The first 8 bytes of a text as a number; in order as the texts are."""
    data = text.encode("utf-8", "replace")[:_PREFIX_BYTES]
    return int.from_bytes(data.ljust(_PREFIX_BYTES, b"\0"), "big")


class Texts(Sequence[str]):
    """A column of texts."""

    __slots__ = ("_ends", "_prefixes", "_text")

    def __init__(self, ends: memoryview, prefixes: memoryview, text: memoryview) -> None:
        self._ends = ends
        self._prefixes = prefixes
        self._text = text

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        if not 0 <= place < len(self._ends):
            raise IndexError(place)
        start = self._ends[place - 1] if place else 0
        return str(self._text[start : self._ends[place]], "utf-8")

    def left(self, text: str, low: int, high: int) -> int:
        """As `bisect_left`, among ascending texts; nearly all of it in C."""
        first = prefix(text)
        begin = bisect_left(self._prefixes, first, low, high)
        return bisect_left(self, text, begin, bisect_right(self._prefixes, first, begin, high))

    def right(self, text: str, low: int, high: int) -> int:
        """As `bisect_right`, among ascending texts."""
        first = prefix(text)
        begin = bisect_left(self._prefixes, first, low, high)
        return bisect_right(self, text, begin, bisect_right(self._prefixes, first, begin, high))


class Mapped:
    """The content of a mapped file; `said` is what its maker says of it."""

    __slots__ = ("_data", "_places", "said")

    def __init__(self, data: memoryview, *, is_proven: bool = False) -> None:
        """Raises `IntegrityError` where these are not the bytes that `packed` made."""
        if len(data) < _START or data[: len(_MAGIC)] != _MAGIC:
            raise IntegrityError("it is no mapped file of this release and machine")
        checksum, size = data[len(_MAGIC) : _START].cast("I")
        if not is_proven and isal_zlib.crc32(data[_CHECKED_FROM:]) != checksum:
            raise IntegrityError("its bytes are damaged")
        header = orjson.loads(data[_START : _START + size])
        self.said: Any = header["said"]
        self._places: Mapping[str, tuple[int, int]] = header["places"]
        self._data = data[_aligned(_START + size) :]

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def bytes(self, name: str) -> memoryview:
        """A section as it is."""
        start, size = self._places[name]
        return self._data[start : start + size]

    def numbers(self, name: str, code: str) -> memoryview:
        """A section of numbers of a kind, named as by `array`."""
        return self.bytes(name).cast(code)  # type: ignore[call-overload,no-any-return]

    def texts(self, name: str) -> Texts:
        """The sections of texts."""
        return Texts(
            self.numbers(f"{name} ends", "Q"),
            self.numbers(f"{name} prefixes", "Q"),
            self.bytes(f"{name} text"),
        )


def packed(metadata: object, sections: Mapping[str, bytes]) -> bytes:
    """The bytes of a mapped file."""
    places: dict[str, tuple[int, int]] = {}
    body: list[bytes] = []
    start = 0
    for name, data in sections.items():
        places[name] = (start, len(data))
        body += (data, bytes(_aligned(len(data)) - len(data)))
        start += _aligned(len(data))
    header = orjson.dumps({"said": metadata, "places": places})
    size = len(header).to_bytes(4, sys.byteorder)
    rest = b"".join((size, header.ljust(_aligned(_START + len(header)) - _START), *body))
    return _MAGIC + isal_zlib.crc32(rest).to_bytes(4, sys.byteorder) + rest


def numbers_section(code: str, values: Iterable[int]) -> bytes:
    """A section for `Mapped.numbers`."""
    return array(code, values).tobytes()


def texts_sections(name: str, texts: Sequence[str]) -> Sections:
    """The sections for `Mapped.texts`."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    ends: list[int] = []
    for data in encoded:
        ends.append((ends[-1] if ends else 0) + len(data))
    return {
        f"{name} ends": numbers_section("Q", ends),
        f"{name} prefixes": numbers_section("Q", map(prefix, texts)),
        f"{name} text": b"".join(encoded),
    }


class MappedFolder:
    """The mapped files in `folder`; where none can be written, they are made in memory."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._folder = folder
        self._scratch = scratch
        self._versions: dict[str, os.stat_result] = {}

    def written(self) -> bool:
        """Whether a file was written to since it was mapped; one that was replaced was not."""
        return any(self._is_written(name, stats) for name, stats in [*self._versions.items()])

    def _is_written(self, name: str, stats: os.stat_result) -> bool:
        with suppress(OSError):
            now = (self._folder / name).stat()
            return now.st_ino == stats.st_ino and file_version(now) != file_version(stats)
        return False

    def find(self, name: str) -> Mapped | None:
        """A file that is there and sound."""
        with suppress(OSError, IntegrityError, ValueError):
            path = self._folder / name
            self._versions[name] = path.stat()
            return _opened(path)
        return None

    def get(self, name: str, make: Callable[[], bytes]) -> Mapped:
        """A file, which is made where it is not there, or damaged."""
        return self.find(name) or self.put(name, make())

    def put(self, name: str, data: bytes) -> Mapped:
        """Write a file, or replace it."""
        # Nothing is lost with it, so it need not outlive a power cut; the checksum tells.
        with (
            suppress(OSError),
            scratch_folder(self._scratch) as scratch,
            new_file(self._folder / name, scratch, durable=False) as file,
        ):
            file.write(data)
        return self.find(name) or Mapped(memoryview(data))

    def keep(self, names: Collection[str]) -> None:
        """Remove all other files; who has one mapped keeps what it has."""
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name not in names:
                    self._versions.pop(entry.name, None)
                    Path(entry.path).unlink(missing_ok=True)


def _opened(path: Path) -> Mapped:
    """Prove a file and map it. It is read for that: what was touched once would take memory."""
    with path.open("rb", buffering=0) as file:
        start = file.read(_CHECKED_FROM)
        if start[: len(_MAGIC)] != _MAGIC:
            raise IntegrityError("it is no mapped file of this release and machine")
        checksum, buffer = 0, memoryview(bytearray(_CHUNK_BYTES))
        while size := file.readinto(buffer):
            checksum = isal_zlib.crc32(buffer[:size], checksum)
        if checksum != int.from_bytes(start[len(_MAGIC) :], sys.byteorder):
            raise IntegrityError("its bytes are damaged")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, **_UNTRACKED)
        return Mapped(memoryview(data), is_proven=True)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
