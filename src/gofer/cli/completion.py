"""Answer the shell's completion requests, also with names of the settings. Never fails, creates no file."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from gofer.cli.lazy import root
from gofer.cli.option_order import FLAGS, VALUED, rearrange, take_options
from gofer.cli.verbs import VERBS
from gofer.errors import GoferError, UsageError
from gofer.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click
    from click.shell_completion import CompletionItem

VARIABLE = "_GOFER_COMPLETE"
_MOST_RUNS = 50
# A placeholder for the word that is being typed, while the words before it are rearranged.
_TYPED = "\0"


def script(shell: str) -> str:
    """The completion script for a shell; UsageError for an unknown shell."""
    return ShellComplete.source(_shell(shell))


def complete(environ: Mapping[str, str]) -> int:
    """Answer a completion script's question on stdout; the question is in the environment."""
    shell = _shell(environ[VARIABLE].partition("_")[0])
    try:
        items = candidates(*shell.get_completion_args())
    except (ValueError, KeyError, IndexError):
        return 0  # the variables are not those that a completion script sets
    sys.stdout.write("\n".join(shell.format_completion(item) for item in items) + "\n")
    return 0


def candidates(words: list[str], start: str) -> list[CompletionItem]:
    """The words that may follow `words` and begin with `start`."""
    try:
        _, rest = take_options(words)
    except UsageError:
        return _values(words[-1], start)
    if not rest and start.startswith("-"):
        return [CompletionItem(name) for name in sorted(FLAGS | VALUED) if name.startswith(start)]
    if not rest:
        return [CompletionItem(verb, help=VERBS[verb][1]) for verb in VERBS if verb.startswith(start)]
    try:
        words = [word for word in rearrange([*words, _TYPED]) if word != _TYPED]
    except UsageError:
        return []
    return ShellComplete(root(), {}, "gofer", VARIABLE).get_completions(words, start)


def target_names(start: str) -> list[CompletionItem]:
    """The targets whose name begins with `start`; none when the settings cannot be read."""
    from gofer.ops.session import Session

    try:
        with Session() as session:
            names = session.settings.target_names
            return [CompletionItem(name) for name in names if name.startswith(start)]
    except (GoferError, OSError):
        return []


def run_references(start: str) -> list[CompletionItem]:
    """The newest runs whose short id, full id or name begins with `start`, and `last`; none without a
    ledger.
    """
    import os

    from gofer.config.paths import Paths
    from gofer.tracking.ledger import Ledger, RunRow
    from gofer.tracking.query import Query

    offered = {"last": "the newest run of this project"} if "last".startswith(start) else {}
    rows = list[RunRow]()
    with suppress(GoferError, OSError):
        file = Paths.from_environment(os.environ).ledger_file
        if file.exists():
            with Ledger.open(file) as ledger:
                rows = ledger.select(Query(limit=None if start else _MOST_RUNS))
    for row in rows:
        words = (row.short_id, row.id, row.name) if start else (row.short_id,)
        word = next((word for word in words if word.startswith(start)), None)
        if word and word not in offered and len(offered) < _MOST_RUNS:
            offered[word] = printable(f"{row.state} {' '.join(row.command)[:60]}")
    return [CompletionItem(word, help=help) for word, help in offered.items()]


def _values(option: str, start: str) -> list[CompletionItem]:
    return target_names(start) if option in ("-c", "-t", "--target", "-f", "--from") else []


def _shell(name: str) -> ShellComplete:
    kind = get_completion_class(name)
    if kind is None:
        raise UsageError(f"there is no completion for the shell `{name}`", hint="`gofer completion bash`")
    return kind(root(), {}, "gofer", VARIABLE)


def images(ctx: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
    """The images of `dockers:` whose name begins with `start`."""
    from gofer.config.dockers import docker_names
    from gofer.ops.session import Session

    try:
        with Session() as session:
            return _items(docker_names(session.settings), start)
    except (GoferError, OSError):
        return []


def profiles(ctx: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
    """The profiles of Azure logins whose name begins with `start`."""
    import os

    from gofer.ops.accounts.azure_profiles import Profiles

    try:
        return _items(Profiles.of(os.environ).names(), start)
    except (GoferError, OSError):
        return []


def doctors(ctx: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
    """`azure`, then the targets."""
    return target_names(start) if ctx.params.get("words") else _items(["azure"], start)


def _items(names: list[str], start: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(start)]
