"""How what was made again in an archive is shown, whichever command found it missing."""

from __future__ import annotations

from pipelines.commands.display import Screen
from pipelines.site.completing import Completion


def show_completion(screen: Screen, completion: Completion) -> None:
    """A table of what was missing and is there again; nothing where all was there."""
    screen.table(
        "made again",
        ("was missing from the archive", "how many"),
        [
            (what, count)
            for what, count in (
                ("ZIPs", completion.zips),
                ("hash files", completion.hash_files),
                ("ZIPs that no index named", completion.named),
                ("shards of the index", completion.shards),
                ("other documents and pages", completion.documents),
            )
            if count
        ],
    )
