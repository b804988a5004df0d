"""`gofer target show`: one target, its options, and what its cluster says it has."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gofer.cli.options import Command, json_option, target_option
from gofer.cli.table import render_facts

if TYPE_CHECKING:
    from gofer.ops.session import Session


def run(**given: Any) -> int:
    """Facts, or JSON; the default target when none is named."""
    from gofer.ops.session import Session

    with Session(target=given["target"]) as session:
        facts = _facts(session, given["name"] or given["target"])
    if given["as_json"]:
        from gofer.cli.json_output import print_json

        print_json(facts)
    else:
        sys.stdout.write(render_facts(_lines(facts)))
    return 0


def _facts(session: Session, name: str | None) -> dict[str, Any]:
    import msgspec

    from gofer.config.folders import folders_of

    target = session.settings.target(name)
    options: dict[str, Any] = msgspec.to_builtins(target.options)
    return {
        "name": target.name,
        "kind": target.kind,
        "store": target.store,
        "store_url": session.settings.store(target.store).url,
        "origin": target.place.origin,
        "options": {key: value for key, value in options.items() if value is not None},
        "folders": {
            folder.name: f"{folder.store}:{folder.path}"
            for folder in folders_of(session.settings, target.name).values()
        },
        "has": _has(session, target.name),
    }


def _has(session: Session, name: str) -> dict[str, Any]:
    """What its cluster says; nothing of another tool's target, of which only the folders are known."""
    from gofer.backends.base import Describes

    if session.settings.is_imported(name):
        return {}
    backend = session.backend(name)
    return dict(backend.describe()) if isinstance(backend, Describes) else {}


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    plain = [(key, str(facts[key])) for key in ("name", "kind", "store", "store_url", "origin")]
    nested = [
        (key, _text(value))
        for key, value in {**facts["options"], "folders": facts["folders"], **facts["has"]}.items()
    ]
    return [(key.replace("_", " "), value) for key, value in plain + nested if value]


def _text(value: object) -> str:
    """A list as lines, a table as `key=value` words, anything else as it is."""
    if isinstance(value, list | tuple):
        return "\n".join(_text(one) for one in value)
    if isinstance(value, dict):
        return " ".join(f"{key}={one}" for key, one in value.items() if one is not None)
    return str(value)


command = Command(
    "show",
    run,
    [click.Argument(["name"], required=False, metavar="[NAME]"), target_option(), json_option()],
    help="Show one target, the default one unless named: its kind, its store, its options and what it has.",
)
