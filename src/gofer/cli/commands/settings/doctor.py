"""`gofer doctor`: whether gofer can work here, and what to do where it cannot."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, json_option, offers, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, screen_width
from gofer.cli.output.theme import has_colours
from gofer.errors import UsageError
from gofer.ops.doctor.doctor import checks
from gofer.ops.doctor.kind_checks import kind_checks
from gofer.ops.session import Session

if TYPE_CHECKING:
    from gofer.model.checks import Check
# Upper case, so that a failure is visible without colours too.
_WORDS = {"fail": "FAIL"}


class _Options(TypedDict):
    words: tuple[str, ...]
    target: str | None
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """A table of checks, or JSON; 1 when any failed."""
    with Session(target=given["target"]) as session:
        found = _checks(session, given["words"], given["target"])
    if given["as_json"]:
        print_json([{**check._asdict(), "ok": check.ok} for check in found])
    else:
        _print(found)
    return 0 if all(check.ok for check in found) else 1


def _checks(session: Session, words: tuple[str, ...], target: str | None) -> list[Check]:
    if not words:
        return checks(session)
    if len(words) > 2:
        raise UsageError(
            f"`gofer doctor {' '.join(words)}` checks nothing",
            hint="`gofer doctor`, or `gofer doctor azure|kubernetes|ssh [TARGET]`",
        )
    return kind_checks(session, words[0], words[1] if len(words) > 1 else target)


def _print(found: list[Check]) -> None:
    columns = [Column("CHECK"), Column("", coloured=True), Column("DETAIL")]
    cells = [[check.name, _WORDS.get(check.status, check.status), check.detail] for check in found]
    sys.stdout.write(render(columns, cells, fit=screen_width(), colour=has_colours(sys.stdout)))
    for check in found:
        if check.status != "ok" and check.hint:
            # A hint may end with lines to copy, such as a document for `kubectl apply`.
            for line in f"hint: {check.name}: {check.hint}".splitlines():
                print_message(line)


command = Command(
    "doctor",
    run,
    [
        click.Argument(
            ["words"],
            nargs=-1,
            metavar="[azure|kubernetes|ssh [TARGET]]",
            shell_complete=offers("doctor topics"),
        ),
        target_option("Check this target too", default_text="the project's default target"),
        json_option(),
    ],
    help="Check that gofer can work here: its folders, ledger, stores, queue and target. `gofer doctor "
    "azure` checks what Azure needs: the login, the service, every target of the kind `azureml` "
    "and every store of Azure, or one target and its stores. `gofer doctor kubernetes` checks "
    "clusters, and prints the Role for rights that are missing. `gofer doctor ssh` checks ssh on this "
    "machine: its settings, a key, the agent, and whether the machines of targets are known. The exit "
    "status is 1 when a check fails.",
)
