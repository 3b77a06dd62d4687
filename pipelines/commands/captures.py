"""`strata captures`: load spam captures, which no segment holds, from the segment source."""

from __future__ import annotations

import click

from pipelines.commands.display import Screen
from pipelines.commands.failures import FINDINGS, OK
from pipelines.commands.options import json_option, open_site, source_option, warehouse_option
from transforms.warehouse.capture_file import load_captures, refused_captures


@click.command("captures")
@source_option
@warehouse_option
@json_option
def command(source: str | None, warehouse: str | None, as_json: bool) -> int:
    """Load new files `spam/<chain id>-<height>.ndjson` (or .gz) of the source.

    A line that is no capture is kept aside with file, line number and reason; the rest goes on. The
    exit code is 1 as long as there are such lines.
    """
    screen = Screen(as_json)
    site = open_site(source, warehouse)
    report = load_captures(site.warehouse, site.source)
    refused = refused_captures(site.warehouse)
    screen.table(
        "refused", ("file", "line", "reason"), ((r.file, r.line, r.reason) for r in refused)
    )
    screen.show(
        f"{report.captures} captures of {report.files} files loaded, {report.refused} lines refused"
        if report.files
        else "No new captures."
    )
    screen.document(
        {
            "files": report.files,
            "captures": report.captures,
            "refused": refused,
        }
    )
    return FINDINGS if refused else OK
