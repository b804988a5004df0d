"""Change one key in the user's or the project's file of settings. A change that adds an error is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

from gofer.config.project import PROJECT_FILE, FileReader
from gofer.config.yaml.document import display, parse_document, read_text
from gofer.config.yaml.file import write_settings
from gofer.config.yaml.nodes import table
from gofer.config.yaml.problems import Problems
from gofer.config.yaml.text import Value, Verbatim, drop, put
from gofer.errors import ConfigError, UnknownName, UsageError
from gofer.ops.settings.config_check import FoundProblem, check_settings
from gofer.ops.settings.load import load_settings
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from gofer.config.yaml.nodes import Node
    from gofer.ops.session import Session

# Words between dots; a word in quotes may hold dots.
_WORD = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([^."']+))\s*(\.|$)""")


class SettingsFile(NamedTuple):
    """A file of settings that a person can change: its path and its text, which is empty when the file does
    not exist.
    """

    path: Path
    text: str
    is_user_file: bool

    @property
    def shown(self) -> str:
        return display(self.path)

    def write(self, text: str) -> None:
        """Replace the text in one step; ConfigError when the file has changed in the meantime or cannot be
        written.
        """
        if _text_of(self.path) != self.text:
            raise ConfigError(f"`{self.shown}` was changed by another program", hint="repeat the command")
        write_settings(self.path, text, private=self.is_user_file)


def settings_file(session: Session, *, project: bool) -> SettingsFile:
    """The user's file, or the project's, which may not exist yet. Errors in it do not matter here."""
    path = session.paths.config_file
    if project:
        settings = load_settings(session, FileReader(Problems(collects=True)))
        path = settings.project_file or settings.root / PROJECT_FILE
    return SettingsFile(path, _text_of(path), not project)


def set_key(session: Session, file: SettingsFile, key: str, text: str) -> str:
    """The file's text with the value under the key. `text` is taken as written, or as a YAML list or map
    where the key wants one. ConfigError for a value that the key cannot have.
    """
    keys = split_key(key, file)
    error: ConfigError | None = None
    for value in _values(text):
        changed = put(file.text, keys, value, file.shown)
        try:
            check_change(session, file, changed)
            return changed
        except ConfigError as problem:
            error = problem
    assert error is not None
    raise error


def unset_key(session: Session, file: SettingsFile, key: str) -> str:
    """The file's text without the key; UnknownName when the file does not have it."""
    keys = split_key(key, file)
    changed = drop(file.text, keys, file.shown)
    if changed == file.text:
        entries = _entries_above(file, keys)
        raise UnknownName(
            f"`{file.shown}` does not set `{key}`", hint=did_you_mean(keys[-1], entries) if entries else None
        )
    check_change(session, file, changed)
    return changed


def check_change(
    session: Session, file: SettingsFile, text: str, others: Mapping[Path, str] | None = None
) -> None:
    """ConfigError when the text has an error that the settings do not have now. `others` are new texts of
    other files.
    """
    known = {problem.message for problem in check_settings(session).errors}
    fresh = [
        problem
        for problem in check_settings(session, {**(others or {}), file.path: text}).errors
        if problem.message not in known
    ]
    if fresh:
        raise ConfigError(f"{fresh[0].message}; nothing was written", hint=fresh[0].hint)


def edit_text(
    session: Session,
    file: SettingsFile,
    edit: Callable[[str], str],
    again: Callable[[list[FoundProblem]], bool],
) -> str | None:
    """The text that `edit` makes of the file's, without errors; None when it is the same.

    While the text has errors in this file, `again` shows them and says whether to edit once more.
    ConfigError when it says no.
    """
    text = edit(file.text)
    while text != file.text:
        found = check_settings(session, {file.path: text}).errors
        mine = [problem for problem in found if problem.file == file.shown]
        if not mine:
            return text
        if not again(mine):
            raise ConfigError(str(mine[0]), hint=f"`{file.shown}` was not changed")
        text = edit(text)
    return None


def split_key(key: str, file: SettingsFile) -> list[str]:
    """The words of a key. Names of the file that hold dots are found; others need quotes:
    `targets."my.box".gpus`.
    """
    words: list[str] = []
    at = 0
    while at < len(key):
        match = _WORD.match(key, at)
        if match is None:
            break
        words.append((match[1] or match[2] or match[3]).strip())
        at = match.end()
        if not match[4]:
            break
    if at < len(key) or not words or key.endswith("."):
        raise UsageError(f"`{key}` is not a key", hint="write it like `job.gpus` or `targets.lab.partition`")
    return words if '"' in key or "'" in key else _known_words(words, _tree(file))


def _known_words(words: list[str], node: Node | None) -> list[str]:
    """The words, joined where the file has such a name with dots."""
    if not words:
        return []
    entries = table(node)
    for length in range(len(words), 1, -1):
        name = ".".join(words[:length])
        if name in entries:
            return [name, *_known_words(words[length:], entries[name])]
    return [words[0], *_known_words(words[1:], entries.get(words[0]))]


def _entries_above(file: SettingsFile, keys: list[str]) -> list[str]:
    node: Node | None = _tree(file)
    for key in keys[:-1]:
        node = table(node).get(key)
    return [*table(node)]


def _tree(file: SettingsFile) -> Node:
    return parse_document(file.text, source=file.path.name, path=file.shown)


def typed_value(text: str) -> Value:
    """A value typed on a command line: a list or a map in YAML, else the text as written."""
    return _values(text)[-1]


def _values(text: str) -> list[Value]:
    """What a value typed on a command line may mean: the text, then a list or a map in YAML."""
    values: list[Value] = [Verbatim(text)]
    if text.strip().startswith(("[", "{")):
        try:
            found = yaml.load(text, Loader=yaml.BaseLoader)
        except yaml.YAMLError:
            return values
        if isinstance(found, (list, dict)):
            values.append(_verbatim(found))
    return values


def _verbatim(value: object) -> Value:
    if isinstance(value, dict):
        return {str(name): _verbatim(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_verbatim(inner) for inner in value]
    return Verbatim(value)


def _text_of(path: Path) -> str:
    return read_text(path) if path.exists() else ""
