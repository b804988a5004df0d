"""`gofer config`: the settings shown with their origins, their JSON Schema, and the files of older tools
converted.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, Option, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, screen_width
from gofer.cli.output.theme import has_colours
from gofer.config.show import rows
from gofer.config.yaml.document import display
from gofer.config.yaml.nodes import BUILT_IN
from gofer.ops.session import Session
from gofer.ops.settings.config_import import plan_import, write_import
from gofer.ops.settings.load import config_schema

if TYPE_CHECKING:
    from gofer.ops.settings.config_import import Imported


_IMPORT_COLUMNS = [
    Column("FROM"),
    Column("KEY", flexible=True),
    Column("BECAME"),
    Column("TO", flexible=True),
    Column("WHY", flexible=True),
]


class _ShowConfigOptions(TypedDict):
    changed: bool
    as_json: bool


def show_config(**given: Unpack[_ShowConfigOptions]) -> int:
    """A table, or JSON. Values that are secret are masked."""
    with Session() as session:
        shown = rows(session.settings)
        if given["changed"]:
            shown = [one for one in shown if one.origin != BUILT_IN.origin]
        warnings = session.settings.warnings
    if given["as_json"]:
        print_json([one._asdict() for one in shown])
    else:
        columns = [Column("KEY"), Column("VALUE", flexible=True), Column("FROM")]
        table = [one._replace(value=_one_line(one.value)) for one in shown]
        sys.stdout.write(render(columns, table, fit=screen_width(), colour=has_colours(sys.stdout)))
    for warning in warnings:
        print_message(f"warning: {warning}")
    return 0


def _one_line(text: str) -> str:
    """A long text as one line: its first line, and the number of lines."""
    lines = text.splitlines()
    return text if len(lines) < 2 else f"{lines[0]} … ({len(lines)} lines)"


show_command = Command(
    "show",
    show_config,
    [Flag("--changed", "Only the settings that a file or a variable sets"), json_option()],
    help="Show every setting, its value and where it comes from: a file and line, a variable, or built in.",
)


class _SchemaConfigOptions(TypedDict):
    pass


def schema_config(**given: Unpack[_SchemaConfigOptions]) -> int:
    """Print the schema."""
    print_json(config_schema())
    return 0


schema_command = Command(
    "schema",
    schema_config,
    [],
    help="Print the JSON Schema of gofer.yaml and config.yaml. An editor that knows YAML schemas completes "
    "and checks the file with `# yaml-language-server: $schema=FILE` as its first line.",
)


class _ImportConfigOptions(TypedDict):
    files: tuple[str, ...]
    name: str | None
    out: str | None
    dry_run: bool
    as_json: bool


def import_config(**given: Unpack[_ImportConfigOptions]) -> int:
    """The report on stdout; the files that were written, and what is left to do, on stderr."""
    out = Path(given["out"]) if given["out"] else None
    with Session() as session:
        imported = plan_import(session, [Path(one) for one in given["files"]], name=given["name"], out=out)
    if not given["dry_run"]:
        write_import(imported)
    if given["as_json"]:
        print_json(_document(imported, written=not given["dry_run"]))
    else:
        rows = [[one.place.where, one.key, one.outcome, one.to, one.why] for one in imported.findings]
        sys.stdout.write(render(_IMPORT_COLUMNS, rows, fit=screen_width(), colour=has_colours(sys.stdout)))
        if given["dry_run"]:
            _preview(imported)
    _talk(imported, dry_run=given["dry_run"])
    return 0


def _preview(imported: Imported) -> None:
    for path, text in imported.texts.items():
        sys.stdout.write(f"\n# {display(path)}\n{text}")


def _talk(imported: Imported, *, dry_run: bool) -> None:
    counts = Counter(one.outcome for one in imported.findings)
    print_message(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    for note in imported.notes:
        print_message(f"note: {note}")
    for path in imported.texts:
        print_message(f"{'would write' if dry_run else 'wrote'} {display(path)}")
    if not imported.texts:
        carried = any(one.to for one in imported.findings)
        print_message(
            f"{display(imported.out)} has all of it already" if carried else "there was nothing to write"
        )
    for secret in imported.secrets:
        print_message(f"next: `gofer secret set {secret.name}` (the value is in {secret.where})")


def _document(imported: Imported, *, written: bool) -> dict[str, object]:
    return {
        "written": written,
        "files": [{"path": display(path), "text": text} for path, text in imported.texts.items()],
        "keys": [
            {
                "file": one.place.path or one.place.source,
                "line": one.place.line,
                "key": one.key,
                "became": one.outcome.value,
                "to": one.to or None,
                "why": one.why or None,
            }
            for one in imported.findings
        ],
        "secrets": [one._asdict() for one in imported.secrets],
        "notes": imported.notes,
    }


import_command = Command(
    "import",
    import_config,
    [
        click.Argument(["files"], nargs=-1, metavar="[FILE]…"),
        Option(
            "--as name",
            "The name of the target that the files become",
            default_text="made from the file's name",
            metavar="NAME",
        ),
        Option(
            "--out", "The file to write or add to", default_text="the project's gofer.yaml", metavar="FILE"
        ),
        Flag("--dry-run", "Print what would be written, and write nothing"),
        json_option(),
    ],
    help="Convert files of older tools to gofer.yaml, and report what became of every key. Knows the "
    "clusters, workspaces and accounts of ACT and quickdetection, jobs of the VS Code toolkit, "
    "`xt_config.yaml` and Philly's settings. Without FILE, the file of AML_CONFIG_PATH or the files of "
    "`aux_data/aml` are converted. An existing gofer.yaml keeps its keys; a name that it has with "
    "another value is refused. Secrets stay where they are.",
)
