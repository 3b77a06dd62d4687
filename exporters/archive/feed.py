"""`feed.xml` of a chain: what was published and replaced, as an Atom feed (RFC 4287).

It follows from the newest shards and the revisions: the same archive gives the same bytes. Nobody
records when a ZIP was published; an entry of a segment has the time of its last block instead, and
a segment whose times are not known has no entry. Files that were replaced together are one entry.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from itertools import groupby
from urllib.parse import quote

from exporters.archive.figures import blocks_text, size_text
from exporters.archive.recent import PublishedSegment
from exporters.archive.revisions import Revision
from exporters.archive.templating import render

MOST_ENTRIES = 100
_MOST_FILES = 20  # that an entry of the list of revisions names
_NOTHING_YET = "1970-01-01T00:00:00Z"  # a feed must say when it changed, also one without entries
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry: its id is a URN, `updated` is RFC 3339, links are relative to the chain's folder.

    `page` shows it to people, `related` are the files that it is about.
    """

    id: str
    updated: str
    title: str
    text: str
    page: str
    related: tuple[str, ...] = ()


def feed_xml(
    chain_id: str, segments: Iterable[PublishedSegment], replaced: Sequence[Revision]
) -> bytes:
    """The feed of the newest entries about these segments and the replaced files."""
    entries = sorted(
        (*_published(chain_id, segments), *_replaced(chain_id, replaced)),
        key=lambda entry: (entry.updated, entry.id),
        reverse=True,
    )[:MOST_ENTRIES]
    return render(
        "exporters.archive",
        "feed.xml",
        id=_urn(chain_id, "feed"),
        title=_xml_text(f"Network history of {chain_id}"),
        updated=entries[0].updated if entries else _NOTHING_YET,
        entries=entries,
    )


def _published(chain_id: str, segments: Iterable[PublishedSegment]) -> Iterator[FeedEntry]:
    for item in segments:
        if item.times is None:
            continue
        first, last = item.times
        yield FeedEntry(
            _urn(chain_id, f"published {item.blocks}"),
            last,
            f"Blocks {blocks_text(item.blocks)} published",
            f"{item.zips} ZIPs with {item.rows:,} rows, {size_text(item.bytes)}, of blocks from "
            f"{first} to {last}. The time of this entry is that of the last block.",
            item.shard.replace(".json", ".html"),
            (item.shard,),
        )


def _replaced(chain_id: str, replaced: Sequence[Revision]) -> Iterator[FeedEntry]:
    """What was replaced at one time for one reason is one entry."""
    for (at, reason), events in groupby(replaced, key=lambda event: (event.at, event.reason)):
        paths = [event.path for event in events]
        first, count = paths[:_MOST_FILES], len(paths)
        more = f" and {count - len(first)} more" if count > len(first) else ""
        updated = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        yield FeedEntry(
            _urn(chain_id, f"replaced {updated} {reason} {paths[0]}"),
            updated,
            f"{count} file{'s' if count > 1 else ''} replaced",
            _xml_text(f"{reason}: {', '.join(first)}{more}. The list of revisions has the hashes."),
            "index.html",
            ("revisions.json", *(quote(_xml_text(path)) for path in first)),
        )


def _urn(chain_id: str, what: str) -> str:
    """The same id for the same thing, wherever a copy of the archive lies."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"strata:{chain_id}:{what}").urn


def _xml_text(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
