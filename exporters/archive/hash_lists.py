"""Hash files, hash lists and signatures of a chain, as `sha256sum` and minisign read them.

`SHA256SUMS` has a line for each JSON document, `strata.sql` and its database, and of each shard for
its file and for its list of hashes; that one has a line for each ZIP. So two commands in the
chain's folder check all of it, and one more ZIP rewrites its shard's list and this one, which has
200 bytes for each shard:

    sha256sum -c SHA256SUMS
    cat index/*.sha256 | sha256sum -c

Pages are left out: they say nothing of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from exporters.archive.archive import Archive, put_new
from exporters.archive.entries import Entry
from exporters.archive.index import ArchiveIndex
from exporters.archive.shards import hashes_path
from exporters.archive.sums import completeness

if TYPE_CHECKING:
    from exporters.signing_keys import Signer

SUMS = "SHA256SUMS"


def sums_text(index: ArchiveIndex, documents: Mapping[str, str]) -> bytes:
    """The list over an index and the hashes of the documents beside it, by path."""
    hashes = [*documents.items()]
    for number, shard in index.shards.items():
        hashes += ((shard.path, shard.sha256), (hashes_path(number), shard.hashes_sha256))
    return "".join(f"{sha256}  {path}\n" for path, sha256 in hashes).encode()


def parse_sums(text: bytes) -> dict[str, str]:
    """The hashes by path; nothing of lines that are damaged."""
    lines = (line.partition("  ") for line in text.decode(errors="replace").splitlines())
    return {path: sha256 for sha256, _, path in lines}


def hash_line(entry: Entry) -> bytes:
    """The content of the hash file beside a ZIP, as `sha256sum` writes it."""
    return f"{entry.sha256}  {entry.path.rpartition('/')[2]}\n".encode()


def put_hash_file(archive: Archive, entry: Entry) -> None:
    """Write the hash file beside a ZIP, whatever is there."""
    key, content = archive.key(f"{entry.path}.sha256"), hash_line(entry)
    put_new(archive.store, key, content, "text/plain; charset=utf-8")


ENDING = ".minisig"
"""What follows a file's name in that of its signature."""

SIGNATURES = (SUMS, "index.json")
"""The documents that are signed; whatever else there is follows from them, or hashes to them."""


def signature(archive: Archive, signer: Signer, name: str, old: bytes | None) -> bytes:
    """The signature of a stored document: the one that is there, as long as it is right.

    So nothing is signed again that did not change, and the time in it is that of the change.
    """
    data = archive.read(name) or b""
    if old is not None and signer.has_signed(data, old):
        return old
    extent = completeness(archive.index().tables)
    blocks = f"block {extent.span.last}" if extent.span else "no block"
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    comment = f"chain {archive.chain_id}, up to {blocks}, file {name}, signed {now}"
    return signer.sign(data, comment)
