"""`gofer resubmit`: the same job again, after stopping the old run if it lives."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

from gofer.cli.options import (
    Command,
    Flag,
    filter_option,
    json_option,
    quiet_option,
    run_argument,
    target_option,
)
from gofer.cli.output.describe import named, page_words
from gofer.cli.output.done import record_done
from gofer.cli.output.run_json import print_runs
from gofer.cli.output.screen import is_declined, is_on_screen, print_message, print_nothing
from gofer.cli.run_choice import choose_runs, is_agreed, yes_option
from gofer.errors import UsageError
from gofer.ops.messages import Message
from gofer.ops.runs.freshness import refresh_runs
from gofer.ops.runs.target_views import page_of
from gofer.ops.session import Session
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.ops.submission.resubmit import resubmit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.submission.resubmit import Resubmitted
    from gofer.tracking.ledger import RunRow

_MOST_NAMED = 5


class _Options(TypedDict):
    runs: tuple[str, ...]
    filters: tuple[str, ...]
    yes: bool
    target: str | None
    same_code: bool
    new_code: bool
    continues: bool
    failed: bool
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """The new ids, one a line, or JSON on stdout; what differs from the old run on stderr."""
    if given["same_code"] and given["new_code"]:
        raise UsageError("`--same-code` and `--new-code` contradict each other", hint="leave one of them out")
    # `--target` is where the new run goes. An unknown old job is searched for on that target only.
    with Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message) as session:
        old = choose_runs(session, given["runs"], given["filters"], acts=True)
        if given["filters"]:
            agreed = is_agreed(old, "resubmit", yes=given["yes"])
        else:
            agreed = _may_stop(session, old, given)
        if not agreed:
            return 1
        again = resubmit(
            session,
            old,
            target=given["target"],
            same_code=given["same_code"],
            failed_only=given["failed"],
            continues=given["continues"],
        )
        record_done("; ".join(f"{one.old.id} was sent again as {one.new.id}" for one in again))
        on_screen = is_on_screen(quiet=given["quiet"])
        for one in again:
            new = named(one.new) if on_screen else one.new.short_id
            words = f"resubmitted {one.old.short_id} as {new} to `{one.new.target}`; {difference(one)}"
            session.emit(Message(words))
            if one.new.kind == "run" and (page := page_of(session, one.new)):
                session.emit(Message(page_words(one.new, page)))
            if given["continues"]:
                session.emit(Message(continuation(one)))
        if given["as_json"]:
            print_runs(session, [one.new for one in again])
        elif not on_screen:
            sys.stdout.write("".join(one.new.id + "\n" for one in again))
    return 0


def _may_stop(session: Session, rows: Sequence[RunRow], given: _Options) -> bool:
    """Whether runs that have not ended may be stopped: a person on a terminal decides, and Enter means
    yes.
    """
    if given["yes"]:
        return True
    rows = refresh_runs(session, rows)
    living = [row for row in rows if not row.is_final and not (given["failed"] and row.kind == "group")]
    if not living:
        return True
    states = ", ".join(f"{row.short_id} is {row.state}" for row in living[:_MOST_NAMED])
    more = f" and {len(living) - _MOST_NAMED} more have not ended" if len(living) > _MOST_NAMED else ""
    them = "it" if len(living) == 1 else "them"
    if not is_declined(f"{states}{more}: stop {them} first?"):
        return True
    print_message("nothing was resubmitted")
    return False


def continuation(one: Resubmitted) -> str:
    """A sentence about the files with which the new run starts, and those that were not restored because the
    code has them.
    """
    words = f"{one.new.short_id} starts with the files and outputs of {one.old.short_id}"
    named = ", ".join(one.kept_by_code[:_MOST_NAMED])
    more = f" and {len(one.kept_by_code) - _MOST_NAMED} more" if len(one.kept_by_code) > _MOST_NAMED else ""
    return f"{words}; the code has its own {named}{more}" if named else words


def difference(one: Resubmitted) -> str:
    """A phrase that compares the code of the new run with that of the old run."""
    if is_adopted(one.old):
        return "with the code of this folder: gofer did not start the old one"
    if one.code_differs is None:
        return "without code to compare"
    if not one.code_differs:
        return "the same code"
    named = ", ".join(one.differences[:_MOST_NAMED])
    more = f" and {len(one.differences) - _MOST_NAMED} more" if len(one.differences) > _MOST_NAMED else ""
    return f"the code differs: {named}{more}" if named else "the code differs"


command = Command(
    "resubmit",
    run,
    [
        run_argument(many=True, required=False),
        filter_option("Submit the runs that match, instead of RUN"),
        yes_option(),
        target_option("The target to run on now", default_text="the target of the old run"),
        Flag("--same-code", "Run the code as it was sent with the old run"),
        Flag("--new-code", "Run the code that the folder has now (the default)"),
        Flag("--continue continues", "Start with the files and outputs that the old run left in place"),
        Flag("--failed", "Of a group, only the rows that did not succeed"),
        json_option("Print a JSON array of the runs"),
        quiet_option(),
    ],
    help="Submit runs again with the same command, resources and tags. A run that has not ended is stopped "
    "first; on a terminal gofer asks before, and Enter means yes. Says whether the code differs from that of "
    "the old run. Before gofer submits the runs of `--filter` again, it shows them and asks; without a "
    "terminal it needs `--yes`.\n\n"
    "With `--continue` the new run starts with the outputs of the old run and with the files that the "
    "old run wrote beside its code. A file that the code has too is that of the code, and gofer names it.",
)
