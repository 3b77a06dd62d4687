"""The steps of a load by plain tools, as text: what a load by these tools could cost at the least.

Each CSV is inflated, hashed and written, by ISA-L and OpenSSL; DuckDB writes those of a table as
Parquet, and CSV again from that, in memory without a bound; that is compared with the source and
deflated by ISA-L. Nothing has a type, nothing can be looked up, and no rows are checked. Not every
CSV is the same: plain DuckDB quotes other texts than PostgreSQL.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
from isal import isal_zlib

_CHUNK = 1 << 18
_RAW_DEFLATE = -15
_LOCAL_HEADER_BYTES = 30


def plain_steps(zips: Sequence[Path], folder: Path) -> None:
    """Take the steps for the history of segments, in a new folder, one thread.

    Raises `RuntimeError` where what was read is not what the ZIPs have, or nothing came back.
    """
    folder.mkdir()
    equal_bytes = 0
    for table, texts in _unpacked(zips, folder).items():
        joined = _rendered(texts, folder / table)
        deflater = isal_zlib.compressobj(1, wbits=_RAW_DEFLATE)
        for source, ours in zip(_bodies(texts), _bodies([joined]), strict=False):
            equal_bytes += len(ours) if source == ours else 0
            deflater.compress(ours)
        deflater.flush()
    if not equal_bytes:
        raise RuntimeError("no CSV came back as it was: these are not the steps of a load")


def _unpacked(zips: Sequence[Path], folder: Path) -> Mapping[str, list[Path]]:
    """The CSVs of each table, in the order of the segments."""
    texts = defaultdict(list)
    for path in zips:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for info in archive.infolist():
                kind, _, table = info.filename.partition("/")
                if kind == "history":
                    file.seek(info.header_offset + _LOCAL_HEADER_BYTES + len(info.filename))
                    texts[table].append(folder / f"{path.stem}-{table}.csv")
                    if _inflate(file.read(info.compress_size), texts[table][-1]) != info.CRC:
                        raise RuntimeError(f"{path.name}: {info.filename} has another CRC-32")
    return texts


def _inflate(data: bytes, target: Path) -> int:
    """Write the text of a deflate stream; returns its CRC-32."""
    inflater, digest, crc = isal_zlib.decompressobj(wbits=_RAW_DEFLATE), hashlib.sha256(), 0
    with target.open("wb") as file:
        for start in range(0, len(data), _CHUNK):
            piece = inflater.decompress(data[start : start + _CHUNK])
            digest.update(piece)
            crc = isal_zlib.crc32(piece, crc)
            file.write(piece)
    return crc


def _rendered(texts: Sequence[Path], target: Path) -> Path:
    """The rows of CSVs, through a Parquet file, as one CSV."""
    parquet, joined = target.with_suffix(".parquet"), target.with_suffix(".csv")
    rows = f"from read_csv({[*map(str, texts)]}, header = true, all_varchar = true)"
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("set enable_progress_bar = false")
        con.execute(f"copy ({rows}) to '{parquet}' (format parquet)")
        con.execute(f"copy (from '{parquet}') to '{joined}' (format csv, header true)")
    return joined


def _bodies(texts: Sequence[Path]) -> Iterator[bytes]:
    """What follows the headers of CSVs, in pieces of one length."""
    rest = b""
    for path in texts:
        with path.open("rb") as file:
            file.readline()
            while piece := file.read(_CHUNK - len(rest)):
                rest += piece
                if len(rest) == _CHUNK:
                    yield rest
                    rest = b""
    yield rest
