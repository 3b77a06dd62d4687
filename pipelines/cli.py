"""The command line, `strata`: signals, errors and exit codes around the commands."""

from __future__ import annotations

import gc
import os
import sys
from io import TextIOWrapper
from pathlib import Path

from pipelines.lasting_objects import end_lightly, lasting_objects
from pipelines.stopping import stopping_on_signals

_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code (`pipelines.commands.failures`)."""
    if arguments is not None:
        with stopping_on_signals():
            sys.exit(_run(arguments))
    for name in ("stdout", "stderr"):  # None where they are closed, as by `>&-`
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - to the end
    end_lightly()
    with stopping_on_signals(last=True):
        sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    # A short command has no time for garbage; what is garbage by cycles is still found, less often.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # Imported here, so that Ctrl-C ends a command with one line from its first moment.
    with lasting_objects():
        import click

        from pipelines.commands.failures import INTERRUPTED, exit_code, known_errors, sentence
        from pipelines.commands.group import strata
        from transforms.open_files import raise_open_files_limit

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # some encodings lack characters that we print
            stream.reconfigure(errors="backslashreplace")
    raise_open_files_limit()
    try:
        code = strata.main(arguments, prog_name="strata", standalone_mode=False)
    except click.Abort:
        code = INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except known_errors() as error:
        if "--debug" in arguments:
            raise
        click.echo(f"strata: {sentence(error)}", err=True)
        code = exit_code(error)
    return int(code or 0)
