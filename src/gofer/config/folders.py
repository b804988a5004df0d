"""Folders that are the same here and in a store: which there are for a target, and where each lies.

`data` is the folder `data` of the project and a path in a store. A target may have folders of its own; those
at the top of the files are for all targets, and lie in the target's store unless they name another.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.nodes import Node, Place, Scalar, merged, table
from gofer.errors import ConfigError

if TYPE_CHECKING:
    from gofer.config.importers.aml import AmlFiles
    from gofer.config.settings import Settings


class Folder(NamedTuple):
    """One mapped folder of one target. `root` is the project's folder, so `root / name` is the local side.

    `mode` is None where none is written: what a run does then depends on where it runs.
    """

    name: str
    store: str
    path: str
    mode: str | None
    root: Path
    place: Place
    problem: str | None = None

    def check(self) -> Folder:
        """The folder itself; ConfigError when what was written about it cannot be used."""
        if self.problem:
            raise ConfigError(self.problem, where=self.place.where)
        return self


def folders_of(settings: Settings, target: str) -> dict[str, Folder]:
    """The folders of a target by name; UnknownName when there is no such target."""
    found = settings.target(target)
    node = merged(settings.section("folders"), _own(settings, target))
    mapped = {name: _folder(settings, name, entry, found.store) for name, entry in table(node).items()}
    files = settings.aml
    if files is not None and settings.is_imported(target):
        mapped |= _imported(files, target, settings.store_names)
    return mapped


def _own(settings: Settings, target: str) -> Node | None:
    return table(table(settings.section("targets")).get(target)).get("folders")


def _folder(settings: Settings, name: str, node: Node, store: str) -> Folder:
    entries = table(node)
    return Folder(
        name,
        _word(entries.get("store")) or store,
        settings.resolve(_word(entries.get("path")) or "").strip("/"),
        _word(entries.get("mode")),
        settings.root,
        node.place,
    )


def _imported(files: AmlFiles, target: str, taken: list[str]) -> Mapping[str, Folder]:
    return {
        one.name: Folder(
            one.name,
            files.store_name(one.account_file, taken) if one.account_file else "",
            one.path,
            None,
            files.root,
            one.place,
            one.problem,
        )
        for one in files.target(target).folders.values()
    }


def _word(node: Node | None) -> str | None:
    return node.text if isinstance(node, Scalar) and not node.is_null else None
