"""The hash file beside a published ZIP, for `sha256sum -c` in the same folder."""

from __future__ import annotations

from exporters.archive.archive import Archive, update
from exporters.archive.entries import Entry
from transforms.stores.store import LostRaceError


def hash_line(entry: Entry) -> bytes:
    """The content of the hash file beside a ZIP, as `sha256sum` writes it."""
    return f"{entry.sha256}  {entry.path.rpartition('/')[2]}\n".encode()


def put_hash_file(archive: Archive, entry: Entry) -> None:
    """Write the hash file beside a ZIP, whatever is there."""
    key, content = archive.key(f"{entry.path}.sha256"), hash_line(entry)
    try:
        archive.store.put_if_match(key, content, None, "text/plain; charset=utf-8")
    except LostRaceError:
        # There is one already: the same, or that of a file which has been replaced.
        update(archive.store, key, lambda _: content, "text/plain; charset=utf-8")
