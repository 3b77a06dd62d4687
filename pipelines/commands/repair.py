"""`strata repair`: hold log and files of the warehouse against each other, and make them agree."""

from __future__ import annotations

from dataclasses import asdict

import click

from exporters.archive.figures import size_text
from pipelines.commands.display import Screen
from pipelines.commands.failures import DAMAGED, OK
from pipelines.commands.options import json_option, open_site, warehouse_option
from transforms.warehouse.repair.log_repair import RepairChoice, RepairReport, repair


@click.command("repair")
@warehouse_option
@click.option(
    "--take-volumes", is_flag=True, help="Volumes that the log does not name are right: take them."
)
@click.option(
    "--trust-log", is_flag=True, help="The log is right: leave volumes that it does not name."
)
@click.option("--quick", is_flag=True, help="Compare sizes only; without it every byte is hashed.")
@json_option
def command(
    warehouse: str | None,
    take_volumes: bool,
    trust_log: bool,
    quick: bool,
    as_json: bool,
) -> int:
    """Hold the warehouse's log and its files against each other, and make them agree again.

    Damaged snapshots are followed by a sound one, files that are missing or damaged are no longer
    named, volumes that no snapshot names are taken in where their blocks are free. No file is
    deleted but what other programs wrote: logs of DuckDB beside volumes, a changed current.duckdb.
    Where a backup of the log stands beside newer volumes, or the log of another warehouse,
    nothing is done unless you say which is right.

    The exit code is 5 where something was found, also where it was repaired: run it again to see
    whether all is well.
    """
    if take_volumes and trust_log:
        raise click.UsageError("give --take-volumes or --trust-log, not both")
    choice = (
        RepairChoice.TAKE_VOLUMES if take_volumes else RepairChoice.TRUST_LOG if trust_log else None
    )
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse)
    with screen.progress("examining") as advance:
        report = repair(site.warehouse.backing, choice, quick=quick, advance=advance)
    _show(screen, report)
    return DAMAGED if report.findings else OK


def _show(screen: Screen, report: RepairReport) -> None:
    is_done = not report.is_undecided
    screen.table(
        "found",
        ("what", "problem", "what was done" if is_done else "what to do"),
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
            "repaired": is_done and bool(report.findings),
            "undecided": report.is_undecided,
            "volumes": report.volumes,
            "bytes": report.bytes,
            "snapshot": report.snapshot,
        }
    )
