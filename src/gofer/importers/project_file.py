"""The project's own gofer.yaml, as far as an import leans on it: targets that are there, stores they name.

What is written may lie elsewhere (`--out`), where nobody reads that file. So a store of the project that an
imported target names is written along with it; beside itself, in the project's own file, it changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gofer.config.document import read_document
from gofer.config.nodes import Node, Scalar, table
from gofer.config.paths import home_folder
from gofer.config.project import find_project_file
from gofer.importers.draft import ImportDraft


class ProjectFile(NamedTuple):
    """Its sections as written, and where it is; none where there is no file."""

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
    """That of the folder, or of one above it; ConfigError when it cannot be read."""
    path = find_project_file(folder, home_folder(os.environ))
    return ProjectFile(path, dict(read_document(path).entries) if path else {})


def bring_stores(draft: ImportDraft) -> None:
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
