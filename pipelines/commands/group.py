"""The group of all commands. Each is its own module, imported only when it is called."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import NoReturn

import click

from pipelines.stopping import leave_signals

COMMANDS = (
    *("sample", "collect", "run", "load", "captures", "publish", "export", "fetch"),
    *("sql", "shell", "copy", "blocks", "status", "verify", "repair", "compact", "lake"),
    "completion",
)
"""In the order in which one meets them."""

PLUGINS = "strata.commands"
"""The entry point group of commands from packages that this one must not import (`serve`)."""


class _Commands(click.Group):
    """Finds a command in `pipelines.commands.<name>`, as its function `command`, or as a plugin."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*COMMANDS, *sorted(entry_points(group=PLUGINS).names)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        try:
            if cmd_name in COMMANDS:
                command = import_module(f"pipelines.commands.{cmd_name}").command
            else:
                plugins = entry_points(group=PLUGINS, name=cmd_name)
                if not plugins:
                    return None
                (plugin,) = plugins
                command = plugin.load()
                leave_signals()  # a server has its own way to stop
        except ModuleNotFoundError as error:
            return _not_installed(cmd_name, error)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.Abort from error  # for the former click prints a line of its own


def _not_installed(name: str, error: ModuleNotFoundError) -> click.Command:
    """A command whose packages are not all installed: it says which, and is listed."""

    def refuse() -> NoReturn:
        raise error

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    help_text = f"Not installed: it needs {error.name}."
    return click.Command(name, anything, refuse, short_help=help_text, add_help_option=False)


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
