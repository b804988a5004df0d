"""`gofer target show`: one target, its options, and what its cluster says it has."""

from __future__ import annotations

import sys
from typing import Any

import click

from gofer.cli.options import Command, json_option, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import render_facts
from gofer.config.folders import folders_of
from gofer.errors import UsageError
from gofer.ops.session import Session
from gofer.ops.settings.target_facts import fact
from gofer.text import format_duration


def run(**given: Any) -> int:
    """Facts, or JSON; the default target when none is named."""
    with Session(target=given["target"]) as session:
        facts = _facts(session, given["name"] or given["target"])
    if given["as_json"]:
        print_json(facts)
    else:
        sys.stdout.write(render_facts(_lines(facts)))
    return 0


def _facts(session: Session, name: str | None) -> dict[str, Any]:
    import msgspec

    target = session.settings.target(name)
    options: dict[str, Any] = msgspec.to_builtins(target.options)
    return {
        "name": target.name,
        "kind": target.kind,
        "store": target.store,
        "store_url": session.store_url_of(target.name),
        "origin": target.place.origin,
        "options": {key: value for key, value in options.items() if value is not None},
        "folders": {
            folder.name: f"{folder.store}:{folder.path}"
            for folder in folders_of(session.settings, target.name).values()
        },
        "has": _has(session, target.name),
    }


def _has(session: Session, name: str) -> dict[str, Any]:
    """The facts of the target's cluster; empty when it gives none. An incomplete target is shown too."""
    try:
        backend = session.backend(name)
    except UsageError as error:
        print_message(f"warning: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        return {}
    return dict(backend.describe())


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    plain = {key: facts[key] for key in ("name", "kind", "store", "store_url", "origin")}
    # A setting of the target and a fact of its machine may have the same name: `gpus: 8`, `3 of 8 free`.
    said = {
        **{key: _shown_value(value) for key, value in facts["options"].items()},
        "folders": facts["folders"],
    }
    lines = [fact(key, value) for key, value in {**plain, **said, **facts["has"]}.items()]
    return [(key, value) for key, value in lines if value]


def _shown_value(value: object) -> object:
    """The value of an option as text. Numbers with a fraction are durations."""
    return format_duration(value) if isinstance(value, float) else value


command = Command(
    "show",
    run,
    [
        click.Argument(["name"], required=False, metavar="[NAME]"),
        target_option(default_text="the project's default target"),
        json_option(),
    ],
    help="Show one target, the default one unless named: its kind, its store, its options and what it has.",
)
