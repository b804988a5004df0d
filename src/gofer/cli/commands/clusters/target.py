"""`gofer target`: the targets that commands can run on, listed, and one of them shown in full."""

from __future__ import annotations

import sys
from typing import TypedDict, Unpack

import click

from gofer.cli.options import Command, json_option, offers, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, render_facts, screen_width
from gofer.cli.output.theme import has_colours
from gofer.config.folders import folders_of
from gofer.errors import UsageError
from gofer.ops.runs.target_views import fact
from gofer.ops.session import Session
from gofer.text import format_duration

_COLUMNS = [
    Column("NAME"),
    Column("KIND"),
    Column("STORE", drop=1),
    Column("DEFAULT"),
    Column("FROM", flexible=True),
]


class _ListTargetsOptions(TypedDict):
    as_json: bool


def list_targets(**given: Unpack[_ListTargetsOptions]) -> int:
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


class _ListedTarget(TypedDict):
    name: str
    kind: str
    store: str
    default: bool
    origin: str


class _TargetFacts(TypedDict):
    name: str
    kind: str
    store: str
    store_url: str
    origin: str
    options: dict[str, object]
    folders: dict[str, str]
    has: dict[str, object]


def _targets(session: Session) -> list[_ListedTarget]:
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


list_command = Command(
    "list", list_targets, [json_option()], help="List the targets that commands can run on."
)


class _ShowTargetOptions(TypedDict):
    name: str | None
    target: str | None
    as_json: bool


def show_target(**given: Unpack[_ShowTargetOptions]) -> int:
    """Facts, or JSON; the default target when none is named."""
    with Session(target=given["target"]) as session:
        facts = _facts(session, given["name"] or given["target"])
    if given["as_json"]:
        print_json(facts)
    else:
        sys.stdout.write(render_facts(_lines(facts)))
    return 0


def _facts(session: Session, name: str | None) -> _TargetFacts:
    import msgspec

    target = session.settings.target(name)
    options: dict[str, object] = msgspec.to_builtins(target.options)
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


def _has(session: Session, name: str) -> dict[str, object]:
    """The facts of the target's cluster; empty when it gives none. An incomplete target is shown too."""
    try:
        backend = session.backend(name)
    except UsageError as error:
        print_message(f"warning: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        return {}
    return dict(backend.describe())


def _lines(facts: _TargetFacts) -> list[tuple[str, str]]:
    plain = {key: value for key, value in facts.items() if key not in ("options", "folders", "has")}
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


show_command = Command(
    "show",
    show_target,
    [
        click.Argument(["name"], required=False, metavar="[NAME]", shell_complete=offers("targets")),
        target_option(default_text="the project's default target"),
        json_option(),
    ],
    help="Show one target, the default one unless named: its kind, its store, its options and what it has.",
)
