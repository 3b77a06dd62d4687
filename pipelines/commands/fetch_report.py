"""What `strata fetch` says of what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exporters.archive.figures import size_text
from exporters.fetching.mirror import Mirrored
from exporters.fetching.range_fetch import RangeFetch
from pipelines.commands.display import Screen


def show_range(screen: Screen, found: RangeFetch, warnings: Sequence[str]) -> None:
    """The ZIPs that a range is made of, and the range; `warnings` go into the JSON."""
    screen.table(
        "",
        ("ZIP", "bytes", "fetched", "SHA-256"),
        (
            (one.entry.path.rpartition("/")[2], one.entry.bytes, one.fetched, one.entry.sha256)
            for one in found.zips
        ),
    )
    fetched = f"{size_text(found.fetched_bytes)} fetched in {found.seconds:.1f} s"
    there = "was there already" if found.was_there else fetched
    screen.show(f"{found.path}: {found.layout.size:,} bytes, {there}")
    screen.show(f"SHA-256 {found.sha256}")
    screen.document({**_range_facts(found), "warnings": warnings})


def show_mirrors(screen: Screen, found: Sequence[Mirrored]) -> None:
    """What is there of each chain, what came now, what was replaced, what failed.

    Raises the first failure at its end.
    """
    columns = ("chain", "ZIPs", "bytes", "fetched", "bytes fetched", "replaced", "seconds")
    screen.table("", columns, map(_mirror_row, found))
    for replaced in (replaced for one in found for replaced in one.replaced):
        why = replaced.event.reason if replaced.event else "the list of revisions does not say why"
        screen.show(f"replaced: {replaced.entry.path}: {why}")
    screen.document({"chains": [_mirror_facts(one) for one in found]})
    failures = [failure for one in found for failure in one.failures]
    for failure in failures[1:]:
        screen.message(str(failure))
    if failures:
        raise failures[0]


def _mirror_row(found: Mirrored) -> Sequence[object]:
    whole = (found.chain_id, found.zips, found.bytes)
    now = (len(found.fetched), found.fetched_bytes, len(found.replaced), f"{found.seconds:.1f}")
    return (*whole, *now)


def _mirror_facts(found: Mirrored) -> dict[str, Any]:
    return {
        "chain_id": found.chain_id,
        "zips": found.zips,
        "bytes": found.bytes,
        "fetched": found.fetched,
        "fetched_bytes": found.fetched_bytes,
        "replaced": [
            {
                "path": one.entry.path,
                "old_sha256": one.old_sha256,
                "new_sha256": one.entry.sha256,
                "reason": one.event.reason if one.event else None,
                "at": one.event.at.isoformat() if one.event else None,
            }
            for one in found.replaced
        ],
        "failures": [str(failure) for failure in found.failures],
        "documents": found.documents,
        "seconds": round(found.seconds, 3),
    }


def _range_facts(found: RangeFetch) -> dict[str, Any]:
    plan = found.plan.export
    return {
        "chain_id": plan.chain_id,
        "table": plan.table,
        "from": plan.blocks.first,
        "to": plan.blocks.last,
        "path": str(found.path),
        "bytes": found.layout.size,
        "sha256": found.sha256,
        "was_there": found.was_there,
        "fetched_bytes": found.fetched_bytes,
        "seconds": round(found.seconds, 3),
        "members": [
            {
                "name": member.name,
                "schema_version": member.version,
                "blocks": str(member.blocks),
                "rows": member.rows,
                "csv_bytes": member.csv_bytes,
            }
            for member in found.layout.members
        ],
        "zips": [
            {
                "path": one.entry.path,
                "bytes": one.entry.bytes,
                "sha256": one.entry.sha256,
                "fetched_bytes": one.fetched,
            }
            for one in found.zips
        ],
    }
