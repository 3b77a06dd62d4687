"""`strata collect`: copy the segments of a data node into the source."""

from __future__ import annotations

from collections.abc import Sequence

import click

from exporters.archive.figures import size_text
from pipelines.commands.display import Screen
from pipelines.commands.failures import FINDINGS, OK
from pipelines.commands.options import open_site, screen_option, source_option
from pipelines.site.collecting import Collector
from transforms.collecting.collection import CollectedSegment
from transforms.collecting.node_list import Backlog


@click.command("collect")
@click.option(
    "--node", metavar="URL", help="REST address of the data node on this machine [STRATA_NODE]."
)
@click.option("--socket", metavar="PATH", help="Its admin socket [STRATA_NODE_SOCKET].")
@source_option
@screen_option
def command(node: str | None, socket: str | None, source: str | None, screen: Screen) -> int:
    """Put each segment that the data node lists and the source lacks into the source, oldest first.

    The node writes a file for each, so this runs on its machine, as its user. A file that has
    another id (CID) is refused and named, and the rest goes on. The exit code is 1 where something
    was refused.
    """
    collector = Collector(open_site(source, node=node, node_socket=socket))
    outcomes: list[CollectedSegment] = []
    with collector.alone() as folder:
        source, backlog = collector.source.describe(), collector.backlog()
        try:
            with screen.counts("collecting") as count:
                for outcome in collector.collect(backlog.segments, folder):
                    outcomes.append(outcome)
                    count("segments", len(outcomes), len(backlog.segments))
        finally:  # what is in the source stays there, whatever ends this
            _show(screen, source, backlog, outcomes)
    return FINDINGS if any(outcome.refusal for outcome in outcomes) else OK


def _show(
    screen: Screen, source: str, backlog: Backlog, outcomes: Sequence[CollectedSegment]
) -> None:
    """What was collected, and what was not."""
    collected = [outcome for outcome in outcomes if not outcome.refusal]
    refused = [outcome for outcome in outcomes if outcome.refusal]
    rows = ((each.segment.blocks, each.segment.segment_id) for each in collected)
    screen.table("collected", ("segment", "id"), rows)
    screen.table("refused", ("segment", "reason"), ((r.segment.blocks, r.refusal) for r in refused))
    waiting, listed = len(backlog.segments), len(backlog.listed.segments)
    size = size_text(sum(outcome.bytes for outcome in collected))
    screen.show(
        f"{len(collected):,} of {waiting:,} segments collected: {size}, {source}"
        if waiting
        else f"Nothing new to collect: {source} has all {listed:,} segments."
    )
    screen.document(
        {
            "node": backlog.listed.node,
            "source": source,
            "listed": listed,
            "lacking": waiting - len(collected),
            "collected": [{"file": c.segment.name.file_name, "bytes": c.bytes} for c in collected],
            "refused": [{"file": r.segment.name.file_name, "reason": r.refusal} for r in refused],
        }
    )
