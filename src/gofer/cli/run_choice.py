"""Which runs a command works on: those that are named, or those that `--filter` chooses.

Before a command changes runs that a filter chose, it shows them and asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gofer.cli.options import Flag, filter_option, run_argument, target_option
from gofer.cli.output.screen import confirmation_prompt, print_message
from gofer.errors import UsageError
from gofer.ops.runs.find import find_all, find_matching
from gofer.text import quote_command
from gofer.tracking.query import parse_filters
from gofer.tracking.references import candidate

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_MOST_SHOWN = 10


def yes_option() -> Flag:
    """`-y/--yes`, on every command that asks about the runs that a filter chose."""
    return Flag("-y --yes", "Do not ask before runs are changed")


def run_arguments(filters: str) -> list[click.Parameter]:
    """The arguments of a command that works on several runs; `filters` says what `--filter` does."""
    return [
        run_argument(many=True, required=False),
        filter_option(f"{filters}, instead of RUN"),
        target_option("Only look among the runs on this target"),
    ]


def choose_runs(
    session: Session,
    references: Sequence[str],
    filters: Sequence[str],
    *,
    target: str | None = None,
    acts: bool = False,
    may_be_none: bool = False,
) -> list[RunRow]:
    """The named runs, or the runs that match all filters, newest first.

    UsageError when both are given, or none, and when no run matches, unless there `may_be_none`.
    """
    if not filters:
        return find_all(session, references, target=target, acts=acts)
    if references:
        raise UsageError(
            f"`{references[0]}` names a run, and `--filter` chooses runs", hint="leave one of them out"
        )
    rows = find_matching(session, parse_filters(filters), target=target, acts=acts)
    if not rows and not may_be_none:
        words = quote_command([word for one in filters for word in ("--filter", one)])
        raise UsageError(
            f"no run matches `{words}`", hint=f"`gofer list runs {words}` shows those that match"
        )
    return rows


def is_agreed(rows: Sequence[RunRow], what: str, *, yes: bool, in_script: bool = False) -> bool:
    """Whether the person agrees that the runs of a filter are changed; `what` is the verb of the question.

    On a terminal the runs are shown first, and Enter means no. Without one, `in_script` is the answer where
    the change is easily undone; otherwise UsageError, unless `yes`.
    """
    if yes:
        return True
    runs = f"{len(rows):,} run{'' if len(rows) == 1 else 's'}"
    ask = confirmation_prompt()
    if ask is None:
        if in_script:
            return True
        raise UsageError(f"{runs} would be {_PAST[what]}, and no terminal can confirm it", hint="add `--yes`")
    for row in rows[:_MOST_SHOWN]:
        print_message(candidate(row))
    if len(rows) > _MOST_SHOWN:
        print_message(f"  and {len(rows) - _MOST_SHOWN:,} more")
    if ask(f"{what} {runs}?"):
        return True
    print_message(f"nothing was {_PAST[what]}")
    return False


_PAST = {"stop": "stopped", "resubmit": "resubmitted", "tag": "tagged"}
