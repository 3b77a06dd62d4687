"""One segment's ZIP: what is refused before a row is read, in which words, and what is legal."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_STORED, ZipFile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile_zips import (
    REFUSED_ZIPS,
    bomb,
    escaping_entry,
    other_metadata,
    unreadable_metadata,
    without_metadata,
)
from tests.segments_kit import block_rows, build_segment, columns, entry_bytes, pg_csv
from transforms.errors import SegmentError
from transforms.segments.segment_name import SegmentName
from transforms.segments.segment_zip import (
    MAX_INFLATED_BYTES,
    SegmentZip,
    TableFile,
)
from transforms.tables.registry import HISTORY_TABLES, known_tables

_FORGED_SIZE = 2**32 - 2


def _read(path: Path, into: Path, *, bound: int = MAX_INFLATED_BYTES) -> dict[str, TableFile]:
    """Do all that a load does with a ZIP before it looks at rows."""
    into.mkdir(exist_ok=True)
    with SegmentZip(path, SegmentName.parse(path.name), bound) as opened:
        tables = {
            table: opened.extract("history", table, into) for table in opened.tables("history")
        }
        opened.check("currentstate")
        return tables


def _rewrite(path: Path, method: int) -> Path:
    """Store a segment anew by another method."""
    with ZipFile(path) as old:
        entries = {name: old.read(name) for name in old.namelist()}
    with ZipFile(path, "w", method) as new:
        for name, data in entries.items():
            new.writestr(name, data)
    return path


def _patched(path: Path, old: bytes, new: bytes) -> Path:
    path.write_bytes(path.read_bytes().replace(old, new))
    return path


def _bytes(file: TableFile) -> bytes:
    """A table's CSV as it was extracted; one that is nothing but its header has no file."""
    return file.schema.header if file.is_empty else file.path.read_bytes()


def test_every_table_comes_out_as_it_lies_in_the_zip(tmp_path: Path) -> None:
    path = build_segment(tmp_path, version=21, first=5, last=9)
    tables = _read(path, tmp_path / "out")
    assert tuple(tables) == tuple(sorted(tables))
    assert set(HISTORY_TABLES) <= set(tables)
    for table, file in tables.items():
        data = entry_bytes(path, table)
        assert file.is_empty == (data.count(b"\n") == 1)
        assert file.path.exists() != file.is_empty
        assert _bytes(file) == data
        assert file.bytes == len(data)
        assert file.sha256 == hashlib.sha256(data).hexdigest()
        assert data[: file.header_bytes] == file.schema.header
        assert file.schema.names == columns(table, 21)
        assert file.segment.file_name == path.name


def test_the_folders_of_a_zip_hold_all_tables_of_its_version(tmp_path: Path) -> None:
    path = build_segment(tmp_path, last=3)
    with SegmentZip(path, SegmentName.parse(path.name)) as opened:
        tables = opened.tables("history") + opened.tables("currentstate")
        assert opened.tables("history") == HISTORY_TABLES
        assert sorted(tables) == list(known_tables(1))


def test_stored_entries_are_read_like_deflated_ones(tmp_path: Path) -> None:
    path = build_segment(tmp_path, last=5)
    data = entry_bytes(path, "blocks")
    assert _read(_rewrite(path, ZIP_STORED), tmp_path / "out")["blocks"].path.read_bytes() == data


def test_the_names_of_folders_may_be_entries_too(tmp_path: Path) -> None:
    path = build_segment(tmp_path, last=2, extra_entries={"history/": b"", "currentstate/": b""})
    assert set(_read(path, tmp_path / "out")) == set(HISTORY_TABLES)


def test_metadata_is_optional(tmp_path: Path) -> None:
    path = without_metadata(tmp_path)
    assert set(_read(path, tmp_path / "out")) == set(HISTORY_TABLES)
    with SegmentZip(path, SegmentName.parse(path.name)) as opened:
        assert opened.previous_id == ""


@pytest.mark.parametrize(("stated", "held"), [("Qm1", "Qm1"), ("", ""), (None, "")])
def test_metadata_names_the_segment_before(tmp_path: Path, stated: object, held: str) -> None:
    path = build_segment(tmp_path, last=2, metadata={"PreviousHistorySegmentID": stated})
    with SegmentZip(path, SegmentName.parse(path.name)) as opened:
        assert opened.previous_id == held


_NOT_WHOLE = r"kit-chain-1-1-1000\.zip is not a whole ZIP file .*fetch it again"
_NOT_METADATA = r"kit-chain-1-1-1000\.zip: metadata\.json is not a segment's metadata"
_CONTRADICTS = r"kit-chain-1-1-1000\.zip: the name contradicts metadata\.json, which says "
_FOREIGN = r"kit-chain-1-1-1000\.zip holds an entry .* that is neither history/<table>"
_WORDS = {
    "a truncated file": _NOT_WHOLE,
    "a file without its directory": _NOT_WHOLE,
    "an empty file": _NOT_WHOLE,
    "a file that is no ZIP": _NOT_WHOLE,
    "an entry with a wrong CRC": r"history/orders cannot be inflated \(Bad CRC-32.*fetch the file",
    "an entry with a flipped bit": r"history/blocks cannot be inflated .*fetch the file again",
    "an entry marked as encrypted": r"kit-chain-1-1-1000\.zip: history/orders is encrypted, or",
    "an entry larger than it says": r"history/blocks .* \(it has more than its 1000 bytes",
    "an entry smaller than it says": r"history/blocks .* \(it ends after \d+ of 1048576 bytes",
    "an entry of which a part is called the whole": r"history/blocks .* \(it has more than its",
    "an entry with bytes after its stream": r"history/orders .* \(other bytes follow its deflate",
    "an entry with rows after its stream": r"history/orders .* \(other bytes follow its deflate",
    "an entry whose stream has no end": r"history/orders .* \(its deflate stream has no end",
    "an entry named ../evil": _FOREIGN,
    "an entry with an absolute name": _FOREIGN,
    "an entry with a backslash name": _FOREIGN,
    "an entry that climbs from inside": _FOREIGN,
    "a missing table": r"kit-chain-1-1-1000\.zip lacks the table orders: .*must still have its",
    "two entries of one name": r"kit-chain-1-1-1000\.zip: history/orders is in the ZIP twice",
    "metadata with another last block": _CONTRADICTS + r".*blocks 1 to 999",
    "metadata with another chain": _CONTRADICTS + "chain other, ",
    "metadata with another version": _CONTRADICTS + ".*schema version 2, ",
    "metadata with text for a height": _CONTRADICTS + ".*blocks one to 1000",
    "metadata that is no JSON": _NOT_METADATA,
    "metadata that is no object": _NOT_METADATA,
}


def test_the_words_are_stated_for_every_file_of_the_kit_that_is_refused() -> None:
    assert set(_WORDS) == set(REFUSED_ZIPS)


@pytest.mark.parametrize("name", _WORDS)
def test_a_broken_file_is_refused_in_words(tmp_path: Path, name: str) -> None:
    path = REFUSED_ZIPS[name](tmp_path)
    with pytest.raises(SegmentError, match=_WORDS[name]):
        _read(path, tmp_path / "out")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("HeightFrom", None, "blocks None to 1000"),
        ("HeightFrom", "1", "the name contradicts"),
        ("ChainID", ["kit-chain"], "the name contradicts"),
        ("DatabaseVersion", 10**30, "schema version 1000000"),
    ],
)
def test_metadata_of_another_kind_is_refused(
    tmp_path: Path, field: str, value: object, words: str
) -> None:
    with pytest.raises(SegmentError, match=words):
        _read(other_metadata(tmp_path, field, value), tmp_path / "out")


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff", b'"ChainID"', b"{}", b'{"ChainID": "kit-chain"}', b"[" * 500_000, b"9" * 5000],
    ids=lambda text: repr(text[:12]),
)
def test_metadata_of_any_other_text_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(SegmentError, match=_NOT_METADATA):
        _read(unreadable_metadata(tmp_path, text), tmp_path / "out")


def test_metadata_beyond_a_megabyte_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match=r"metadata\.json is there twice or too large"):
        _read(unreadable_metadata(tmp_path, b"{}" + b" " * 2**20), tmp_path / "out")


def test_two_metadata_entries_are_refused(tmp_path: Path) -> None:
    path = build_segment(tmp_path, extra_entries={"metadata.json": b"{}"})
    with pytest.raises(SegmentError, match=r"metadata\.json is there twice"):
        _read(path, tmp_path / "out")


@pytest.mark.parametrize(
    "name",
    [
        *("orders", "history/Orders", "history/orders.csv", "history/a/b", "history/../orders"),
        *("History/orders", "spam/orders", "history/1st", "history//orders", "history/orders/"),
        *("", "\u202eorders", "history/" + "a" * 64, "history/" + "a" * 3000),
    ],
    ids=lambda name: repr(name[:20]),
)
def test_an_entry_of_another_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SegmentError, match=_FOREIGN):
        _read(escaping_entry(tmp_path, name), tmp_path / "out")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "history/../../x"])
def test_nothing_is_written_outside_the_folder(tmp_path: Path, name: str) -> None:
    source, out = tmp_path / "source", tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    path = escaping_entry(source, name)
    with pytest.raises(SegmentError):
        _read(path, out)
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {path.name}


def test_all_missing_tables_are_named(tmp_path: Path) -> None:
    path = build_segment(tmp_path, omit=("blocks", "trades"))
    with pytest.raises(SegmentError, match="lacks the table blocks, trades:"):
        _read(path, tmp_path / "out")


def test_a_table_of_current_state_does_not_stand_for_one_of_history(tmp_path: Path) -> None:
    path = build_segment(tmp_path, omit=("orders",), extra_entries={"currentstate/orders": b"a\n"})
    with pytest.raises(SegmentError, match="lacks the table orders"):
        _read(path, tmp_path / "out")


def test_another_method_of_compression_is_refused(tmp_path: Path) -> None:
    path = _rewrite(build_segment(tmp_path), ZIP_BZIP2)
    with pytest.raises(SegmentError, match="is encrypted, or neither stored nor deflated"):
        _read(path, tmp_path / "out")


@pytest.mark.parametrize(("spare", "refused"), [(0, False), (-1, True)])
def test_the_inflated_size_is_bounded(tmp_path: Path, spare: int, refused: bool) -> None:
    path = build_segment(tmp_path)
    with ZipFile(path) as archive:
        size = sum(info.file_size for info in archive.infolist())
    if not refused:
        assert _read(path, tmp_path / "out", bound=size + spare)
        return
    with pytest.raises(
        SegmentError, match=f"inflate to {size} bytes, over the bound of {size - 1}"
    ):
        _read(path, tmp_path / "out", bound=size + spare)


def test_a_bomb_is_refused_before_it_is_inflated(tmp_path: Path) -> None:
    path = bomb(tmp_path)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(SegmentError, match="over the bound of 50000000"):
        _read(path, tmp_path / "out", bound=50_000_000)
    assert list((tmp_path / "out").iterdir()) == []


def test_sizes_that_are_only_claimed_count_against_the_bound(tmp_path: Path) -> None:
    """Nine entries of nearly 4 GiB each by their directory: more than a segment may inflate to."""
    path = build_segment(tmp_path)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    for _ in range(9):
        data[at + 24 : at + 28] = struct.pack("<L", _FORGED_SIZE)
        at = data.index(b"PK\x01\x02", at + 4)
    path.write_bytes(data)
    with pytest.raises(SegmentError, match=f"over the bound of {MAX_INFLATED_BYTES}"):
        _read(path, tmp_path / "out")


def test_an_entry_shorter_than_it_says_is_refused(tmp_path: Path) -> None:
    path = build_segment(tmp_path, last=3)
    stated = struct.pack("<L", len(entry_bytes(path, "blocks")))
    _patched(path, stated, struct.pack("<L", 5000))
    with pytest.raises(SegmentError, match="fetch the file again"):
        _read(path, tmp_path / "out")


def test_a_damaged_table_of_current_state_refuses_the_segment(tmp_path: Path) -> None:
    path = build_segment(tmp_path, tables={"parties": b"id\n" + b"x" * 1000})
    with ZipFile(path) as archive:
        start = archive.getinfo("currentstate/parties").header_offset
    data = bytearray(path.read_bytes())
    data[start + 14 + 4 + 30] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(SegmentError, match="currentstate/parties cannot be inflated"):
        _read(path, tmp_path / "out")


_HEADER = ",".join(columns("orders")).encode()
_TEXTS: Mapping[str, tuple[bytes, str]] = {
    "an entry of no bytes": (b"", "history/orders does not end with a line feed: it is cut short"),
    "a header without its line feed": (_HEADER, "history/orders does not end with a line feed"),
    "a row without its line feed": (_HEADER + b"\na", "history/orders does not end with a line"),
    "a line feed alone": (b"\n", "table orders: the header has a column without a name"),
    "a NUL byte": (
        _HEADER + b"\na\0\n",
        rf"history/orders has a NUL byte at byte {len(_HEADER) + 2}",
    ),
    "a NUL byte far inside": (_HEADER + b"\n" * 2**20 + b"\0\n", "has a NUL byte at byte 104[89]"),
    "a lone byte": (
        _HEADER + b"\n\xff\n",
        f"is not UTF-8 near byte {len(_HEADER) + 1}: invalid start",
    ),
    "half a character at the end": (
        _HEADER + b"\na\xc3\n",
        "is not UTF-8 near byte .*continuation",
    ),
    "a surrogate": (_HEADER + b"\n\xed\xa0\x80\n", "is not UTF-8 near byte"),
    "an overlong NUL": (_HEADER + b"\n\xc0\x80\n", "is not UTF-8 near byte"),
    "a header of two lines": (
        b'"a\nb",c\n',
        "table orders: the header has the name '\"a', not a plain one",
    ),
    "a header with CR LF": (
        _HEADER + b"\r\n",
        r"table orders: the header has the name .*\\r', not a plain one",
    ),
    "a header after a BOM": (b"\xef\xbb\xbf" + _HEADER + b"\n", "not a plain one"),
    "a header that never ends": (b"a," * 2**20 + b"\n", "orders has no header line"),
    "a header of 80 kB": (b"a," * 40_000 + b"\n", "orders has no header line"),
    "the mock data of a test": (
        b"header row\nmock data, more\n",
        "the name 'header row', not a plain one",
    ),
}


@pytest.mark.parametrize("name", _TEXTS)
def test_a_table_that_is_no_text_with_a_header_is_refused(tmp_path: Path, name: str) -> None:
    text, words = _TEXTS[name]
    path = build_segment(tmp_path, tables={"orders": text})
    with pytest.raises(SegmentError, match=words) as caught:
        _read(path, tmp_path / "out")
    assert str(caught.value).startswith("kit-chain-1-1-1000.zip: ")
    assert "orders" in str(caught.value)


def test_a_character_over_the_edge_of_two_chunks_is_text(tmp_path: Path) -> None:
    rows = [[text, None, None] for text in ("x" * (2**20 - 25), "é€😀" * 200_000)]
    data = pg_csv(columns("blocks"), rows)
    path = build_segment(tmp_path, tables={"blocks": data})
    assert _read(path, tmp_path / "out")["blocks"].path.read_bytes() == data


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    rows = (columns("blocks"), block_rows(1, 200))
    return build_segment(folder, last=200, tables={"blocks": rows})


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), flips=st.integers(1, 4), cut=st.booleans())
def test_a_damaged_file_is_refused_or_gives_the_same_bytes(
    good: Path, tmp_path: Path, seed: int, flips: int, cut: bool
) -> None:
    """Whatever is flipped or cut: no other error, and never other bytes."""
    chance = random.Random(seed)
    data = bytearray(good.read_bytes())
    directory = data.index(b"PK\x01\x02")
    for _ in range(flips):
        start = directory if chance.random() < 0.6 else 0
        data[chance.randrange(start, len(data))] ^= 1 << chance.randrange(8)
    if cut:
        del data[chance.randrange(len(data)) :]
    path = tmp_path / good.name
    path.write_bytes(data)
    try:
        tables = _read(path, tmp_path / "out")
    except SegmentError:
        return
    for table in HISTORY_TABLES:
        assert _bytes(tables[table]) == entry_bytes(good, table)
