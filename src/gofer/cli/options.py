"""Light command and option classes, and options that several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gofer.transport.activity import activities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click.shell_completion import CompletionItem


class Option(click.Option):
    """A click option whose help is used unchanged, because click's clean-up would load `inspect`.

    The help ends with the default, `default_text` or the value of `default`, and with `variable`: the
    environment variable that changes the default.
    """

    def __init__(
        self, names: str, help: str = "", *, default_text: str = "", variable: str = "", **settings: Any
    ) -> None:
        super().__init__(names.split(), **settings)
        self.variable = variable
        shown = default_text or str(settings.get("default", ""))
        marks = [f"[default: {shown}]" if shown else "", f"[env: {variable}]" if variable else ""]
        self.help = " ".join(part for part in (help, *marks) if part)

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        """Ranges are left out: a value outside is refused with its range."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Flag(Option):
    """An option without a value: given or not."""

    def __init__(self, names: str, help: str = "", **settings: Any) -> None:
        super().__init__(names, help, is_flag=True, **settings)


class Command(click.Command):
    """One command: `run` gets the parsed values by name and returns the exit status (None is 0).

    With `takes_command`, the first word that is not an option begins the command of the user.
    """

    def __init__(
        self,
        name: str,
        run: Callable[..., int | None],
        params: Sequence[click.Parameter],
        *,
        help: str,
        takes_command: bool = False,
    ) -> None:
        shared = [color_option(), _DEBUG, _HELP]
        super().__init__(name, callback=run, params=[*params, *shared], help=help, add_help_option=False)
        self.allow_interspersed_args = not takes_command


def _show_help(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        sys.stdout.write(ctx.get_help() + "\n")
        ctx.exit()


def _note_debug(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    # The notes of main.py for this command line; None during a completion.
    notes = ctx.find_object(dict)
    if asked and notes is not None:
        notes["debug"] = True
        from gofer.cli.output.request_log import show_requests

        show_requests()


def _choose_colours(ctx: click.Context, _: click.Parameter, choice: str) -> None:
    if not ctx.resilient_parsing and choice != "auto":
        from gofer.cli.output.theme import choose

        choose(choice)


def offers(what: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """The completion of an option or argument: a key of `gofer.cli.completion_words.OFFERS`."""

    def complete(ctx: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
        # Only a completion loads all that it offers.
        from gofer.cli.completion_words import OFFERS

        return OFFERS[what](start)

    return complete


_HELP = Flag("-h --help", "Show this help", is_eager=True, expose_value=False, callback=_show_help)


def color_option(*, hidden: bool = True) -> Option:
    """The `--color` that every command has; only the help of gofer itself shows it."""
    return Option(
        "--color",
        "Use colours: `auto` (on a terminal), `always` or `never`",
        default="auto",
        type=click.Choice(("auto", "always", "never")),
        metavar="WHEN",
        hidden=hidden,
        is_eager=True,
        expose_value=False,
        callback=_choose_colours,
    )


_DEBUG = Flag(
    "--debug",
    "Show requests to services, and a traceback when something fails",
    hidden=True,
    is_eager=True,
    expose_value=False,
    callback=_note_debug,
)


def help_option() -> click.Option:
    """The `-h/--help` that every command and group has."""
    return _HELP


def debug_option() -> click.Option:
    """The hidden `--debug` that every command and group has."""
    return _DEBUG


def target_option(
    help: str = "The target's name",
    names: str = "-c -t --target target",
    *,
    default_text: str = "",
    variable: str = "",
) -> Option:
    """`-c`, `-t`, `--target`, or others; `help` says what the target is for."""
    return Option(
        names,
        help,
        default_text=default_text,
        variable=variable,
        metavar="NAME",
        shell_complete=offers("targets"),
    )


def json_option(help: str = "Print JSON") -> Flag:
    """`--json`, on every command that reads."""
    return Flag("--json as_json", help)


def quiet_option() -> Flag:
    """`-Q/--quiet`: no messages on stderr except errors."""
    return Flag("-Q --quiet", "Only print errors on stderr", callback=_hide_activities)


def _hide_activities(context: click.Context, parameter: click.Parameter, is_quiet: bool) -> bool:
    if is_quiet:
        activities.observer = None
    return is_quiet


def filter_option(help: str) -> Option:
    """`--filter`, on the commands that choose runs; `help` says what is done with them."""
    return Option(
        "--filter filters",
        f"{help}; with several filters, all of them",
        multiple=True,
        metavar="FILTER",
        shell_complete=offers("filters"),
    )


def run_argument(*, many: bool = False, required: bool = True) -> click.Argument:
    """An argument that names a run as `gofer.ops.runs.find` reads it."""
    shown = "RUN…" if many else "RUN"
    return click.Argument(
        ["runs" if many else "run"],
        nargs=-1 if many else 1,
        required=required,
        metavar=shown if required else f"[{shown}]",
        shell_complete=offers("runs"),
    )
