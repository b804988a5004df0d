"""`gofer config get`, `set`, `unset`, `edit`, `check` and `path`: read and change the files of settings."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import confirmation_prompt, print_message
from gofer.config.show import rows
from gofer.config.yaml.document import display
from gofer.errors import ConfigError, GoferError, UnknownName, UsageError
from gofer.ops.session import Session
from gofer.ops.settings.config_check import CheckedSettings, check_settings
from gofer.ops.settings.config_edit import SettingsFile, edit_text, set_key, settings_file, unset_key
from gofer.ops.settings.shared_settings import read_shared, write_shared
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from gofer.config.show import ShownSetting
    from gofer.ops.settings.config_check import FoundProblem
    from gofer.ops.settings.shared_settings import SharedSettings

_WRONG = 2


class _GetConfigOptions(TypedDict):
    key: str
    as_json: bool


def get_config(**given: Unpack[_GetConfigOptions]) -> int:
    """The value alone, or the keys below the key with their values, or JSON with the origin."""
    key = given["key"].rstrip(".")
    with Session() as session:
        known = rows(session.settings)
    found = [row for row in known if row.key == key or row.key.startswith(f"{key}.")]
    if not found:
        near = did_you_mean(key, [row.key for row in known])
        raise UnknownName(f"`{key}` is not set", hint=near or "`gofer config show` lists every setting")
    if given["as_json"]:
        print_json([row._asdict() for row in found])
    elif found[0].key == key:
        sys.stdout.write(f"{found[0].value}\n")
    else:
        sys.stdout.write("".join(f"{row.key}: {row.value}\n" for row in found))
    return 0


class _SetConfigOptions(TypedDict):
    key: str
    value: str
    project: bool


def set_config(**given: Unpack[_SetConfigOptions]) -> int:
    """Nothing on stdout. stderr names the file, and what overrides it."""
    key = given["key"]
    with Session() as session:
        file = settings_file(session, project=given["project"])
        file.write(set_key(session, file, key, given["value"]))
    print_message(f"set `{key}` in {file.shown}")
    _name_override(file, key)
    return 0


class _UnsetConfigOptions(TypedDict):
    key: str
    project: bool


def unset_config(**given: Unpack[_UnsetConfigOptions]) -> int:
    """Nothing on stdout."""
    with Session() as session:
        file = settings_file(session, project=given["project"])
        file.write(unset_key(session, file, given["key"]))
    print_message(f"removed `{given['key']}` from {file.shown}")
    return 0


def _name_override(file: SettingsFile, key: str) -> None:
    """A note when something stronger than the file sets the key."""
    row = _row_in_force(key)
    if row is not None and row.origin.rpartition(":")[0] != file.path.name:
        print_message(f"note: {row.origin} sets it to `{row.value}` here, which counts")


def _row_in_force(key: str) -> ShownSetting | None:
    with suppress(GoferError), Session() as session:
        return next((row for row in rows(session.settings) if row.key == key), None)
    return None


class _AddConfigOptions(TypedDict):
    name: str
    source: str | None
    project: bool
    yes: bool


def add_config(**given: Unpack[_AddConfigOptions]) -> int:
    """Nothing on stdout. stderr shows what the shared settings set, or what changes, before it is written."""
    with Session() as session:
        file = settings_file(session, project=given["project"])
        shared = read_shared(session, file, given["name"], given["source"])
        changes = _changes(shared)
        if not changes and shared.extended == file.text:
            print_message(f"{display(shared.path)} is unchanged")
            return 0
        for line in changes:
            print_message(line)
        if not given["yes"] and not _agrees(shared):
            print_message("nothing was written")
            return 1
        write_shared(file, shared)
    print_message(f"wrote {display(shared.path)}, which {file.shown} extends")
    return 0


def _changes(shared: SharedSettings) -> list[str]:
    """The values that the shared settings set; `-` and `+` where they are set again."""
    mark = "+ " if shared.before else ""
    lines = []
    for key in dict.fromkeys([*shared.before, *shared.after]):
        old, new = shared.before.get(key), shared.after.get(key)
        if old is not None and old != new:
            lines.append(f"- {key}: {old}")
        if new is not None and old != new:
            lines.append(f"{mark}{key}: {new}")
    return lines


def _agrees(shared: SharedSettings) -> bool:
    ask = confirmation_prompt()
    if ask is None:
        raise UsageError("no terminal can confirm these settings", hint="add `--yes` if you trust them")
    return ask("settings can run programs when you submit. Do you trust these?")


class _EditConfigOptions(TypedDict):
    project: bool


def edit_config(**given: Unpack[_EditConfigOptions]) -> int:
    """Opens the editor. The file is replaced only by a text without errors."""
    with Session() as session:
        file = settings_file(session, project=given["project"])
        copy = Path(mkdtemp(prefix="gofer-edit-"), file.path.name)
        try:
            text = edit_text(session, file, lambda text: _edited(copy, text), _asks_again)
        except ConfigError as error:
            raise ConfigError(error.message, hint=f"{error.hint}; your text is in {copy}") from None
    if text is None:
        print_message(f"{file.shown} is unchanged")
    else:
        file.write(text)
        print_message(f"wrote {file.shown}")
    copy.unlink(missing_ok=True)
    copy.parent.rmdir()
    return 0


def _edited(copy: Path, text: str) -> str:
    copy.write_text(text, encoding="utf-8")
    click.edit(filename=str(copy))
    return copy.read_text(encoding="utf-8")


def _asks_again(problems: list[FoundProblem]) -> bool:
    _print_errors(problems, sys.stderr.write)
    ask = confirmation_prompt()
    return ask is not None and ask("edit again?")


def _print_errors(problems: list[FoundProblem], write: Callable[[str], object]) -> None:
    for problem in problems:
        write(f"error: {problem}\n" + (f"hint: {problem.hint}\n" if problem.hint else ""))


class _CheckConfigOptions(TypedDict):
    as_json: bool


def check_config(**given: Unpack[_CheckConfigOptions]) -> int:
    """Every error on stdout, or JSON. Exits with 2 when there is one."""
    with Session() as session:
        checked = check_settings(session)
    if given["as_json"]:
        print_json(_document(checked))
    else:
        _print_errors(checked.errors, sys.stdout.write)
        for warning in checked.warnings:
            print_message(f"warning: {warning}")
        _print_summary(checked)
    return _WRONG if checked.errors else 0


def _document(checked: CheckedSettings) -> dict[str, object]:
    return {
        "files": [str(path) for path in checked.files],
        "errors": [_problem(problem) for problem in checked.errors],
        "warnings": checked.warnings,
    }


def _problem(problem: FoundProblem) -> dict[str, object]:
    return {
        "file": problem.file,
        "line": problem.line,
        "where": problem.where,
        "message": problem.message,
        "hint": problem.hint,
    }


def _print_summary(checked: CheckedSettings) -> None:
    files = ", ".join(display(path) for path in checked.files) or "no file of settings"
    errors = len(checked.errors)
    words = "no errors" if not errors else "1 error" if errors == 1 else f"{errors} errors"
    print_message(f"{words} in {files}" if checked.files else f"{words}: there is {files}")


class _PrintPathOptions(TypedDict):
    project: bool


def print_path(**given: Unpack[_PrintPathOptions]) -> int:
    """The path, whether the file exists or not."""
    with Session() as session:
        file = settings_file(session, project=given["project"])
    sys.stdout.write(f"{file.path}\n")
    if not file.path.exists():
        print_message("the file does not exist yet")
    return 0


def _keys(ctx: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    try:
        with Session() as session:
            return [
                CompletionItem(row.key, help=row.value)
                for row in rows(session.settings)
                if row.key.startswith(start)
            ]
    except (GoferError, OSError):
        return []


def _key() -> click.Argument:
    return click.Argument(["key"], metavar="KEY", shell_complete=_keys)


def _project() -> Flag:
    return Flag("--project", "The project's gofer.yaml instead of your own config.yaml")


get_command = Command(
    "get",
    get_config,
    [_key(), json_option()],
    help="Print the value of a setting in force, as `gofer config get job.gpus`, or all values below a key.",
)
set_command = Command(
    "set",
    set_config,
    [_key(), click.Argument(["value"], metavar="VALUE"), _project()],
    help="Set a key in your file of settings: `gofer config set job.time_limit 12h`. Comments and the order "
    "of the file stay. A list or a map is written as in YAML: `'[a, b]'`. A value that gofer could not use "
    "is refused, and nothing is written.",
)
unset_command = Command(
    "unset",
    unset_config,
    [_key(), _project()],
    help="Remove a key from your file of settings, with everything below it.",
)
add_command = Command(
    "add",
    add_config,
    [
        click.Argument(["name"], metavar="NAME"),
        click.Argument(["source"], required=False, metavar="[SOURCE]"),
        _project(),
        Flag("-y --yes", "Do not ask"),
    ],
    help="Add the targets and other settings that somebody shares: a copy of a FILE, of `store:path`, or of "
    "`python:PACKAGE/FILE`, which your file then extends. gofer shows what they set and asks. Without "
    "SOURCE, read the source of NAME again and show what has changed.",
)
edit_command = Command(
    "edit",
    edit_config,
    [_project()],
    help="Open your file of settings in `$VISUAL` or `$EDITOR`. The file is replaced when the text has no "
    "errors.",
)
check_command = Command(
    "check",
    check_config,
    [json_option()],
    help="Check all files of settings, and print every error with its file and line. Exits with 2 when there "
    "is one. Starts nothing and calls no service.",
)
path_command = Command(
    "path", print_path, [_project()], help="Print the path of your file of settings, which may not exist yet."
)
