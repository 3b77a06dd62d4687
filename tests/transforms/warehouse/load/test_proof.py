"""The proof names the first place where a rendering differs from its source."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.errors import SegmentError
from transforms.segments.segment_name import SegmentName
from transforms.segments.segment_zip import TableFile
from transforms.tables.registry import Column, TableSchema
from transforms.warehouse.load.proof import ProofError, proven_body
from transforms.warehouse.load.row_text import RowText

_SCHEMA = TableSchema("orders", (Column("id", "bytea"), Column("size", "bigint")))
_NAME = SegmentName.parse("kit-chain-1-1-1000.zip")


def _file(folder: Path, body: bytes) -> TableFile:
    path = folder / "source.csv"
    path.write_bytes(_SCHEMA.header + body)
    header = len(_SCHEMA.header)
    return TableFile(_NAME, _SCHEMA, 0, header + len(body), "", path, header, 0)


def _prove(file: TableFile, rendered: bytes) -> bytes:
    return b"".join(proven_body(file, _text(rendered)))


def _text(rendered: bytes) -> RowText:
    """A text that comes in several batches, of which one has no row, and one no text."""
    lines = pa.array(rendered.splitlines(keepends=True), pa.binary())
    parts = [lines[:1], lines[:0], pa.array([b""], pa.binary()), lines[1:]]
    return RowText(pa.record_batch({"line": part}) for part in parts)


@pytest.mark.parametrize("body", [b"", b"1,2\n", b'"a\n""b",\n' * 3, b"x,y\n" * 600_000])
def test_equal_bytes_pass_through(tmp_path: Path, body: bytes) -> None:
    assert _prove(_file(tmp_path, body), body) == body


@pytest.mark.parametrize(
    ("source", "ours", "row", "column", "theirs", "mine"),
    [
        (b"1,2\n", b"9,2\n", 1, "id", "1,2", "9,2"),
        (b"1,2\n", b"1,9\n", 1, "size", "2", "9"),
        (b"1,2\n3,4\n", b"1,2\n3,5\n", 2, "size", "4", "5"),
        (b"1,2\n3,4\n", b"1,2\n", 2, "id", "3,4", ""),
        (b"1,2\n", b"", 1, "id", "1,2", ""),
        (b'"a\nb,c",2\n', b'"a\nb,c",3\n', 1, "size", "2", "3"),
        (b'"a""\nb",2\n3,4\n', b'"a""\nb",2\n3,5\n', 2, "size", "4", "5"),
        (b'"a,b",2\n', b'"a,c",2\n', 1, "id", 'b"', 'c"'),
        (b"1,\n", b'1,""\n', 1, "size", "\\n", '"'),
        (b'1,"x"\n', b"1,x\n", 1, "size", '"x"', "x"),
        (b"1,2,3\n", b"1,2,4\n", 1, "number 3", "3", "4"),
        (b"1,2\r\n", b"1,2\n", 1, "size", "\\r", ""),
    ],
)
def test_the_first_difference_is_named_by_row_and_column(
    tmp_path: Path, source: bytes, ours: bytes, row: int, column: str, theirs: str, mine: str
) -> None:
    with pytest.raises(ProofError) as caught:
        _prove(_file(tmp_path, source), ours)
    message = str(caught.value)
    assert message.startswith(
        f"kit-chain-1-1-1000.zip: table orders, row {row}, column {column}: the source has b"
    )
    shown, _, rendered = message.partition(" where a CSV of spec 2.8 has b")
    assert theirs in shown.split("the source has b")[1]
    assert mine in rendered


def test_a_difference_far_inside_is_found(tmp_path: Path) -> None:
    body = b"1,2\n" * 600_000
    wrong = body[:-2] + b"3\n"
    with pytest.raises(ProofError, match=r"row 600000, column size: the source has b'2\\n'"):
        _prove(_file(tmp_path, body), wrong)


def test_no_byte_of_a_differing_chunk_is_passed_on(tmp_path: Path) -> None:
    body = b"1,2\n" * 100_000
    proven = proven_body(_file(tmp_path, body), _text(body[:-2] + b"3\n"))
    first = next(proven)
    assert 0 < len(first) < len(body)
    assert body.startswith(first)
    with pytest.raises(ProofError):
        next(proven)


def test_a_failed_proof_quarantines_the_segment_it_names(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match=r"^kit-chain-1-1-1000\.zip: table orders, row 1"):
        _prove(_file(tmp_path, b"1,2\n"), b"1,3\n")


@settings(max_examples=200, deadline=None)
@given(st.text('ab,\n"', max_size=20), st.text('ab,\n"', max_size=20))
def test_a_proof_holds_for_equal_bytes_only(
    tmp_path_factory: pytest.TempPathFactory, source: str, ours: str
) -> None:
    file = _file(tmp_path_factory.getbasetemp(), source.encode())
    if ours.startswith(source):  # that more rows are there is found by counting them
        assert _prove(file, ours.encode()) == source.encode()
        return
    with pytest.raises(ProofError):
        _prove(file, ours.encode())
