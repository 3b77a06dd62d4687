"""`strata collect`: copy the segments of a data node into the source."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from pipelines.commands.collect_report import CollectReport
from pipelines.commands.display import Screen
from pipelines.commands.failures import FINDINGS, OK
from pipelines.commands.options import json_option, open_site, source_option
from pipelines.site.collecting import Collector


@click.command("collect")
@click.option(
    "--node", metavar="URL", help="REST address of the data node on this machine [STRATA_NODE]."
)
@click.option("--socket", metavar="PATH", help="Its admin socket [STRATA_NODE_SOCKET].")
@click.option(
    "--nodes", metavar="A,B", help="Addresses of other nodes, to compare lists [STRATA_NODES]."
)
@source_option
@click.option("--dry-run", is_flag=True, help="Only say what would be collected.")
@json_option
def command(
    node: str | None,
    socket: str | None,
    nodes: str | None,
    source: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Put each segment that the data node lists and the source lacks into the source, oldest first.

    The node writes a file for each, so this runs on its machine, as its user. A file whose id (CID)
    or metadata.json contradicts the list is refused and named, and the rest goes on. With --nodes,
    each segment shows how many nodes list its id. The exit code is 1 where something was refused,
    or nodes list other segments for the same blocks.
    """
    screen = Screen(as_json)
    collector = Collector(open_site(source, node=node, node_socket=socket, nodes=nodes))
    with nullcontext() if dry_run else collector.alone() as folder:
        source = collector.source.describe()
        report = CollectReport(source, collector.backlog(), *collector.others())
        if folder is None:
            report.show(screen, is_dry=True)
        else:
            _collect(screen, collector, report, folder)
    return FINDINGS if report.refused or report.contradictions else OK


def _collect(screen: Screen, collector: Collector, report: CollectReport, folder: Path) -> None:
    segments = report.backlog.segments
    try:
        with screen.counts("collecting") as count:
            for outcome in collector.collect(segments, folder):
                report.outcomes.append(outcome)
                count("segments", len(report.outcomes), len(segments))
    finally:  # what is in the source stays there, whatever ends this
        report.show(screen)
