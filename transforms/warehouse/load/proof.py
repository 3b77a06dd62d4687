"""The proof: what a volume renders is compared with the source, byte for byte, as it passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from transforms.errors import SegmentError
from transforms.segments.segment_zip import TableFile

_CHUNK = 1 << 20
_CONTEXT_BYTES = 30


class ProofError(SegmentError):
    """A rendered table differs from its source; the message names the first differing place."""


def proven_body(file: TableFile, rendered: BinaryIO) -> Iterator[bytes]:
    """Yield a table's body from `rendered`, each chunk compared with the source file first.

    Raises `ProofError` at the first byte that differs or lacks.
    """
    offset = file.header_bytes
    with file.path.open("rb") as source:
        source.seek(offset)
        while chunk := source.read(_CHUNK):
            ours = rendered.read(len(chunk))
            if ours != chunk:
                raise _difference(file, offset, chunk, ours)
            offset += len(chunk)
            yield ours


def prove_end(file: TableFile, rendered: BinaryIO) -> None:
    """Raise `ProofError` where more was rendered than the source's last file holds."""
    if rest := rendered.read(_CONTEXT_BYTES):
        raise ProofError(
            f"{file.segment.file_name}: table {file.table} renders more than the source holds: "
            f"{rest!r}",
            file.segment.file_name,
        )


def _difference(file: TableFile, offset: int, source: bytes, ours: bytes) -> ProofError:
    shared = _shared_bytes(source, ours)
    row, column = _place(file, offset + shared)
    theirs = source[shared : shared + _CONTEXT_BYTES]
    return ProofError(
        f"{file.segment.file_name}: table {file.table}, row {row}, column {column}: the source has "
        f"{theirs!r} where a CSV of spec 2.8 has {ours[shared : shared + _CONTEXT_BYTES]!r}",
        file.segment.file_name,
    )


def _shared_bytes(first: bytes, second: bytes) -> int:
    """How many leading bytes two texts share, by halving: `bytes` compares a slice at C speed."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def bare_return(file: TableFile) -> tuple[int, str] | None:
    """The row and column of the first carriage return outside quotes; None where there is none."""
    offset = 0
    for quoted, piece in _pieces(file, file.bytes):
        if not quoted and b"\r" in piece:
            return _place(file, offset + piece.index(b"\r"))
        offset += len(piece)
    return None


def _place(file: TableFile, offset: int) -> tuple[int, str]:
    """The row (from 1, the header not counted) and the column that hold a byte of the file."""
    row = column = 0
    for quoted, piece in _pieces(file, offset):
        if quoted:
            continue
        if b"\n" in piece:
            row, column = row + piece.count(b"\n"), 0
        column += piece.count(b",", piece.rfind(b"\n") + 1)
    names = file.schema.names
    return row, names[column] if column < len(names) else f"number {column + 1}"


def _pieces(file: TableFile, end: int) -> Iterator[tuple[bool, bytes]]:
    """The file up to a byte, cut after each quote: whether a piece lies inside quotes, its bytes.

    Bytes methods can then count what a loop over bytes would take minutes for.
    """
    quoted = False
    with file.path.open("rb") as source:
        while end > 0 and (chunk := source.read(min(_CHUNK, end))):
            end -= len(chunk)
            *closed, rest = chunk.split(b'"')
            for piece in closed:
                yield quoted, piece + b'"'
                quoted = not quoted
            yield quoted, rest
