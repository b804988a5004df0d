"""docs/cli.md, made of the help pages: `make docs` writes what this module prints."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from gofer.cli.lazy import LazyGroup, root
from gofer.cli.verbs import VERB_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = """# The command line

What `--help` prints, for every command. `make docs` writes this page; `make check` fails when a command says
something else.

stdout has data, stderr has messages. The exit status is 0, 1 for a failure, 2 for a wrong command line, and
130 after Ctrl-C; `wait`, `submit --wait` and `submit -f` exit with the status of the run. A run is named by
any unique beginning or end of its short id, by its name, or by `last`, the newest of this project: see
[runs](runs.md).

A command that has had its effect does not fail because its output cannot be written: when stdout is full, or
its reader has left, `submit`, `resubmit`, `abort` and `tag` say on stderr what was done and exit as usual,
`submit -f` with 141. So a script that repeats a failed command does not send a run twice. A closed stdout
(`>&-`) is /dev/null. Commands that only read exit with 1 when stdout is full.

`--debug` or `GOFER_DEBUG=1` shows requests to Azure, without their private parts, and the traceback of an
error. `--color WHEN`, `NO_COLOR` and `FORCE_COLOR` decide
whether there are colours.
"""
_WIDTH = 100


def render() -> str:
    """The whole page."""
    parts = [_HEAD]
    titles = {f"gofer {next(iter(table))}": title for title, table in VERB_GROUPS.items()}
    for path, command in _walk(root(), "gofer"):
        if path in titles:
            parts.append(f"## {titles[path]}\n")
        context = click.Context(command, info_name=path, max_content_width=_WIDTH)
        context.terminal_width = _WIDTH
        level = "##" if path == "gofer" else "###"
        parts.append(f"{level} `{path}`\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def _walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, LazyGroup):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _walk(below, f"{path} {name}")


if __name__ == "__main__":
    # The page must not depend on the width of the terminal.
    os.environ.pop("COLUMNS", None)
    sys.stdout.write(render())
