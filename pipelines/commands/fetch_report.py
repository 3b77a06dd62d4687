"""What `strata fetch` says of what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exporters.archive.figures import size_text
from exporters.fetching.mirror import Mirrored
from exporters.fetching.range_fetch import RangeFetch
from pipelines.commands.display import Screen
from transforms.errors import IntegrityError


def show_range(screen: Screen, fetch: RangeFetch) -> None:
    """The ZIPs that a range is made of, and the range."""
    screen.table(
        "",
        ("ZIP", "bytes", "fetched", "SHA-256"),
        (
            (part.entry.path.rpartition("/")[2], part.entry.bytes, part.fetched, part.entry.sha256)
            for part in fetch.zips
        ),
    )
    fetched = f"{size_text(fetch.fetched_bytes)} fetched in {fetch.seconds:.1f} s"
    there = "was there already" if fetch.was_there else fetched
    screen.show(f"{fetch.path}: {fetch.layout.size:,} bytes, {there}")
    screen.show(f"SHA-256 {fetch.sha256}")
    screen.document({**_range_facts(fetch), "warnings": screen.warnings})


def show_mirrors(screen: Screen, mirrors: Sequence[Mirrored]) -> None:
    """What is there of each chain, what came now, what was replaced, what failed.

    Raises the first failure at its end.
    """
    columns = ("chain", "ZIPs", "bytes", "fetched", "bytes fetched", "replaced", "lake files", "s")
    screen.table("", columns, map(_mirror_row, mirrors))
    for replaced in (replaced for mirror in mirrors for replaced in mirror.replaced):
        why = replaced.event.reason if replaced.event else "the list of revisions does not say why"
        screen.show(f"replaced: {replaced.entry.path}: {why}")
    screen.document({"chains": [_mirror_facts(mirror) for mirror in mirrors]})
    failures: list[IntegrityError] = [item for mirror in mirrors for item in mirror.failures]
    failures += (IntegrityError(reason) for mirror in mirrors for reason in mirror.lake_refused)
    for failure in failures[1:]:
        screen.message(str(failure))
    if failures:
        raise failures[0]


def _mirror_row(mirror: Mirrored) -> Sequence[object]:
    whole = (mirror.chain_id, mirror.zips, mirror.bytes)
    now = (len(mirror.fetched), mirror.fetched_bytes, len(mirror.replaced), mirror.lake_files)
    return (*whole, *now, f"{mirror.seconds:.1f}")


def _mirror_facts(mirror: Mirrored) -> dict[str, Any]:
    return {
        "chain_id": mirror.chain_id,
        "zips": mirror.zips,
        "bytes": mirror.bytes,
        "fetched": mirror.fetched,
        "fetched_bytes": mirror.fetched_bytes,
        "replaced": [
            {
                "path": replacement.entry.path,
                "old_sha256": replacement.old_sha256,
                "new_sha256": replacement.entry.sha256,
                "reason": replacement.event.reason if replacement.event else None,
                "at": replacement.event.at.isoformat() if replacement.event else None,
            }
            for replacement in mirror.replaced
        ],
        "failures": [str(failure) for failure in mirror.failures],
        "lake": {
            "fetched": mirror.lake_files,
            "fetched_bytes": mirror.lake_bytes,
            "refused": mirror.lake_refused,
        },
        "documents": mirror.documents,
        "seconds": round(mirror.seconds, 3),
    }


def _range_facts(fetch: RangeFetch) -> dict[str, Any]:
    plan = fetch.plan.export
    return {
        "chain_id": plan.chain_id,
        "table": plan.table,
        "from": plan.blocks.first,
        "to": plan.blocks.last,
        "path": str(fetch.path),
        "bytes": fetch.layout.size,
        "sha256": fetch.sha256,
        "was_there": fetch.was_there,
        "fetched_bytes": fetch.fetched_bytes,
        "seconds": round(fetch.seconds, 3),
        "members": [
            {
                "name": member.name,
                "schema_version": member.version,
                "blocks": str(member.blocks),
                "rows": member.rows,
                "csv_bytes": member.csv_bytes,
            }
            for member in fetch.layout.members
        ],
        "zips": [
            {
                "path": part.entry.path,
                "bytes": part.entry.bytes,
                "sha256": part.entry.sha256,
                "fetched_bytes": part.fetched,
            }
            for part in fetch.zips
        ],
    }
