"""The options of `--replace`, which the commands share that publish."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from exporters.publishing.replace import Correction
from pipelines.commands.options import blocks_of
from pipelines.site.site import Site
from transforms.block_range import BlockRange
from transforms.errors import RangeError

tables_option = click.option(
    "--table", "tables", multiple=True, help="With --replace: only this table (repeat)."
)
blocks_option = click.option(
    "--blocks", metavar="FROM-TO", help="With --replace: only the segments inside these blocks."
)


def correction_for(
    reason: str | None, tables: Sequence[str], blocks: str | None
) -> Correction | None:
    """What is put on record; None without `--replace`, which the other options need."""
    if reason is None and (tables or blocks):
        raise click.UsageError("--table and --blocks say what --replace is about")
    return None if reason is None else Correction(reason, datetime.now(UTC))


def loaded_inside(site: Site, blocks: str | None) -> list[BlockRange]:
    """The loaded segments that lie in the blocks (None: all). Raises `RangeError` for none."""
    hull = blocks_of(blocks)
    segments = site.warehouse.loaded_catalog().blocks
    inside = [segment for segment in segments if hull is None or hull.holds(segment)]
    if not inside:
        raise RangeError(f"no loaded segment lies in blocks {blocks}")
    return inside
