"""`gofer completion`: the script with which a shell completes gofer's commands, run ids and target names."""

from __future__ import annotations

import sys
from typing import TypedDict, Unpack

import click

from gofer.cli.completion import script
from gofer.cli.options import Command

_ADVICE = {
    "bash": 'eval "$(gofer completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(gofer completion zsh)"    in ~/.zshrc, after `autoload -Uz compinit && compinit`',
    "fish": "gofer completion fish | source   in ~/.config/fish/config.fish",
}


class _Options(TypedDict):
    shell: str


def run(**given: Unpack[_Options]) -> int:
    """Print the script; nothing is installed."""
    sys.stdout.write(script(given["shell"]))
    return 0


command = Command(
    "completion",
    run,
    [click.Argument(["shell"], type=click.Choice(list(_ADVICE)), metavar="bash|zsh|fish")],
    help="Print the completion script of a shell. To use it, put one line in the shell's own file:\n\n\b\n"
    + "\n".join(f"  {line}" for line in _ADVICE.values()),
)
