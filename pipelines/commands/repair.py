"""`strata repair`: hold log and files of the warehouse against each other, and make them agree."""

from __future__ import annotations

import click

from pipelines.commands.display import Screen
from pipelines.commands.failures import DAMAGED, OK
from pipelines.commands.options import open_site, screen_option, warehouse_option
from transforms.warehouse.checks.log_repair import Repair, repair


@click.command("repair")
@warehouse_option
@screen_option
def command(warehouse: str | None, screen: Screen) -> int:
    """Hold the warehouse's log and its files against each other, and make them agree again.

    Damaged snapshots are followed by a sound one, files that are missing or damaged are no longer
    named, volumes that no snapshot names are taken in where their blocks are free. Manifests that
    cannot be believed are moved to quarantine/; nothing is deleted but DuckDB's logs beside files.

    The exit code is 5 where something was found, also where it was repaired: run it again to see
    whether all is well.
    """
    site = open_site(warehouse=warehouse)
    with screen.progress("examining") as advance:
        report = repair(site.warehouse.backing, advance)
    _show(screen, report)
    return DAMAGED if report.findings else OK


def _show(screen: Screen, report: Repair) -> None:
    screen.table("found", ("what", "what is wrong, or was done"), report.findings)
    summary = f"The newest snapshot is {report.snapshot}."
    well = "" if report.findings or report.lost else "Nothing is wrong. "
    screen.show(f"{well}{summary}")
    if report.lost:
        screen.show(f"Rows are still missing: {report.lost}")
    findings = [{"what": what, "problem": problem} for what, problem in report.findings]
    lost = report.lost or None
    screen.document({"findings": findings, "snapshot": report.snapshot, "lost": lost})
