"""`strata fetch`: published ZIPs from an archive anywhere, proven, and joined into a range."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from exporters.archive.archive import Archive, chains
from exporters.archive.figures import size_text
from exporters.fetching.fetch_folder import choose_chain, opened_archive
from exporters.fetching.range_fetch import RangeFetch, fetch_range
from exporters.fetching.range_plan import choose_blocks
from exporters.mirroring.mirror import Mirrored, mirror
from pipelines.commands.display import Screen
from pipelines.commands.options import range_options, screen_option
from transforms.bounds import both_bounds
from transforms.errors import IntegrityError


@click.command("fetch")
@click.argument("archive")
@click.option("--all", "is_whole", is_flag=True, help="Fetch everything: a mirror of the archive.")
@click.option("--chain", metavar="ID", help="The chain [the only one; with --all every one].")
@click.option("--table", help="The table of a range.")
@range_options
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder to fetch into; made where it is missing.",
)
@screen_option
def command(
    archive: str,
    is_whole: bool,
    chain: str | None,
    table: str | None,
    start: str | None,
    end: str | None,
    out: Path,
    screen: Screen,
) -> None:
    """Fetch from ARCHIVE: a folder, s3://<bucket>/<prefix>, or https://, also of `strata serve`.

    With --table, one table over a range of blocks: the published ZIPs that hold it are fetched
    below --out, each is held against the hash in the index, and they are joined into the ZIP that
    `strata export` would give. A range snaps outwards to whole segments.

    With --all, --out becomes a mirror: an archive with every ZIP, document and lake file, that can
    be verified, served, fetched and loaded from. Run again, it gets only what is new or was
    replaced.

    Run it again to go on where it stopped: what is there is not fetched again.
    """
    if is_whole and (table or start or end):
        raise click.UsageError("--all fetches everything: leave --table, --from and --to out")
    if not is_whole and table is None:
        raise click.UsageError("give --table TABLE, or --all")
    with opened_archive(archive) as store:
        if is_whole:
            names = chains(store) if chain is None else (chain,)
            sources = [choose_chain(store, name) for name in names]
            mirrors = [
                mirror(source, out, progress=screen.progress, warn=screen.message)
                for source in sources
            ]
            show_mirrors(screen, mirrors)
        elif table:
            _fetch_range(screen, choose_chain(store, chain), (table, start, end), out)


def _fetch_range(
    screen: Screen, source: Archive, scope: tuple[str, str | None, str | None], out: Path
) -> None:
    table, start, end = scope
    blocks = choose_blocks(source, table, *both_bounds(start, end))
    if start or end:
        screen.message(f"{table} over blocks {blocks}")
    show_range(screen, fetch_range(source, table, blocks, out, progress=screen.progress))


def show_range(screen: Screen, fetch: RangeFetch) -> None:
    """The ZIPs that a range is made of, and the range."""
    screen.table(
        "",
        ("ZIP", "bytes", "SHA-256"),
        ((entry.path.rpartition("/")[2], entry.bytes, entry.sha256) for entry in fetch.zips),
    )
    fetched = size_text(fetch.fetched_bytes)
    screen.show(f"{fetch.path}: {fetch.layout.size:,} bytes, {fetched} fetched")
    screen.show(f"SHA-256 {fetch.sha256}")
    plan = fetch.plan
    screen.document(
        {
            "chain_id": plan.chain_id,
            "table": plan.table,
            "blocks": plan.blocks,
            "path": fetch.path,
            "bytes": fetch.layout.size,
            "sha256": fetch.sha256,
            "fetched_bytes": fetch.fetched_bytes,
            "members": fetch.layout.members,
            "zips": fetch.zips,
        }
    )


def show_mirrors(screen: Screen, mirrors: Sequence[Mirrored]) -> None:
    """What is there of each chain, what came now, what was replaced, what failed.

    Raises the first failure at its end.
    """
    columns = ("chain", "ZIPs", "bytes", "fetched", "bytes fetched", "replaced", "lake files")
    rows = (
        (
            *(m.chain_id, m.zips, m.bytes, len(m.fetched), m.fetched_bytes),
            *(len(m.replaced), m.lake_files),
        )
        for m in mirrors
    )
    screen.table("", columns, rows)
    for path, reason in (item for each in mirrors for item in each.replaced.items()):
        screen.show(f"replaced: {path}: {reason}")
    screen.document({"chains": mirrors})
    failures: list[IntegrityError] = [item for each in mirrors for item in each.failures]
    failures += (IntegrityError(reason) for each in mirrors for reason in each.lake_refused)
    for failure in failures[1:]:
        screen.message(str(failure))
    if failures:
        raise failures[0]
