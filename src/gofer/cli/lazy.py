"""Click groups whose commands are found in the static table and loaded only when called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from gofer._version import __version__
from gofer.cli.options import Flag, color_option, debug_option, help_option
from gofer.cli.verbs import DEFAULT_NOUNS, NOUNS, VERB_GROUPS, VERBS, find, words
from gofer.errors import UsageError
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from gofer.cli.verbs import Table


class LazyGroup(click.Group):
    """The commands of one table; UsageError with did-you-mean for a word that is not in it."""

    def __init__(self, name: str, table: Table, help: str, *options: click.Option) -> None:
        super().__init__(
            name,
            callback=_help_without_command,
            params=[*options, color_option(hidden=table is not VERBS), debug_option(), help_option()],
            help=help,
            add_help_option=False,
            invoke_without_command=True,
            no_args_is_help=False,
            subcommand_metavar="COMMAND …",
        )
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, word: str) -> click.Command | None:
        name = find(self.table, word)
        if name is None:
            return None
        origin, help, _ = self.table[name]
        if not origin:
            return LazyGroup(name, NOUNS[name], _group_help(name, help))
        module, _, attribute = origin.partition(":")
        command = getattr(import_module(f"gofer.cli.commands.{module}"), attribute or "command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        command = self.get_command(ctx, args[0])
        if command is None and not ctx.resilient_parsing:
            raise self._no_such(ctx, args[0])
        return args[0], command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = VERB_GROUPS if self.table is VERBS else {"Commands": self.table}
        terms = {name: ", ".join((name, *others)) for name, (_, _, others) in self.table.items()}
        width = max(map(len, terms.values()))
        for title, table in groups.items():
            with formatter.section(title):
                formatter.write_dl([(terms[name].ljust(width), help) for name, (_, help, _) in table.items()])

    def _no_such(self, ctx: click.Context, word: str) -> UsageError:
        from gofer.cli.legacy_words import NEAREST

        nearest = NEAREST.get(f"{ctx.command_path} {word}".removeprefix("gofer "))
        if nearest is not None:
            return UsageError(f"`{ctx.command_path} {word}` is not a command", hint=nearest)
        hint = did_you_mean(word, words(self.table)) or f"`{ctx.command_path} --help` lists the commands"
        if self.table is VERBS and not hint.startswith("did"):
            hint += f"; to run `{word}`, write `gofer submit {word} …`"
        return UsageError(f"`{ctx.command_path} {word}` is not a command", hint=hint)


def _help_without_command() -> None:
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help() + "\n")


def _show_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        sys.stdout.write(f"gofer {__version__}\n")
        ctx.exit()


def _group_help(name: str, help: str) -> str:
    if name not in DEFAULT_NOUNS:
        return f"{help}."
    return f"{help}. `gofer {name}` is `gofer {name} {DEFAULT_NOUNS[name]}`."


def root() -> LazyGroup:
    """The whole command line."""
    version = Flag(
        "--version", "Print the version", is_eager=True, expose_value=False, callback=_show_version
    )
    return LazyGroup("gofer", VERBS, _ROOT_HELP, version)


_ROOT_HELP = """Run any command that runs in your folder on any cluster you can reach.

\b
  gofer submit python train.py          run it here, now
  gofer -n 8 -c lab submit python t.py  8 GPUs on the target `lab`
  gofer q last                          state, last log lines, where the files are

Options can be written before or after the verb. `gofer VERB --help` explains a verb.
"""
