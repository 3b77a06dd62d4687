"""`strata shell`: the warehouse in DuckDB's own program, read-only, in UTC."""

from __future__ import annotations

import shutil
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path

import click

from pipelines.commands.display import Screen
from pipelines.commands.options import open_site, warehouse_option
from pipelines.commands.sql import warn_of_lost
from pipelines.stopping import leave_signals
from transforms.errors import ConfigError

_SIGNAL_CODES = 128


@click.command(
    "shell",
    # Without -h: letters of DuckDB's own options are looked up one by one, as in -noheader.
    context_settings={"help_option_names": ["--help"], "ignore_unknown_options": True},
)
@warehouse_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(warehouse: str | None, arguments: tuple[str, ...]) -> int:
    """Open the warehouse in the program `duckdb`, in UTC; it gets all other ARGUMENTS.

    `strata shell -csv -c "select ..."` answers one question. Loads go on beside it: the program
    keeps the snapshot that it opened; open it again for the newest.
    """
    program = _program()
    site = open_site(warehouse=warehouse)
    warn_of_lost(site.warehouse, Screen())
    leave_signals()  # Ctrl-C ends a query, not the session
    # A child, not `exec`: while it runs, this process keeps the files that it reads.
    with site.warehouse.views() as views:
        # A handler, unlike ignoring, is not what the program inherits.
        signal.signal(signal.SIGINT, lambda *_: None)
        utc = ("-readonly", "-cmd", "set timezone = 'UTC'", str(views))
        code = subprocess.run([program, *utc, *arguments], check=False).returncode
    return code if code >= 0 else _SIGNAL_CODES - code


def _program() -> str:
    """DuckDB's program: that of the package duckdb-cli, or one on the PATH.

    The package's script is passed over: it ends with a Ctrl-C. Raises `ConfigError` without both.
    """
    package = find_spec("duckdb_cli")
    beside = Path(package.origin).with_name("duckdb") if package and package.origin else None
    program = str(beside) if beside and beside.exists() else shutil.which("duckdb")
    if program is None:
        raise ConfigError(
            "the program duckdb is not there: pip install duckdb-cli, which strata[pipeline] "
            "brings, or ask without it: strata sql 'select ...'"
        )
    return program
