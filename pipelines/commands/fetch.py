"""`strata fetch`: published ZIPs from an archive anywhere, proven, and joined into a range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from exporters.archive.figures import size_text
from exporters.fetching.places import choose_chain, opened_archive
from exporters.fetching.range_fetch import JOBS, RangeFetch, fetch_range
from pipelines.commands.display import Screen
from pipelines.commands.options import json_option


@click.command("fetch", short_help="Fetch published ZIPs from an archive, proven and joined.")
@click.argument("archive")
@click.option("--chain", metavar="ID", help="The chain [the only one of the archive].")
@click.option("--table", help="The table of a range.")
@click.option("--from", "first", type=int, metavar="BLOCK", help="First block [that of the table].")
@click.option("--to", "last", type=int, metavar="BLOCK", help="Last block [that of the table].")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder to fetch into; made where it is missing.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=JOBS,
    show_default=True,
    help="How many ZIPs are fetched at a time.",
)
@json_option
def command(
    archive: str,
    chain: str | None,
    table: str | None,
    first: int | None,
    last: int | None,
    out: Path,
    jobs: int,
    as_json: bool,
) -> None:
    """Fetch from ARCHIVE: a folder, s3://<bucket>/<prefix>, or https://, also of `strata serve`.

    With --table, one table over a range of blocks: the published ZIPs that hold it are fetched
    below --out, each is held against the hash in the index, and they are joined into the ZIP that
    `strata export` would give. FROM must be the first block of a segment, TO the last block of one.

    Run it again to go on where it stopped: what is there is not fetched again.
    """
    if table is None:
        raise click.UsageError("give --table TABLE")
    screen = Screen(as_json)
    warnings: list[str] = []

    def warn(text: str) -> None:
        warnings.append(text)
        screen.message(f"warning: {text}")

    with opened_archive(archive) as store:
        source = choose_chain(store, chain)
        found = fetch_range(
            source, table, first, last, out, jobs=jobs, progress=screen.progress, warn=warn
        )
    _show(screen, found)
    screen.document({**_facts(found), "warnings": warnings})


def _show(screen: Screen, found: RangeFetch) -> None:
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


def _facts(found: RangeFetch) -> dict[str, Any]:
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
