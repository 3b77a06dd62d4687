"""The group of all commands. Each is its own module, imported only when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from pipelines.lasting_objects import lasting_objects
from pipelines.stopping import leave_signals

# Said here, as a list of the commands would else import all that any of them needs.
_LINES = {
    "sample": "Copy a sample history to load.",
    "collect": "Copy segments from a data node into the source.",
    "run": "Load and publish everything new, through Dagster.",
    "load": "Load new segments into the warehouse.",
    "publish": "Publish loaded segments to the archive.",
    "export": "Write one table over a range of blocks as a ZIP.",
    "fetch": "Fetch published ZIPs from an archive, proven and joined.",
    "copy": "Write a part of the warehouse as one DuckDB file.",
    "sql": "Query the warehouse, read-only.",
    "shell": "DuckDB's program on the warehouse, read-only.",
    "status": "Show segments, gaps, quarantine, loaded, published.",
    "verify": "Prove hashes, CRCs, rows and index by reading everything.",
    "repair": "Make the warehouse's log and its files agree again.",
    "compact": "Merge small volumes of the warehouse.",
    "serve": "Serve the read API, the archive and downloads.",
}
_SERVE = "serve"

COMMANDS = tuple(name for name in _LINES if name != _SERVE)
"""Those of `pipelines.commands`, in the order in which one meets them."""


class _Commands(click.Group):
    """Finds a command in `pipelines.commands.<name>`, as its function `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_LINES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _LINES:
            return None
        # It serves the API, which the pipelines know nothing of.
        place = "strata.serving" if cmd_name == _SERVE else f"pipelines.commands.{cmd_name}"
        with lasting_objects():
            command = import_module(place).command
        if cmd_name == _SERVE:
            leave_signals()  # a server has its own way to stop
        assert isinstance(command, click.Command)
        command.short_help = _LINES[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands; none is imported for that."""
        with formatter.section("Commands"):
            formatter.write_dl([*_LINES.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.Abort from error  # for the former click prints a line of its own


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 something was refused or not done, 2 usage or settings, "
    "3 block range, 4 conflict in the archive, 5 damage or findings, 6 busy, "
    "7 disk, memory or network, 130 interrupted, 143 terminated.",
)
@click.option("--debug", is_flag=True, help="Show a traceback where something fails.")
@click.version_option(package_name="strata")
def strata(debug: bool) -> None:
    """History segments of a trading network in, DuckDB warehouse and published CSV exports out."""
