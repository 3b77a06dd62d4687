"""`strata verify`: read archive and warehouse again and hold them against each other."""

from __future__ import annotations

import click

from pipelines.commands.display import Screen
from pipelines.commands.failures import FINDINGS, OK
from pipelines.commands.options import archive_option, json_option, open_site, warehouse_option
from pipelines.site.verifying import verify_site


@click.command("verify", short_help="Prove hashes, CRCs, rows and index by reading everything.")
@warehouse_option
@archive_option
@json_option
def command(warehouse: str | None, archive: str | None, as_json: bool) -> int:
    """Read every byte of the archive and the warehouse and prove that all of it fits together.

    Hashes and CRCs of every ZIP, rows and text of every CSV, the index, the warehouse's tables
    against what was loaded, and each against the other. The exit code is 1 where something differs.
    """
    screen = Screen(as_json)
    site = open_site(warehouse=warehouse, archive=archive)
    with screen.counts("verifying") as count:
        findings = list(verify_site(site, count))
    screen.table("findings", ("where", "what"), ((one.place, one.what) for one in findings))
    if not findings:
        screen.show("Everything matches: archive, index, warehouse and sources' hashes.")
    screen.document({"findings": [{"where": one.place, "what": one.what} for one in findings]})
    return FINDINGS if findings else OK
