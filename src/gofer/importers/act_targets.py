"""Reads the targets and stores of `aux_data/aml`, files of ACT, as entries of the settings.

The importer is that of `gofer config import`, but nothing is written. The differences: account files are
stores under their own names, `ACCOUNT:PREFIX` is a folder of one, and a variable that looks like a credential
is read from the file only when a run is submitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from gofer.config.redact import remember
from gofer.config.target_provider import ImportedTarget, UnusedKey
from gofer.config.yaml.nodes import Items, Node, Scalar, Table, ValueOrigin
from gofer.importers.account import holds_credential, read_account
from gofer.importers.act import import_act
from gofer.importers.aml import ACCOUNTS, AmlFiles
from gofer.importers.draft import ImportDraft, Value, safe_name
from gofer.importers.keys import KeyOutcome, SheetKeys, dotted, leaves

# Names of secrets that are looked up in a file of `aux_data/aml`: this, the target, the variable.
SECRETS = "aux_data.aml."


class _Live(ImportDraft):
    """A draft of one file that is read and not written. `kept` holds credentials: never show it."""

    def __init__(self, files: AmlFiles, target: str, taken: Collection[str]) -> None:
        super().__init__(files.root, taken, self._name)
        self.kept: dict[str, str] = {}
        self.files: list[Path] = []
        self._aml, self._target, self._taken = files, target, taken

    def _name(self, account_file: Path) -> str:
        if account_file not in self.files:
            self.files.append(account_file)
        return self._aml.store_name(account_file, self._taken)

    def mention(self, text: str) -> None:
        """Does nothing: nobody reads the notes of this draft."""

    def keep(self, keys: SheetKeys, key: str, name: str, to: str) -> str:
        text = keys.text(key) or ""
        remember(text)
        secret = f"{SECRETS}{safe_name(self._target)}.{safe_name(name)}"
        self.kept[secret] = text
        reference = f"${{secret:{secret}}}"
        self.means_text(reference)
        keys.changed(key, to, "read from this file when a run is submitted")
        return reference


def read_imported(files: AmlFiles, name: str, taken: Collection[str]) -> ImportedTarget:
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


def _take(files: AmlFiles, name: str, taken: Collection[str]) -> _Live:
    draft = _Live(files, name, taken)
    import_act(draft, files.path(name), name)
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


def _unused(draft: ImportDraft) -> Iterator[UnusedKey]:
    for sheet in draft.sheets:
        nodes = {(dotted(path), node.place): node for path, node in leaves(sheet.document)}
        for one in sheet.findings():
            node = nodes.get((one.key, one.place))
            if node is not None and one.outcome in (KeyOutcome.DROPPED, KeyOutcome.UNKNOWN):
                yield UnusedKey(one.key, node, one.why)


def imported_store(files: AmlFiles, name: str) -> Table | None:
    """An account file, or a folder in its account, as an entry of `stores:`; None for an unknown name."""
    account, colon, prefix = name.partition(":")
    path = files.account_file(account)
    if path is None:
        return None
    entry = read_account(path)
    url = entry.entries["url"]
    assert isinstance(url, Scalar)
    if colon and prefix.strip("/"):
        entry.entries["url"] = url._replace(text=f"{url.text}/{prefix.strip('/')}")
    return entry


def files_with_credentials(files: AmlFiles, accounts: Iterable[Path]) -> list[Path]:
    """Those of the account files, and of the usual folder of account files, that hold a credential."""
    usual = sorted((files.root / ACCOUNTS).glob("*.y*ml"))
    return [path for path in dict.fromkeys([*usual, *accounts]) if holds_credential(path)]
