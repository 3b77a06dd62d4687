"""`strata lake`: the Delta tables beside the ZIPs: publish to them, look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from exporters.lake.tables import LakeReport
from pipelines.commands.display import Screen
from pipelines.commands.failures import CONFLICT, DAMAGED, OK
from pipelines.commands.found import FindingList, show_findings
from pipelines.commands.lake_report import lake_facts, show_lake
from pipelines.commands.options import (
    archive_option,
    blocks_of,
    json_option,
    open_site,
    warehouse_option,
)
from pipelines.commands.replacing import blocks_option, correction_for, loaded_inside, tables_option
from pipelines.site.lake_contents import lake_status
from pipelines.site.lake_publishing import publish_missing, replace_in_lake
from pipelines.site.site_check import verify_lake
from transforms.block_range import BlockRange
from transforms.tables.registry import HISTORY_TABLES
from transforms.verifying.verification import Scope, Verification


@click.group("lake")
def command() -> None:
    """The published tables as Delta tables of exact Parquet beside the ZIPs (docs/lake.md)."""


@command.command("publish", short_help="Put into the lake what it lacks of what is loaded.")
@click.option(
    "--replace",
    "reason",
    metavar="REASON",
    help="Prove what is there already, too; files that have other rows are replaced and recorded.",
)
@tables_option
@blocks_option
@warehouse_option
@archive_option
@json_option
def publish(
    reason: str | None,
    tables: tuple[str, ...],
    blocks: str | None,
    warehouse: str | None,
    archive: str | None,
    as_json: bool,
) -> int:
    """Put every loaded segment that a table of the lake lacks there, each table in one version.

    Small neighbouring files become larger ones, what no version of the last week names is removed.
    A table to which nothing can be added is named, the rest goes on, and the exit code is 4.
    """
    correction = correction_for(reason, tables, blocks)
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse, archive=archive)
    report = LakeReport()
    if correction is not None:
        segments = loaded_inside(site, blocks)
        report = replace_in_lake(site, segments, tables or HISTORY_TABLES, correction)
    with screen.progress("publishing to the lake") as advance:
        report = report.and_(publish_missing(site, advance))
    show_lake(screen, report)
    screen.document(lake_facts(report))
    return CONFLICT if report.refused else OK


@command.command("verify", short_help="Prove every file of the lake by reading it.")
@click.option("--table", "tables", multiple=True, metavar="TABLE", help="Only this table (repeat).")
@click.option("--blocks", metavar="FROM-TO", help="Only files that hold any of these blocks.")
@click.option("--quick", is_flag=True, help="All logs, but only a random sample of files.")
@warehouse_option
@archive_option
@json_option
def verify(
    tables: tuple[str, ...],
    blocks: str | None,
    quick: bool,
    warehouse: str | None,
    archive: str | None,
    as_json: bool,
) -> int:
    """Read every file of the lake: hash, types, rows, statistics, and every CSV in it.

    Each CSV is rendered and held against its receipt, receipts against the published ZIPs, and
    every published segment must be in every table. `strata verify` does the same, and more.

    The exit code is 5 where something is wrong, also where there is nothing to read.
    """
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse, archive=archive)
    check = Verification(Scope(tuple(sorted(set(tables))), blocks_of(blocks)), quick)
    tally = FindingList()
    with screen.counts("verifying") as count:
        check.progress = count
        for finding in verify_lake(site, check):
            tally.add(finding)
    show_findings(screen, check, tally, {"warehouse": warehouse, "archive": archive})
    return DAMAGED if tally.count else OK


@command.command("status", short_help="How far each table of the lake is.")
@warehouse_option
@archive_option
@json_option
def status(warehouse: str | None, archive: str | None, as_json: bool) -> int:
    """Show of each table its files, rows, bytes and blocks, by the logs alone.

    A table that cannot be read, or that others wrote to, is named; the exit code is 5 then.
    """
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse, archive=archive)
    tables = lake_status(site)
    screen.table(
        f"the lake in {site.store.describe()}",
        ("table", "version", "files", "rows", "bytes", "blocks", "loaded and lacking"),
        (
            (t.table, t.version, t.files, t.rows, t.bytes, _joined(t.blocks), _joined(t.lacking))
            for t in tables
            if not t.problem
        ),
    )
    bad = [t for t in tables if t.problem]
    screen.table("cannot be used", ("table", "reason"), ((t.table, t.problem) for t in bad))
    if not tables:
        screen.show("There is no lake yet: strata lake publish makes it.")
    screen.document(
        {
            "tables": [
                asdict(t) | {"blocks": [*map(str, t.blocks)], "lacking": [*map(str, t.lacking)]}
                for t in tables
            ]
        }
    )
    return DAMAGED if bad else OK


def _joined(runs: Sequence[BlockRange]) -> str:
    return ", ".join(map(str, runs)) or "none"
