"""`strata completion`: the lines that let a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print what SHELL runs to complete commands and options at a press of Tab.

    In ~/.bashrc: eval "$(strata completion bash)"

    In ~/.zshrc, after compinit: eval "$(strata completion zsh)"

    For fish, once: strata completion fish > ~/.config/fish/completions/strata.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root()
    click.echo(kind(root.command, {}, "strata", "_STRATA_COMPLETE").source())
