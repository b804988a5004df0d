"""`gofer submit ssh`: GPUs to work on by hand. A run that does nothing until it is stopped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gofer.cli.commands.runs.ssh import enter
from gofer.cli.output.describe import ended_line
from gofer.cli.output.run_json import print_run
from gofer.cli.output.screen import confirmation_prompt, print_message, print_nothing
from gofer.cli.request import SubmitOptions, build_request
from gofer.config.jobs import job_values
from gofer.errors import UsageError
from gofer.ops.messages import Message
from gofer.ops.runs.failures import exit_status
from gofer.ops.runs.live_status import LiveReport
from gofer.ops.runs.run_records import RunRecords
from gofer.ops.runs.shell import wait_inside
from gofer.ops.session import Session
from gofer.ops.submission.submit import plan, submit
from gofer.text import format_duration

if TYPE_CHECKING:
    from gofer.ops.submission.submit import SubmitRequest
    from gofer.tracking.ledger import RunRow

_TIME_S = 8 * 3600.0
_COMMAND = ("sleep", "infinity")


def hold(given: SubmitOptions) -> int:
    """Print the run's id, its JSON or the plan; on a terminal, enter the run once it runs."""
    for option, value in (("each", given["each"]), ("array", given["array"]), ("follow", given["follow"])):
        if value:
            raise UsageError(
                f"`gofer submit ssh` runs no command, so `--{option}` has no effect",
                hint="to run ssh itself, name a host: `gofer submit ssh HOST`",
            )
    enters = sys.stdin.isatty() and sys.stdout.isatty() and not given["as_json"]
    with Session(
        target=given["target"],
        emit=print_nothing if given["quiet"] else print_message,
        ask=confirmation_prompt(),
    ) as session:
        request = _request(session, given)
        if given["dry_run"]:
            sys.stdout.write(plan(session, request).rstrip("\n") + "\n")
            return 0
        row = submit(session, request)
        _print_summary(session, row, given, enters=enters)
        if enters or given["wait"]:
            row = _wait(session, row)
        status = _after(session, row, given)
    if enters and row.state == "running":
        return enter(row.id, (), quiet=given["quiet"])
    return status


def _request(session: Session, given: SubmitOptions) -> SubmitRequest:
    """The request: one process on each node, since only the person starts programs, and always a time
    limit.
    """
    import msgspec

    single = given["single"] or not given["procs"]
    request = build_request({**given, "command": _COMMAND, "single": single, "name": given["name"] or "ssh"})
    request = msgspec.structs.replace(request, shell=True)
    known = job_values(request.flags, None, session.settings, session.settings.choose_target(given["target"]))
    if known["time_limit"].value is not None:
        return request
    return msgspec.structs.replace(
        request, flags=msgspec.structs.replace(request.flags, time_limit_s=_TIME_S)
    )


def _print_summary(session: Session, row: RunRow, given: SubmitOptions, *, enters: bool) -> None:
    if not given["as_json"]:
        sys.stdout.write(row.id + "\n")
        sys.stdout.flush()
    record = RunRecords(session).of(row)
    limit_s = record.job.time_limit_s if record else None
    what = "a place" if not row.gpus else "1 GPU" if row.gpus == 1 else f"{row.gpus} GPUs"
    session.emit(
        Message(
            f"{row.id} asks for {what} on `{row.target}` for at most {format_duration(limit_s)}; "
            f"`gofer abort {row.short_id}` ends it sooner"
        )
    )
    if not enters and not given["wait"]:
        session.emit(
            Message(
                f"`gofer ssh {row.short_id}` enters it once it runs; `gofer why {row.short_id}` says when"
            )
        )


def _wait(session: Session, row: RunRow) -> RunRow:
    """Wait until the run runs or has ended. Ctrl-C ends only the wait."""
    try:
        with LiveReport(session) as live:
            return wait_inside(session, row.id, on_answer=live.report)
    except KeyboardInterrupt:
        name = row.short_id
        sys.stderr.write("\n")
        print_message(
            f"the run still waits; `gofer ssh {name}` enters it once it runs, `gofer abort {name}` stops it"
        )
        raise


def _after(session: Session, row: RunRow, given: SubmitOptions) -> int:
    if given["as_json"]:
        print_run(session, row)
    if row.is_final:
        session.emit(Message(ended_line(row)))
        return exit_status(session, [row])
    if row.state == "running":
        session.emit(Message(f"it runs; `gofer ssh {row.short_id}` enters it"))
    return 0
