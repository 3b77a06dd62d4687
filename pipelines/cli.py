"""The command line, `strata`. Each command is its own module, imported only when it is called."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import entry_points

import click

from pipelines.commands.failures import EXIT_CODES, INTERRUPTED, exit_code, sentence
from transforms.open_files import raise_open_files_limit

COMMANDS = (
    *("sample", "run", "load", "captures", "publish", "export"),
    *("sql", "status", "verify", "repair", "compact"),
)
"""In the order in which one meets them."""


PLUGINS = "strata.commands"
"""The entry point group of commands from packages that this one must not import (`serve`)."""


class _Commands(click.Group):
    """Finds a command in `pipelines.commands.<name>`, as its function `command`, or as a plugin."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*COMMANDS, *sorted(entry_points(group=PLUGINS).names)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in COMMANDS:
            found = import_module(f"pipelines.commands.{cmd_name}").command
        else:
            plugins = entry_points(group=PLUGINS, name=cmd_name)
            if not plugins:
                return None
            (plugin,) = plugins
            found = plugin.load()
        assert isinstance(found, click.Command)
        return found


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failures or findings, 2 usage or settings, 3 block range, "
    "4 conflict in the archive, 5 damage, 6 busy, 7 disk or network.",
)
@click.option("--debug", is_flag=True, help="Show a traceback where something fails.")
@click.version_option(package_name="strata")
def strata(debug: bool) -> None:
    """History segments of a trading network in, DuckDB warehouse and published CSV exports out."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code (`pipelines.commands.failures`)."""
    given = sys.argv[1:] if arguments is None else arguments
    raise_open_files_limit()
    try:
        code = strata.main(given, prog_name="strata", standalone_mode=False)
    except click.Abort:
        code = INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except tuple(EXIT_CODES) as error:
        if "--debug" in given:
            raise
        click.echo(f"strata: {sentence(error)}", err=True)
        code = exit_code(error)
    sys.exit(code or 0)
