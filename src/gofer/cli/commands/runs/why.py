"""`gofer why`: why a run waits, what a running run does, why a run ended, and what to type next."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

from gofer.cli.options import Command, json_option, run_argument, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.theme import has_colours
from gofer.cli.output.why_text import explained
from gofer.ops.runs.find import find_all
from gofer.ops.runs.freshness import refresh_runs
from gofer.ops.runs.why import why
from gofer.ops.session import Session

if TYPE_CHECKING:
    from gofer.ops.runs.why import Why


class _Options(TypedDict):
    runs: tuple[str, ...]
    target: str | None
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """For each run a few lines, or JSON: one object, or an array of them for several runs."""
    with Session(target=given["target"]) as session:
        rows = refresh_runs(session, find_all(session, given["runs"] or [None], target=given["target"]))
        answers = [_answer(session, row.id) for row in rows]
    if given["as_json"]:
        documents = [one.to_json() for one in answers]
        print_json(documents[0] if len(documents) == 1 else documents)
        return 0
    sys.stdout.write("\n".join(explained(one, colour=has_colours(sys.stdout)) for one in answers))
    return 0


def _answer(session: Session, run_id: str) -> Why:
    row = session.ledger.get(run_id)
    assert row is not None  # this command has just found the run
    return why(session, row)


command = Command(
    "why",
    run,
    [
        run_argument(many=True, required=False),
        target_option("Only look among the runs on this target"),
        json_option("Print JSON: one object, or an array of them for several runs"),
    ],
    help="Say why a run waits (what it needs, which runs use it, how many wait ahead), what a running one "
    "does, or why it failed: the rank that failed first, its exit code or signal, its last lines. Then what "
    "to type next. Of a group: its runs by reason, with an example of each. Without RUN, the newest run of "
    "this project.",
)
