"""`gofer extract`: the code, logs and outputs of a run in one folder."""

from __future__ import annotations

from typing import Any

import click

from gofer.cli.options import Command, Flag, quiet_option, run_argument, target_option
from gofer.cli.screen import hush, say


def run(**given: Any) -> int:
    """Fill DIR; what was written is said on stderr."""
    from pathlib import Path

    from gofer.ops.extract import extract
    from gofer.ops.find import find
    from gofer.ops.session import Session

    folder = Path(given["folder"])
    with Session(target=given["target"], say=hush if given["quiet"] else say) as session:
        row = find(session, given["run"], target=given["target"])
        done = extract(session, row, folder, force=given["force"])
        for name in ("code", "log", "output"):
            count = getattr(done, f"{name}_files")
            session.say(f"{count} {name} file{'' if count == 1 else 's'} in {folder}")
    return 0


command = Command(
    "extract",
    run,
    [
        run_argument(),
        click.Argument(["folder"], metavar="DIR"),
        target_option("Only look among the runs on this target"),
        Flag("--force", "Bring a folder up to date that has something in it"),
        quiet_option(),
    ],
    help="Bring back what a run was and left: DIR/code, the code it ran with; DIR/logs, the logs of all its "
    "attempts; DIR/outputs, what it wrote to $GOFER_OUTPUT_DIR.",
)
