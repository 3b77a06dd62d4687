"""Random damage to segment ZIPs: every one must load as if undamaged, or be refused in words."""

from __future__ import annotations

import io
import random
import shutil
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from transforms.errors import SegmentError
from transforms.objects import ObjectInfo
from transforms.segments.inventory import SegmentFile
from transforms.segments.prepare import PreparedSegment, prepare, prepare_state
from transforms.segments.segment_name import SegmentName
from transforms.segments.source import Source
from transforms.stores.folder_store import FolderStore

Mutation = Callable[[bytes, random.Random], bytes]

_LOCAL, _CENTRAL, _END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
_HEADER_BYTES = {_LOCAL: 30, _CENTRAL: 46, _END: 22}


def _flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        place = rng.randrange(len(changed))
        changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _flip_near_the_end(data: bytes, rng: random.Random) -> bytes:
    """In the end of central directory record, where a bit is worth most."""
    changed = bytearray(data)
    changed[len(data) - 1 - rng.randrange(22)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    size = rng.randrange(len(data))
    return rng.choice((data[:size], data[size:]))


def _remove(data: bytes, rng: random.Random) -> bytes:
    start, size = rng.randrange(len(data)), 1 << rng.randrange(14)
    return data[:start] + data[start + size :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    start, size = rng.randrange(len(data) + 1), 1 << rng.randrange(10)
    return data[:start] + rng.randbytes(size) + data[start:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start, size = rng.randrange(len(data)), 1 << rng.randrange(14)
    return data[: start + size] + data[start:]


def _zero(data: bytes, rng: random.Random) -> bytes:
    start, size = rng.randrange(len(data)), 1 << rng.randrange(12)
    zeroed = bytes(len(data[start : start + size]))
    return data[:start] + zeroed + data[start + size :]


def _edit_field(data: bytes, rng: random.Random) -> bytes:
    """Put a number that means something into a header."""
    kind = rng.choice((_LOCAL, _CENTRAL, _END))
    places = [at for at in range(len(data)) if data.startswith(kind, at)]
    if not places:
        return data
    width = rng.choice((1, 2, 4))
    at = rng.choice(places) + rng.randrange(4, _HEADER_BYTES[kind] - width + 1)
    number = rng.choice((0, 1, 8, 0x7F, 0xFF, 0x800, 0xFFFF, 2**31, 2**32 - 1, len(data)))
    packed = struct.pack("<I", number)[:width]
    return data[:at] + packed + data[at + width :]


def _swap_headers(data: bytes, rng: random.Random) -> bytes:
    """Exchange the bytes of two entries of the central directory, or of two local headers."""
    kind = rng.choice((_LOCAL, _CENTRAL))
    places = [at for at in range(len(data)) if data.startswith(kind, at)]
    if len(places) < 2:
        return data
    one, other = rng.sample(places, 2)
    size, changed = _HEADER_BYTES[kind], bytearray(data)
    changed[one : one + size] = data[other : other + size]
    changed[other : other + size] = data[one : one + size]
    return bytes(changed)


def _rezip(data: bytes, edit: Callable[[list[tuple[str, bytes]]], None]) -> bytes:
    """The same entries, edited, in a ZIP that is sound as such."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        entries = [(name, old.read(name)) for name in old.namelist()]
    edit(entries)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in entries:
            new.writestr(zipfile.ZipInfo(name), content)
    return written.getvalue()


def _swap_entries(data: bytes, rng: random.Random) -> bytes:
    """Two tables under each other's name, with right CRCs."""

    def edit(entries: list[tuple[str, bytes]]) -> None:
        one, other = rng.sample(range(len(entries)), 2)
        (first, mine), (second, theirs) = entries[one], entries[other]
        entries[one], entries[other] = (first, theirs), (second, mine)

    return _rezip(data, edit)


def _edit_text(data: bytes, rng: random.Random) -> bytes:
    """Damage the text of one entry, with a right CRC."""

    def edit(entries: list[tuple[str, bytes]]) -> None:
        place = rng.randrange(len(entries))
        name, content = entries[place]
        if content:
            entries[place] = (name, rng.choice(_ANYWHERE)(content, rng))

    return _rezip(data, edit)


_ANYWHERE: tuple[Mutation, ...] = (_flip_bits, _cut, _remove, _insert, _repeat, _zero)
MUTATIONS: tuple[Mutation, ...] = (
    *_ANYWHERE,
    _flip_near_the_end,
    _edit_field,
    _swap_headers,
    _swap_entries,
    _edit_text,
)


def mutations(data: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """So many damaged copies, and how each was made; the same for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        mutation = MUTATIONS[number % len(MUTATIONS)]
        yield f"{mutation.__name__} {number} of seed {seed}", mutation(data, rng)


def prepared(path: Path, scratch: Path) -> dict[str, str]:
    """The tables of a segment file, made ready to load: the hash of each one's CSV.

    Raises `SegmentError`, and nothing else, for whatever is wrong with it.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    file = SegmentFile(SegmentName.parse(path.name), ObjectInfo(path.name, 0, ""), "")
    segment = prepare(Source(FolderStore(path.parent)), file, scratch)
    return _hashes(segment) | _hashes(prepare_state(segment, scratch / "state"))


def _hashes(segment: PreparedSegment) -> dict[str, str]:
    return {file.path.name: file.sha256 for file in segment.tables.values()}


def try_mutations(original: Path, folder: Path, count: int, seed: int = 1) -> Counter[str]:
    """Prepare damaged copies of a segment; counts those that load as before, and the refused.

    Damage inside a ZIP that is sound as such is for the table loader to find: it counts as
    `other tables`. Any exception but a `SegmentError` passes, with how the copy was made.
    """
    right = prepared(original, folder / "scratch")
    copy = folder / original.name
    counts: Counter[str] = Counter()
    for how, data in mutations(original.read_bytes(), count, seed):
        copy.write_bytes(data)
        try:
            found = prepared(copy, folder / "scratch")
        except SegmentError:
            counts["refused"] += 1
        except Exception as error:
            error.add_note(how)
            raise
        else:
            sealed = "_swap_entries" in how or "_edit_text" in how
            assert found == right or sealed, f"{how} went unnoticed"
            counts["as before" if found == right else "other tables"] += 1
    return counts
