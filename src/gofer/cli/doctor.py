"""`gofer doctor`: whether gofer can work here, and what to do where it cannot."""

from __future__ import annotations

import sys
from typing import Any

from gofer.cli.options import Command, json_option, target_option
from gofer.cli.screen import colourful, say
from gofer.cli.table import Column, render, screen_width

# A failure must catch the eye without colours too.
_WORDS = {"fail": "FAIL"}


def run(**given: Any) -> int:
    """A table of checks, or JSON; 1 when any failed."""
    from gofer.ops.doctor import checks
    from gofer.ops.session import Session

    with Session(target=given["target"]) as session:
        found = checks(session)
    if given["as_json"]:
        from gofer.cli.json_output import print_json

        print_json([{**check._asdict(), "ok": check.ok} for check in found])
    else:
        columns = [Column("CHECK"), Column("", coloured=True), Column("DETAIL")]
        cells = [[check.name, _WORDS.get(check.status, check.status), check.detail] for check in found]
        sys.stdout.write(render(columns, cells, fit=screen_width(), colour=colourful(sys.stdout)))
        for check in found:
            if check.status != "ok" and check.hint:
                say(f"hint: {check.name}: {check.hint}")
    return 0 if all(check.ok for check in found) else 1


command = Command(
    "doctor",
    run,
    [target_option("Check this target too"), json_option()],
    help="Check that gofer can work here: its folders, ledger, store, engine and targets. The exit status is "
    "1 when a check fails.",
)
