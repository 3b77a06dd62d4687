"""The archive as pages for people: static, without scripts, made from the index alone.

The same index gives the same bytes. Links are relative, so a copy of the archive browses as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporters.archive.coverage import Coverage
from exporters.archive.entries import Entry
from exporters.archive.figures import blocks_text, coverage_bar, size_text, sizes_text
from exporters.archive.index import Root, ShardSummary
from exporters.archive.ledger import Replacement
from exporters.archive.markup import Html, joined, link, page, table, tag
from exporters.archive.shards import Shard, shard_path
from exporters.archive.sums import Completeness, TableSums, completeness
from transforms.blocks import BlockRange

_LISTED_GAPS = 200

_VERIFY = """\
# one file, in its folder
sha256sum -c <name>.zip.sha256
# everything that begins within one stretch of blocks, in the chain's folder
sha256sum -c index/<first block>.sha256
"""


def home_page(roots: Sequence[Root]) -> bytes:
    """The page that lists the chains of a store."""
    rows = []
    for root in roots:
        tables = root.tables
        extent = completeness(tables)
        rows.append(
            (
                link(f"{root.chain_id}/index.html", root.chain_id),
                _until(extent),
                blocks_text(extent.held),
                *sizes_text(tables.values()),
            )
        )
    heads = ("chain", "#complete until", "blocks", "#ZIPs", "#rows", "#size")
    intro = tag("p", "Exact CSV exports of network history, one ZIP per table and segment.")
    return page("Network history", tag("h1", "Network history"), intro, table(heads, rows))


def chain_page(root: Root, replaced: Sequence[Replacement]) -> bytes:
    """The page of one chain: how far it goes, what is missing, where everything is."""
    tables = root.tables
    extent = completeness(tables)
    return page(
        f"{root.chain_id}: network history",
        tag("nav", link("../index.html", "All chains")),
        tag("h1", root.chain_id),
        _facts(extent, tables.values()),
        tag("p", _sentence(extent)),
        tag("h2", "Tables"),
        _coverage_table(tables, extent.held),
        *_gap_list(extent.gaps),
        tag("h2", "Files"),
        table(("blocks", "#ZIPs", "#rows", "#size", "index"), map(_shard_row, root.shards)),
        *_replaced_list(replaced),
        tag("h2", "Check a download"),
        tag("pre", _VERIFY),
        tag("p", "Machine-readable: ", link("index.json", "index.json")),
    )


def shard_page(shard: Shard) -> bytes:
    """The page of one stretch of blocks: every ZIP with its rows, size and hash."""
    tables: dict[str, list[Entry]] = {}
    for entry in shard.entries:
        tables.setdefault(entry.table, []).append(entry)
    heads = ("file", "blocks", "#rows", "#size", "schema versions", "SHA-256")
    sections = (
        joined(tag("h2", name, id=name), table(heads, map(_zip_row, tables[name])))
        for name in sorted(tables)
    )
    title = f"{shard.chain_id}: blocks {blocks_text(shard.blocks)}"
    jump = joined(*(joined(link(f"#{name}", name), " ") for name in sorted(tables)))
    return page(
        title,
        tag("nav", link("../index.html", shard.chain_id)),
        tag("h1", title),
        tag("p", jump),
        *sections,
    )


def _facts(extent: Completeness, tables: Iterable[TableSums]) -> Html:
    zips, rows, size = sizes_text(tables)
    facts = [
        ("Complete until block", _until(extent)),
        ("Blocks", blocks_text(extent.held)),
        ("ZIPs", zips),
        ("Rows", rows),
        ("Size", size),
    ]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts))


def _sentence(extent: Completeness) -> str:
    if extent.held is None:
        return "Nothing is published yet."
    if not extent.gaps:
        return "All 15 tables are here for every block; there are no gaps."
    return (
        "From the first block up to the height above, all 15 tables are here without a gap. "
        "What is missing after it is listed below."
        if extent.until is not None
        else "The first blocks are not complete yet: some of the 15 tables are still missing there."
    )


def _coverage_table(tables: dict[str, TableSums], held: BlockRange | None) -> Html:
    rows = (
        (
            name,
            coverage_bar(sums.covered, held) if held else "",
            f"{sums.zips:,}",
            f"{sums.windows:,}",
            f"{sums.rows:,}",
            size_text(sums.bytes + sums.window_bytes),
        )
        for name, sums in tables.items()
    )
    return table(("table", "coverage", "#ZIPs", "#windows", "#rows", "#size"), rows)


def _gap_list(gaps: Coverage) -> list[Html]:
    if not gaps:
        return []
    shown = ", ".join(blocks_text(gap) for gap in gaps[:_LISTED_GAPS])
    more = len(gaps) - _LISTED_GAPS
    rest = f" and {more:,} more: see index.json" if more > 0 else ""
    missing = f"At least one table is missing for blocks {shown}{rest}."
    return [tag("h2", "Gaps"), tag("p", missing)]


def _replaced_list(replaced: Sequence[Replacement]) -> list[Html]:
    if not replaced:
        return []
    rows = (
        (
            f"{event.at:%Y-%m-%d %H:%M} UTC",
            link(event.path, event.path.rpartition("/")[2]),
            tag("span", event.reason, class_="prose"),
            joined(tag("code", event.old_sha256), " became ", tag("code", event.new_sha256)),
        )
        for event in reversed(replaced)
    )
    return [
        tag("h2", "Replaced files"),
        table(("when", "file", "why", "SHA-256"), rows),
        tag("p", "Machine-readable: ", link("ledger.json", "ledger.json")),
    ]


def _shard_row(shard: ShardSummary) -> tuple[str, ...]:
    blocks = shard.blocks
    path = shard_path(shard.number)
    listing = link(path.replace(".json", ".html"), blocks_text(blocks))
    index = joined(link(path, "JSON"), " ", tag("code", shard.sha256))
    return (listing, *sizes_text(shard.tables.values()), index)


def _zip_row(entry: Entry) -> tuple[str, ...]:
    path = f"../{entry.path}"
    links = joined(
        link(path, entry.path.rpartition("/")[2]), " ", link(f"{path}.sha256", ".sha256")
    )
    versions = ", ".join(str(member.version) for member in entry.members)
    sizes = (f"{entry.rows:,}", size_text(entry.bytes))
    return (links, blocks_text(entry.blocks), *sizes, versions, tag("code", entry.sha256))


def _until(extent: Completeness) -> str:
    return "not yet" if extent.until is None else f"{extent.until:,}"
