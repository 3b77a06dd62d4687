"""`strata verify`: read archive and warehouse again and hold them against each other."""

from __future__ import annotations

import click

from exporters.signing_keys import read_public_key
from pipelines.commands.display import Screen
from pipelines.commands.failures import DAMAGED, OK
from pipelines.commands.found import show_findings
from pipelines.commands.options import (
    archive_option,
    open_site,
    screen_option,
    warehouse_option,
)
from pipelines.site.site_check import first_findings, verify_site
from transforms.verifying.verification import Verification


@click.command("verify")
@click.option(
    "--quick",
    is_flag=True,
    help="Look at what no earlier check has proven, and at documents of the whole archive.",
)
@click.option(
    "--key", metavar="PUB", help="The documents must be signed by this public key: a file, or RW..."
)
@warehouse_option
@archive_option
@screen_option
def command(
    quick: bool, key: str | None, warehouse: str | None, archive: str | None, screen: Screen
) -> int:
    """Read every byte of the archive and the warehouse and prove that all of it fits together.

    Hashes and CRCs of every ZIP, rows and text of every CSV, the index, every column of the
    warehouse's tables against what was loaded, every file of the lake, and each against the others.
    It says how much was read of how much.

    With --archive, and without a warehouse in the usual place, the archive is verified by itself: a
    mirror, say. The exit code is 5 where something is wrong, also where there is nothing to read.
    """
    site = open_site(warehouse=warehouse, archive=archive)
    public_key = read_public_key(key) if key else None
    archive_alone = archive is not None and warehouse is None and not site.settings.has_warehouse
    if archive_alone:
        screen.message(f"There is no warehouse: {site.store.describe()} is verified by itself")
    with screen.counts("verifying") as count:
        check = Verification(quick, count)
        found = verify_site(site, check, public_key, archive_alone=archive_alone)
        findings, number = first_findings(found)
    places = {"warehouse": warehouse, "archive": archive}
    show_findings(screen, check, findings, number, places)
    return DAMAGED if findings else OK
