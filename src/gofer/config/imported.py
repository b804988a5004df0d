"""Targets and stores of this project that other tools' files describe, in the words of the settings.

A file becomes what `gofer config import` would write of it, by the same importer; only nothing is written.
What differs: account files are stores as they are, `ACCOUNT:PREFIX` is a folder of one, and a variable that
looks like a credential is read from the file when a run is sealed, and never before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.importers.account import holds_credential, read_account
from gofer.config.importers.act import take_act
from gofer.config.importers.draft import ImportDraft, Value, safe_name
from gofer.config.importers.key_paths import dotted, leaves
from gofer.config.importers.keys import KeyOutcome, SheetKeys
from gofer.config.nodes import Items, Node, Scalar, Table, ValueOrigin
from gofer.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from gofer.config.importers.aml import AmlFiles
    from gofer.config.settings import Settings

# Names of secrets that are looked up in a file of `aux_data/aml`: this, the target, the variable.
SECRETS = "aux_data.aml."


class Unused(NamedTuple):
    """A key of a file that gofer makes no use of, and why."""

    key: str
    node: Node
    why: str


class ImportedTarget(NamedTuple):
    """One file. `node` is its entry of `targets:`, `root` what its folders are relative to.

    `problems` are mapped folders that cannot be had, by name; `notes` what a person should know whom the
    target fails.
    """

    node: Table
    root: Path
    problems: Mapping[str, tuple[str, ValueOrigin]]
    accounts: tuple[Path, ...]
    unused: tuple[Unused, ...]
    notes: tuple[str, ...] = ()


class _Live(ImportDraft):
    """A draft of one file that is read and not written. `kept` holds credentials: never show it."""

    def __init__(self, files: AmlFiles, target: str, taken: list[str]) -> None:
        super().__init__(files.root, taken, self._name)
        self.kept: dict[str, str] = {}
        self.files: list[Path] = []
        self._aml, self._target, self._taken = files, target, taken

    def _name(self, account_file: Path) -> str:
        if account_file not in self.files:
            self.files.append(account_file)
        return self._aml.store_name(account_file, self._taken)

    def mention(self, text: str) -> None:
        """Nothing: there is nobody to read it."""

    def keep(self, keys: SheetKeys, key: str, name: str, to: str) -> str:
        from gofer.config.redact import remember

        text = keys.text(key) or ""
        remember(text)
        secret = f"{SECRETS}{safe_name(self._target)}.{safe_name(name)}"
        self.kept[secret] = text
        reference = f"${{secret:{secret}}}"
        self.means_text(reference)
        keys.changed(key, to, "read from this file when a run is submitted")
        return reference


def read_imported(files: AmlFiles, name: str, taken: list[str]) -> ImportedTarget:
    """The target in `aux_data/aml/NAME.yaml`; ConfigError when the file cannot be used."""
    draft = _take(files, name, taken)
    ((target, entry),) = draft.targets.items()
    places = {one.to: one.place for one in draft.findings() if one.to}
    file = ValueOrigin(files.path(name).name, None, str(files.path(name)))
    node = _node(draft.inert(entry), f"targets.{target}", places, file)
    assert isinstance(node, Table)
    problems = {folder: problem for (_, folder), problem in draft.problems.items()}
    notes = tuple(note.removesuffix(" and import again") for note in draft.notes)
    unused = tuple(_unused(draft))
    return ImportedTarget(node, files.root, problems, tuple(draft.files), unused, notes)


def imported_secret(files: AmlFiles, secret: str) -> str | None:
    """The value of a variable that a file of `aux_data/aml` holds; None for a secret that is none such."""
    for name in files.names:
        if secret.startswith(f"{SECRETS}{safe_name(name)}."):
            found = _take(files, name, []).kept.get(secret)
            if found is not None:
                return found
    return None


def _take(files: AmlFiles, name: str, taken: list[str]) -> _Live:
    draft = _Live(files, name, taken)
    take_act(draft, files.path(name), name)
    return draft


def _node(value: Value, key: str, places: Mapping[str, ValueOrigin], file: ValueOrigin) -> Node:
    """Plain data as a tree of nodes, each with the place of what it was made of, as far as that is known."""
    place = places.get(key, file)
    if isinstance(value, dict):
        return Table(
            {name: _node(inner, f"{key}.{name}", places, file) for name, inner in value.items()}, place
        )
    if isinstance(value, list):
        return Items(tuple(_node(inner, key, places, file) for inner in value), place)
    if isinstance(value, bool):
        return Scalar("true" if value else "false", place)
    return Scalar(str(value), place, plain=not isinstance(value, str))


def _unused(draft: ImportDraft) -> Iterator[Unused]:
    for sheet in draft.sheets:
        nodes = {(dotted(path), node.place): node for path, node in leaves(sheet.document)}
        for one in sheet.findings():
            node = nodes.get((one.key, one.place))
            if node is not None and one.outcome in (KeyOutcome.DROPPED, KeyOutcome.UNKNOWN):
                yield Unused(one.key, node, one.why)


def imported_store(settings: Settings, name: str) -> Table | None:
    """An account file, or a folder in its account, as an entry of `stores:`; None when the name is
    unknown.
    """
    account, colon, prefix = name.partition(":")
    path = settings.aml.account_file(account) if settings.aml else None
    if path is None:
        return None
    entry = read_account(path)
    url = entry.entries["url"]
    assert isinstance(url, Scalar)
    if colon and prefix.strip("/"):
        entry.entries["url"] = url._replace(text=f"{url.text}/{prefix.strip('/')}")
    return entry


def imported_accounts(settings: Settings) -> Iterator[Path]:
    """The account files that imported targets use, each once; a target that cannot be read has none."""
    seen: set[Path] = set()
    for name in settings.aml.names if settings.aml else ():
        with suppress(ConfigError, UnknownName):
            target = settings.imported(name)
            for path in target.accounts if target else ():
                if path not in seen:
                    seen.add(path)
                    yield path


def imported_store_names(settings: Settings) -> list[str]:
    """The stores that imported targets use."""
    files, taken = settings.aml, settings.store_names
    return sorted(files.store_name(path, taken) for path in imported_accounts(settings)) if files else []


def files_with_credentials(settings: Settings) -> list[Path]:
    """Account files of the project that hold a key or a token in plain text: no snapshot may have them."""
    from gofer.config.importers.aml import ACCOUNTS

    files = settings.aml
    if files is None:
        return []
    usual = sorted((files.root / ACCOUNTS).glob("*.y*ml"))
    return [path for path in dict.fromkeys([*usual, *imported_accounts(settings)]) if holds_credential(path)]
