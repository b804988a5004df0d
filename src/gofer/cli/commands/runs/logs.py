"""`gofer logs`: one rank's log on stdout, exactly as the command wrote it, or lines of several logs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, Option, json_option, run_argument, target_option
from gofer.cli.output.follow import print_still_running, write_setup
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message, write
from gofer.errors import UsageError
from gofer.ops.logs.chosen_lines import ALL, ChosenLines, LineChoice, choose_lines
from gofer.ops.logs.group_logs import GroupLogs
from gofer.ops.runs.find import find
from gofer.ops.runs.freshness import refresh_runs
from gofer.ops.runs.live_status import LiveReport
from gofer.ops.runs.view import log_json, run_json
from gofer.ops.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gofer.tracking.ledger import RunRow


class _Options(TypedDict):
    run: str | None
    target: str | None
    rank: str
    row: str | None
    node: int | None
    attempt: int | None
    tail: int | None
    since: str | None
    grep: str | None
    follow: bool
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """Print what there is, or follow until the run ends; 0 whatever became of the run."""
    with Session(target=given["target"], emit=print_message) as session:
        row = find(session, given["run"], target=given["target"])
        if given["as_json"]:
            _print_logs(session, row, given)
            return 0
        wrote = False
        try:
            for piece in _pieces(session, row, given):
                wrote = wrote or bool(piece)
                write(piece)
        except KeyboardInterrupt:
            if given["follow"]:
                print_still_running(row, has_log=True)
            raise
        if not wrote and given["tail"] != 0:
            _print_nothing(session, row, given)
    return 0


def _print_logs(session: Session, row: RunRow, given: _Options) -> None:
    """Which logs there are; of a group, those of each row."""
    for name, value in (("grep", given["grep"]), ("since", given["since"])):
        if value is not None:
            raise UsageError("`--json` lists the logs, not their lines", hint=f"leave out `--{name}`")
    choice = _choice(row, given)
    if row.kind != "group":
        print_json(run_json(session, row)["logs"])
        return
    (row,) = refresh_runs(session, [row])
    logs = GroupLogs(session, row, choice)
    found = ((one.row_index, file) for one, files in logs.files() for file in files)
    print_json([{"row": index, **log_json(file, logs.store)} for index, file in found])


def _pieces(session: Session, row: RunRow, given: _Options) -> Iterator[bytes]:
    if given["since"] is not None and given["tail"] is not None:
        raise UsageError("`--since` and `--tail` both choose where to begin", hint="leave one of them out")
    lines = ChosenLines(session, row, _choice(row, given))
    if not given["follow"]:
        yield from lines.read(given["tail"])
        return
    with LiveReport(session, until_started=row.kind == "run") as live:
        yield from lines.follow(lines=given["tail"], show_setup=write_setup, report=live)


def _choice(row: RunRow, given: _Options) -> LineChoice:
    return choose_lines(
        row,
        rows=given["row"],
        rank=given["rank"],
        node=given["node"],
        attempt=given["attempt"],
        grep=given["grep"],
        since=given["since"],
    )


def _print_nothing(session: Session, row: RunRow, given: _Options) -> None:
    (row,) = refresh_runs(session, [row])
    so_far = "" if row.is_final else " so far"
    if given["grep"] is not None:
        print_message(f"no line of {row.short_id} matches `{given['grep']}`{so_far}")
        return
    if given["since"] is not None:
        print_message(f"{row.short_id} {row.state} and has written nothing since then{so_far}")
        return
    reason = f" ({row.reason})" if row.reason else ""
    print_message(f"{row.short_id} {row.state}{reason} with no output{so_far}")


def _read_rank(ctx: click.Context, param: click.Parameter, text: str) -> int | str:
    """The number of a rank, or `all`."""
    if text == ALL:
        return text
    if not re.fullmatch("[0-9]{1,9}", text):
        raise click.BadParameter(f"`{text}` is neither a rank, a number from 0, nor `{ALL}`", ctx, param)
    return int(text)


command = Command(
    "logs",
    run,
    [
        run_argument(required=False),
        target_option("Only look among the runs on this target"),
        Option(
            "--rank --ranks rank",
            "The rank whose log to print, or `all`: each line then begins with its rank",
            default="0",
            callback=_read_rank,
            metavar="N",
        ),
        Option(
            "--row",
            "Of a group, the rows whose logs to print: `0-9,17` or `all`",
            default_text="all of a small group, else the last lines of some",
            metavar="ROWS",
        ),
        Option(
            "--node",
            "The node whose log to print",
            default_text="the node of the rank",
            type=click.IntRange(min=0),
            metavar="N",
        ),
        Option(
            "--attempt",
            "The attempt whose log to print",
            default_text="the last",
            type=click.IntRange(min=1),
            metavar="N",
        ),
        Option(
            "--tail",
            "Only the last N lines",
            default_text="all lines",
            type=click.IntRange(min=0),
            metavar="N",
        ),
        Option(
            "--since",
            "Only the lines written since then: `10m` (ago), `14:05`, `2026-03-01 14:05`",
            default_text="all lines",
            metavar="TIME",
        ),
        Option(
            "--grep",
            "Only the lines that match this regular expression",
            default_text="all lines",
            metavar="PATTERN",
        ),
        Flag("-f --follow", "Follow the log until the run ends"),
        json_option("Print which logs there are, as a JSON array"),
    ],
    help="Print the log of a run: stdout and stderr of rank 0, or of the rank asked for. Without RUN, that "
    "of the newest run of this project. Of a group, print the lines of its rows, each with its row. A run "
    "whose set-up failed has the log of its set-up; one that never started, and a job that gofer did not "
    "start, has the log that its service keeps.",
)
