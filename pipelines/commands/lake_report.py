"""How what became of the lake is shown, whichever command published to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from exporters.archive.figures import size_text
from exporters.lake.tables import LakeReport
from pipelines.commands.display import Screen


def show_lake(screen: Screen, report: LakeReport) -> None:
    """What became of the lake, for a person."""
    show_refused(screen, report)
    if report.added:
        added = f"{len(report.added)} files of the lake published: {size_text(report.bytes)}"
        screen.show(added)
    if report.replaced:
        screen.show(f"{report.replaced} files of the lake written anew")
    elif not (report.added or report.refused):
        screen.show("The lake has all that is loaded.")


def show_refused(screen: Screen, report: LakeReport) -> None:
    """The tables that stay as they are, and why."""
    screen.table(
        "not in the lake",
        ("table", "reason"),
        ((refusal.table, refusal.reason) for refusal in report.refused),
    )


def lake_facts(report: LakeReport) -> Mapping[str, object]:
    """The same for programs."""
    return {
        "added": [asdict(item) | {"blocks": str(item.blocks)} for item in report.added],
        "replaced": report.replaced,
        "merged": report.merged,
        "removed": report.removed,
        "refused": [asdict(item) for item in report.refused],
    }
