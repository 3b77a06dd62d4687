"""`strata sample`: write the embedded sample history."""

from __future__ import annotations

from pathlib import Path

import click

from exporters.locations import EMBEDDED_SOURCE
from pipelines.commands.display import Screen
from pipelines.commands.options import screen_option
from pipelines.sample_history import copy_sample


@click.command("sample")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=EMBEDDED_SOURCE)
@screen_option
def command(folder: Path, screen: Screen) -> None:
    """Copy a small made-up market as segment ZIPs into FOLDER [strata-data/source].

    Files that are right already stay as they are.
    """
    paths = copy_sample(folder)
    screen.table("", ("segment file", "bytes"), ((p.name, p.stat().st_size) for p in paths))
    screen.show(f"Next: strata run --source {folder}")
    screen.document({"folder": str(folder.absolute()), "files": [path.name for path in paths]})
