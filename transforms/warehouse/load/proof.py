"""The proof: what a volume renders is compared with the source, byte for byte, as it passes."""

from __future__ import annotations

from collections.abc import Iterator

from transforms.errors import SegmentError
from transforms.segments.segment_zip import TableFile
from transforms.warehouse.load.row_text import RowText

_CHUNK = 1 << 18
_CONTEXT_BYTES = 30


class ProofError(SegmentError):
    """A rendered table differs from its source; the message names the first differing place."""


def proven_body(file: TableFile, rendered: RowText) -> Iterator[bytes]:
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


def _difference(file: TableFile, offset: int, source: bytes, ours: bytes) -> ProofError:
    pairs = enumerate(zip(source, ours, strict=False))
    shared = next((at for at, (one, other) in pairs if one != other), min(len(source), len(ours)))
    row, column = _place(file, offset + shared)
    shown, rendered = (text[shared : shared + _CONTEXT_BYTES] for text in (source, ours))
    return ProofError(
        f"{file.segment.file_name}: table {file.table}, row {row}, column {column}: the source has "
        f"{shown!r} where a CSV of spec 2.8 has {rendered!r}"
    )


def _place(file: TableFile, end: int) -> tuple[int, str]:
    """The row (from 1, the header not counted) and the column that hold a byte of the file."""
    row = column = 0
    quoted = False
    with file.path.open("rb") as source:
        while end > 0 and (chunk := source.read(min(_CHUNK, end))):
            end -= len(chunk)
            # Bytes methods count between quotes what a loop over bytes would take minutes for.
            for number, piece in enumerate(chunk.split(b'"')):
                quoted ^= number > 0
                if quoted:
                    continue
                if b"\n" in piece:
                    row, column = row + piece.count(b"\n"), 0
                column += piece.count(b",", piece.rfind(b"\n") + 1)
    names = file.schema.names
    return row, names[column] if column < len(names) else f"number {column + 1}"
