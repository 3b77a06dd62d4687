"""How what was published, or made again, is shown, whichever command did it."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.commands.display import Screen
from pipelines.site.completing import Completion


def show_refused(screen: Screen, refused: Mapping[str, str]) -> None:
    """The tables of the lake that stay as they are, and why."""
    screen.table("not in the lake", ("table", "reason"), refused.items())


def show_completion(screen: Screen, completion: Completion) -> None:
    """How much was missing and is there again; nothing where all was there."""
    if completion.made:
        screen.show(f"{completion.made:,} objects of the archive were missing: made again.")
