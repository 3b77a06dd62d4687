"""How what was published, or made again, is shown, whichever command did it."""

from __future__ import annotations

from exporters.archive.figures import size_text
from exporters.lake.lake_report import LakeReport
from pipelines.commands.display import Screen
from pipelines.site.completing import Completion


def show_lake(screen: Screen, report: LakeReport) -> None:
    """What became of the lake, for a person."""
    show_refused(screen, report)
    if report.files:
        added = f"{report.files} files of the lake published: {size_text(report.bytes)}"
        screen.show(added)
    elif not report.refused:
        screen.show("The lake has all that is loaded.")


def show_refused(screen: Screen, report: LakeReport) -> None:
    """The tables that stay as they are, and why."""
    screen.table(
        "not in the lake",
        ("table", "reason"),
        report.refused.items(),
    )


def show_completion(screen: Screen, completion: Completion) -> None:
    """How much was missing and is there again; nothing where all was there."""
    if completion.made:
        screen.show(f"{completion.made:,} objects of the archive were missing: made again.")
