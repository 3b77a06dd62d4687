"""`strata repair`: hold log and files of the warehouse against each other, and make them agree."""

from __future__ import annotations

from dataclasses import asdict

import click

from exporters.archive.figures import size_text
from pipelines.commands.display import Screen
from pipelines.commands.failures import DAMAGED, OK
from pipelines.commands.options import json_option, open_site, warehouse_option
from transforms.warehouse.repair.log_repair import RepairReport, repair


@click.command("repair")
@warehouse_option
@json_option
def command(warehouse: str | None, as_json: bool) -> int:
    """Hold the warehouse's log and its files against each other, and make them agree again.

    Damaged snapshots are followed by a sound one, files that are missing or damaged are no longer
    named, volumes that no snapshot names are taken in where their blocks are free. No file is
    deleted but what other programs wrote: logs of DuckDB beside volumes, a changed current.duckdb.

    The exit code is 5 where something was found, also where it was repaired: run it again to see
    whether all is well.
    """
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse)
    with screen.progress("examining") as advance:
        report = repair(site.warehouse.backing, advance)
    _show(screen, report)
    return DAMAGED if report.findings else OK


def _show(screen: Screen, report: RepairReport) -> None:
    screen.table(
        "found",
        ("what", "problem", "what was done"),
        ((finding.what, finding.problem, finding.remedy) for finding in report.findings),
    )
    summary = (
        f"read: {report.volumes} volumes, {size_text(report.bytes)} hashed; newest snapshot: "
        f"{report.snapshot}"
    )
    screen.show(summary if report.findings else f"Nothing is wrong. {summary}")
    screen.document(
        {
            "findings": [asdict(finding) for finding in report.findings],
            "volumes": report.volumes,
            "bytes": report.bytes,
            "snapshot": report.snapshot,
        }
    )
