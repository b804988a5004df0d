"""Mapped folders: which a target has, and where each is on this machine and in a store.

`data` is the folder `data` of the project and a path in a store. A target may have folders of its own. The
folders at the top of the files are for all targets; they are in the target's store unless they name another.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.yaml.decode import parse_boolean
from gofer.config.yaml.nodes import BUILT_IN, Items, Node, Scalar, Table, ValueOrigin, merged, table
from gofer.core import folder_modes
from gofer.errors import ConfigError
from gofer.model.mount_options import MountOptions, parse_mount_options

if TYPE_CHECKING:
    from gofer.config.settings import Settings


class MappedFolder(NamedTuple):
    """One mapped folder of one target. `root` is the project's folder, so `root / name` is the local side.

    `mode` is None where none is written: what a run does then depends on where it runs. `read_only` is about
    runs; commands that send files there are a person's own doing. `options` are flags of `rclone mount`.
    """

    name: str
    store: str
    path: str
    mode: str | None
    root: Path
    place: ValueOrigin
    problem: str | None = None
    read_only: bool = False
    options: tuple[str, ...] = ()

    def check(self) -> MappedFolder:
        """The folder itself; ConfigError when what was written about it cannot be used."""
        if self.problem:
            raise ConfigError(self.problem, where=self.place.where)
        return self


def folders_of(settings: Settings, target: str) -> dict[str, MappedFolder]:
    """The folders of a target by name; UnknownName when there is no such target."""
    found = settings.target(target)
    mapped = {
        name: _folder(settings, name, entry, found.store)
        for name, entry in table(_joined(settings, target)).items()
    }
    imported = settings.imported(target)
    if imported is None:
        return mapped
    theirs = table(imported.node.entries.get("folders"))
    mapped |= {name: mapped[name]._replace(root=imported.root) for name in theirs}
    bad = {
        name: MappedFolder(name, "", "", None, imported.root, place, problem)
        for name, (problem, place) in imported.problems.items()
    }
    return {**mapped, **bad}


def _joined(settings: Settings, target: str) -> Node | None:
    """The folders of all targets under those of this one; a folder of another tool's file is only that."""
    shared, own = settings.section("folders"), table(settings.target_node(target)).get("folders")
    if settings.imported(target) is None:
        return merged(shared, own)
    return Table({**table(shared), **table(own)}, own.place if own else BUILT_IN)


def _folder(settings: Settings, name: str, node: Node, store: str) -> MappedFolder:
    entries = table(node)
    mode, read_only = _word(entries.get("mode")), _is_true(entries.get("read_only"))
    options = parse_mount_options(_words(entries.get("options")))
    problem = _options_problem(name, mode, options)
    if read_only and mode == folder_modes.UPLOAD:
        problem = f"the folder `{name}` is `read_only`, and `mode: upload` writes to it; leave one out"
    return MappedFolder(
        name,
        _word(entries.get("store")) or store,
        settings.resolve(_word(entries.get("path")) or "").strip("/"),
        mode,
        settings.root,
        node.place,
        problem,
        read_only,
        options.flags,
    )


def _options_problem(name: str, mode: str | None, options: MountOptions) -> str | None:
    """Why a mount cannot have these options; None when it can."""
    if options.refused:
        return f"`options` of the folder `{name}`: {'; '.join(map(str, options.refused))}"
    if options.flags and mode not in (None, folder_modes.MOUNT):
        return (
            f"`options` of the folder `{name}` are those of a mount; leave out either them or `mode: {mode}`"
        )
    return None


def _is_true(node: Node | None) -> bool:
    return isinstance(node, Scalar) and parse_boolean(node) is True


def _words(node: Node | None) -> list[str]:
    nodes = node.items if isinstance(node, Items) else (node,)
    return [item.text for item in nodes if isinstance(item, Scalar) and not item.is_null]


def _word(node: Node | None) -> str | None:
    return node.text if isinstance(node, Scalar) and not node.is_null else None
