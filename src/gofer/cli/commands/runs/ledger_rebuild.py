"""`gofer ledger rebuild`: rebuild the index of runs from the stores."""

from __future__ import annotations

from typing import TypedDict, Unpack

from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.ops.maintenance.rebuild import rebuild
from gofer.ops.session import Session


class _Options(TypedDict):
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """Say what was found, or print it as JSON."""
    with Session() as session:
        done = rebuild(session)
    if given["as_json"]:
        print_json({**done._asdict(), "set_aside": str(done.set_aside) if done.set_aside else None})
        return 0
    rows = f" and {done.rows} rows of arrays" if done.rows else ""
    print_message(f"the ledger has {done.runs} runs{rows}")
    if done.set_aside:
        print_message(f"the damaged ledger is kept at {done.set_aside}")
    for url in done.unread:
        print_message(f"warning: the store {url} could not be read; {done.kept} runs are kept as they were")
    for key in done.broken:
        print_message(f"warning: the record {key} cannot be read and was left out")
    return 0


command = Command(
    "rebuild",
    run,
    [json_option()],
    help="Rebuild the index of runs from the stores of all targets. Nothing in a store "
    "is changed; running runs continue.",
)
