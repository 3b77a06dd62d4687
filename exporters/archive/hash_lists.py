"""`SHA256SUMS` of a chain: hashes from which everything else can be checked, as `sha256sum` reads.

It has a line for each JSON document, `strata.sql` and its database, and of each shard for its file
and for its list of hashes; that one has a line for each ZIP. So two commands in the chain's folder
check all of it, and one more ZIP rewrites its shard's list and this one, which has 200 bytes for
each shard:

    sha256sum -c SHA256SUMS
    cat index/*.sha256 | sha256sum -c

Pages are left out: they say nothing of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporters.archive.index import ArchiveIndex
from exporters.archive.shards import hashes_path, shard_path

SUMS = "SHA256SUMS"


def sums_text(index: ArchiveIndex, documents: Mapping[str, str]) -> bytes:
    """The list over an index and the hashes of the documents beside it, by path."""
    hashes = (*documents.items(), *_shards(index))
    return "".join(f"{sha256}  {path}\n" for path, sha256 in hashes).encode()


def parse_sums(text: bytes) -> dict[str, str]:
    """The hashes by path; nothing of lines that are damaged."""
    lines = (line.partition("  ") for line in text.decode(errors="replace").splitlines())
    return {path: sha256 for sha256, _, path in lines}


def _shards(index: ArchiveIndex) -> Iterator[tuple[str, str]]:
    for number, sha256, hashes_sha256 in index.hashes():
        yield shard_path(number), sha256
        yield hashes_path(number), hashes_sha256
