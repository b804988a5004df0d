"""`gofer target list`, `gofer list targets`: where commands can run."""

from __future__ import annotations

import sys
from typing import Any

from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import has_colours
from gofer.cli.output.table import Column, render, screen_width
from gofer.ops.session import Session

_COLUMNS = [Column("NAME"), Column("KIND"), Column("STORE"), Column("DEFAULT"), Column("FROM", flexible=True)]


def run(**given: Any) -> int:
    """A line, or a JSON object, for every target."""
    with Session() as session:
        targets = _targets(session)
    if given["as_json"]:
        print_json(targets)
        return 0
    cells = [
        [one["name"], one["kind"], one["store"], "yes" if one["default"] else "", one["origin"]]
        for one in targets
    ]
    sys.stdout.write(render(_COLUMNS, cells, fit=screen_width(), colour=has_colours(sys.stdout)))
    return 0


def _targets(session: Session) -> list[dict[str, Any]]:
    settings = session.settings
    found = [settings.target(name) for name in settings.target_names]
    return [
        {
            "name": target.name,
            "kind": target.kind,
            "store": target.store,
            "default": target.name == settings.default_target,
            "origin": target.place.origin,
        }
        for target in found
    ]


command = Command("list", run, [json_option()], help="List the targets that commands can run on.")
