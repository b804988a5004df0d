"""The store for the runs of an imported target, where the imported file names none.

A target that has a store in the project's own gofer.yaml keeps it. A target that needs no store gets none.

The import may write to another file (`--out`), and readers of that file do not read the project's own. So it
gets a copy of every store of the project that an imported target names. In the project's own file this
changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gofer.config.layers import DEFAULT_STORE
from gofer.config.paths import home_folder
from gofer.config.project import find_project_file
from gofer.config.yaml.document import display, read_document
from gofer.config.yaml.nodes import Node, Scalar, table
from gofer.importers.accounts import runs_store
from gofer.importers.draft import Entry, ImportDraft

_AZURE = "azureml"


class ProjectFile(NamedTuple):
    """The project's gofer.yaml: its sections as written, and its path; both empty when there is no file."""

    path: Path | None
    entries: dict[str, Node]

    def target(self, name: str) -> dict[str, Node]:
        return table(table(self.entries.get("targets")).get(name))

    def store(self, name: str) -> dict[str, Node]:
        return table(table(self.entries.get("stores")).get(name))

    def store_of(self, target: str) -> str | None:
        """The name of the store that the target has there."""
        return _text(self.target(target).get("store"))


def read_project_file(folder: Path) -> ProjectFile:
    """The file of the folder or of a folder above it; ConfigError when it cannot be read."""
    path = find_project_file(folder, home_folder(os.environ))
    return ProjectFile(path, dict(read_document(path).entries) if path else {})


def add_project_stores(draft: ImportDraft) -> None:
    """Write the project's stores that the targets name along with them; such an entry holds references and no
    secret itself.
    """
    own = read_project_file(draft.folder)
    for name in dict.fromkeys(_named(draft)):
        written = {key: text for key, node in own.store(name).items() if (text := _text(node)) is not None}
        if written and name not in draft.stores:
            draft.stores[name] = {**written}
            for text in written.values():
                draft.means_text(text)


def _text(node: Node | None) -> str | None:
    return node.text if isinstance(node, Scalar) and not node.is_null else None


def _named(draft: ImportDraft) -> Iterator[str]:
    """The stores that targets keep their runs in, and those of their folders."""
    for target in draft.targets.values():
        folders = target.get("folders")
        for entry in (target, *(folders.values() if isinstance(folders, dict) else ())):
            store = entry.get("store") if isinstance(entry, dict) else None
            if isinstance(store, str):
                yield store


class CodeArchive(NamedTuple):
    """Where a tool had the code: a store, and in it the path of the archive; None where only data was."""

    store: str
    path: str | None = None


class ChosenStore(NamedTuple):
    """The key `store` of a target, or nothing, and whether the store is where the tool had the code."""

    entry: Entry
    is_beside_code: bool = False


def choose_store(draft: ImportDraft, target: str, place: CodeArchive | None) -> ChosenStore:
    """The store that the target has already, else gofer's own folder beside the code. Nothing, with a
    note, when no place is known that Azure ML can reach.
    """
    own = read_project_file(draft.folder)
    chosen = own.store_of(target)
    if chosen is not None:
        return ChosenStore({"store": chosen})
    if not _needs_store(own, target):
        return ChosenStore({})
    if _is_blob(own, DEFAULT_STORE):
        draft.note(_in_default(target, own))
        return ChosenStore({})
    if place is not None and (place.store in draft.stores or _is_blob(own, place.store) is not False):
        store = runs_store(draft, place.store, place.path)
        draft.note(f"runs on `{target}` are kept in the store `{store}`, named by `targets.{target}.store`")
        return ChosenStore({"store": store}, place.path is not None)
    draft.note(_no_place(target))
    return ChosenStore({})


def _in_default(target: str, own: ProjectFile) -> str:
    where = f" of `{display(own.path)}`" if own.path else ""
    return (
        f"runs on `{target}` are kept in the store `{DEFAULT_STORE}`{where}; a file that is used elsewhere "
        f"needs the same store under another name, and `store: NAME` in the target `{target}`"
    )


def _no_place(target: str) -> str:
    return (
        f"the file does not say where runs on `{target}` could be kept, and on Azure ML a target needs a "
        "store whose URL begins with `az://`: put `NAME: {url: 'az://CONTAINER/gofer', account: ACCOUNT}` "
        f"below `stores:` and `store: NAME` into the target `{target}`"
    )


def _needs_store(own: ProjectFile, target: str) -> bool:
    """Whether the target needs a store of its own: Azure ML does, and so may a kind that is not chosen
    yet.
    """
    kind = own.target(target).get("kind")
    return not isinstance(kind, Scalar) or kind.text == _AZURE


def _is_blob(own: ProjectFile, store: str) -> bool | None:
    """Whether the store is in an Azure account; None when gofer.yaml has no such store."""
    url = own.store(store).get("url")
    return url.text.startswith("az://") if isinstance(url, Scalar) else None
