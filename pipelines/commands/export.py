"""`strata export`: one table over any aligned range of blocks, as one ZIP."""

from __future__ import annotations

from pathlib import Path

import click

from exporters.archive.figures import size_text
from exporters.exports.range_export import RangeExport
from exporters.exports.splice import write_hashed
from exporters.zips.layout import Layout
from pipelines.commands.display import Screen
from pipelines.commands.options import range_options, screen_option, site_options
from pipelines.site.site import Site
from transforms.bounds import both_bounds
from transforms.scratch import temporary_folder
from transforms.warehouse.questions.range_choice import SegmentChoice, choose_range


@click.command("export")
@click.argument("table")
@click.argument("first", metavar="[FROM", type=int, required=False)
@click.argument("last", metavar="TO]", type=int, required=False)
@range_options
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the ZIP; made where it is missing.",
)
@click.option("--dry-run", is_flag=True, help="Show members, segments, rows and exact sizes only.")
@click.option(
    "--null",
    default="",
    metavar="TEXT",
    help="What stands for NULL in the CSVs [nothing]; another text is rendered anew, not spliced.",
)
@site_options("warehouse", "archive")
@screen_option
def command(
    table: str,
    first: int | None,
    last: int | None,
    start: str | None,
    end: str | None,
    out: Path | None,
    dry_run: bool,
    null: str,
    site: Site,
    screen: Screen,
) -> None:
    """Write TABLE over blocks FROM to TO (both inclusive) as a ZIP of exact CSVs.

    FROM must be the first block of a segment, TO the last block of one. With --from and --to, which
    may be times, it takes all segments that these touch, and says which. Published ZIPs are joined
    as they lie, which takes as long as copying them. Its SHA-256 lies beside it (sha256sum -c).
    """
    if out is None and not dry_run:
        raise click.UsageError("give --out FOLDER, or --dry-run to see what it would be")
    choice = _choice(site, (first, last), start, end)
    if choice is not None:
        screen.message(f"taking {choice}")
        first, last = choice.blocks.first, choice.blocks.last
    assert first is not None
    assert last is not None
    with temporary_folder(prefix="strata-export-") as folder:
        if null:
            arguments = (site.loaded_catalog(), table, first, last, null)
            export = site.exporter.export_with_null(*arguments, folder)
        else:
            with screen.progress("checking") as advance:
                site.progress = advance
                export = site.export(table, first, last, screen.warn)
        path, sha256 = _write(screen, export.layout, None if dry_run else out)
        _show(screen, export, choice, path, sha256)


def _choice(
    site: Site, blocks: tuple[int | None, int | None], start: str | None, end: str | None
) -> SegmentChoice | None:
    """The range that --from and --to choose; None where FROM and TO were given."""
    if blocks == (None, None) and (start or end):
        return choose_range(site.loaded_catalog(), *both_bounds(start, end))
    if None in blocks or start or end:
        raise click.UsageError("give two blocks, FROM TO, or else --from and --to")
    return None


def _write(screen: Screen, layout: Layout, folder: Path | None) -> tuple[Path | None, str | None]:
    """Write the ZIP into a folder with its hash beside it; returns its path and its SHA-256."""
    if folder is None:
        return None, None
    path = folder / layout.name
    with screen.progress("writing", layout.size) as advance:
        return path, write_hashed(layout, path, advance)


def _show(
    screen: Screen,
    export: RangeExport,
    choice: SegmentChoice | None,
    path: Path | None,
    sha256: str | None,
) -> None:
    layout = export.layout
    screen.table(
        layout.name,
        ("CSV", "segments", "rows", "bytes", "deflated"),
        (
            (member.name, len(span.segments), member.rows, member.csv_bytes, member.deflated)
            for member, span in zip(layout.members, export.plan.spans, strict=True)
        ),
    )
    size = f"{layout.size:,} bytes ({size_text(layout.size)})"
    screen.show(f"{path}: {size}" if path else f"{layout.name} would have {size}")
    if sha256:
        screen.show(f"SHA-256 {sha256}, also in {layout.name}.sha256")
    screen.document(
        {
            "name": layout.name,
            "path": path,
            "bytes": layout.size,
            "members": layout.members,
            "segments": [[*span.segments] for span in export.plan.spans],
            "sha256": sha256,
            "chosen": choice and choice.facts(),
            "warnings": screen.warnings,
        }
    )
