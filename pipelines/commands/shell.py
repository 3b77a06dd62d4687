"""`strata shell`: SQL over the warehouse, read-only, in UTC: in DuckDB's program or our prompt."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import click

from pipelines.commands.asking import asked_extent, blocks_option, times_option, warn_of_lost
from pipelines.commands.display import Screen
from pipelines.commands.failures import OK
from pipelines.commands.options import open_site, warehouse_option
from pipelines.commands.prompt import run_prompt
from pipelines.stopping import leave_signals

_SIGNAL_CODES = 128


@click.command("shell", short_help="A prompt for SQL over the warehouse, read-only.")
@blocks_option
@times_option
@warehouse_option
def command(blocks: str | None, times: str | None, warehouse: str | None) -> int:
    """Ask the warehouse in the program `duckdb`, if there is one on the PATH that can open it.

    Without one, in a prompt of Strata's own, with completion of tables and columns, and a history
    in ~/.strata_history. Times are in UTC. Loads go on beside it: `duckdb` keeps what it opened,
    the prompt asks what is newest.
    """
    screen, extent = Screen(), asked_extent(blocks, times)
    site = open_site(warehouse=warehouse)
    warn_of_lost(site.warehouse, screen)
    leave_signals()  # Ctrl-C ends a query, not the session
    program = shutil.which("duckdb")
    if program:
        with site.warehouse.views(extent) as views:
            hindrance = _hindrance(program, views)
            if not hindrance:
                return _run(program, views)
        screen.message(f"{program} cannot open {views}: {hindrance}")
    run_prompt(site.warehouse, extent, screen)
    return OK


def _hindrance(program: str, views: Path) -> str:
    """Why a program cannot open a file of views; empty where it can."""
    asked = [program, "-readonly", "-init", os.devnull, str(views), "from blocks limit 0"]
    try:
        done = subprocess.run(
            asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    said = [line for line in done.stderr.splitlines() if "rror" in line]
    return said[0].strip() if said else f"it ended with {done.returncode}"


def _run(program: str, views: Path) -> int:
    """Leave the terminal to a program until it ends; returns its exit code."""
    # A handler, unlike ignoring, is not what the program inherits: Ctrl-C is its own affair.
    signal.signal(signal.SIGINT, lambda *_: None)
    asked = [program, "-readonly", "-cmd", "set timezone = 'UTC'", str(views)]
    code = subprocess.run(asked, check=False).returncode
    return code if code >= 0 else _SIGNAL_CODES - code
